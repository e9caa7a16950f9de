// The inside of headrace::Context.
#pragma once

#include <memory>

#include <headrace/context.h>

#include "transfer/resources.h"

class headrace::Context::Impl {
 public:
  explicit Impl(std::shared_ptr<transfer::Resources> shared) : resources(std::move(shared)) {}
  const std::shared_ptr<transfer::Resources> resources;
};

// The implementation of headrace::Context.
#pragma once

#include <headrace/context.h>

#include <memory>

#include "transfer/context/resources.h"

class headrace::Context::Impl {
 public:
  explicit Impl(std::shared_ptr<transfer::Resources> shared) : resources(std::move(shared)) {}
  const std::shared_ptr<transfer::Resources> resources;
};

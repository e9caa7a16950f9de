// A simulated machine for tests of how stores detect their environment.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "http/surroundings.h"

namespace headrace::testing {

struct GivenSurroundings {
  std::map<std::string, std::string> variables, files;

  // The result refers to this object.
  http::Surroundings surroundings() const {
    return {[this](const char* name) {
              const auto found = variables.find(name);
              return found == variables.end() ? std::string() : found->second;
            },
            [this](const std::string& path) {
              const auto found = files.find(path);
              return found == files.end() ? std::nullopt : std::optional(found->second);
            }};
  }
};

}  // namespace headrace::testing

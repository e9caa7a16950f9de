// Processes of their own for tests of the engine gds, since a process loads one libcufile and opens its driver once.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>

#include "support/child.h"
#include "support/fake_cufile.h"

namespace headrace::support {

// A file of the build folder.
inline std::string built(const std::string& file) {
  const char* bin = std::getenv("HEADRACE_BIN_DIR");
  return std::filesystem::weakly_canonical((bin != nullptr ? std::string(bin) : ".") + "/../" + file);
}
inline std::string fake_file() { return built("tests/cufile/fake_cufile.so"); }

// Used in a child process, where a failed expectation must fail the process.
inline bool child_failed = false;
inline void expect_in_child(bool right, const char* what, const std::string& more = {}) {
  if (right) return;
  child_failed = true;
  std::cerr << "expectation failed: " << what << " " << more << std::endl;
}
#define HOLDS(...) ::headrace::support::expect_in_child((__VA_ARGS__), #__VA_ARGS__)
#define HOLDS_FOR(text, ...) ::headrace::support::expect_in_child((__VA_ARGS__), #__VA_ARGS__, text)

inline void in_process(const std::function<void()>& body, unsigned seconds = 30) {
  std::cout.flush();
  EXPECT_EQ(in_child(
                [&] {
                  child_failed = false;
                  body();
                  return child_failed ? 1 : 0;
                },
                seconds),
            0);
}

inline FakeCufile& use_fake() {
  ::setenv("HEADRACE_GDS_LIBRARY", fake_file().c_str(), 1);
  void* library = ::dlopen(fake_file().c_str(), RTLD_NOW | RTLD_LOCAL);
  auto control =
      library == nullptr ? nullptr : reinterpret_cast<FakeCufileControl>(::dlsym(library, kFakeCufileControl));
  if (control == nullptr) {
    std::cerr << "no fake: " << ::dlerror() << std::endl;
    ::_exit(9);
  }
  return control();
}

}  // namespace headrace::support

// Writes a test's objects into a directory.
#pragma once

#include "support/stores_under_test.h"

namespace headrace::testing {

inline std::string fill_file(const std::string& dir, const Objects& objects) {
  return fill_by_put(dir, objects) == nullptr ? "" : dir;
}

inline std::span<const StoreUnderTest> file_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"file", true, true, &fill_file}};
  return kStores;
}

}  // namespace headrace::testing

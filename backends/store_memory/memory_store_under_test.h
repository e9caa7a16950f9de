// Puts a test's objects into a store in memory.
#pragma once

#include "support/stores_under_test.h"

namespace headrace::testing {

// A memory store lives as long as someone holds it; the last one filled is held here.
inline std::string fill_memory(const std::string& dir, const Objects& objects) {
  static std::shared_ptr<store::Store> keep;
  static int count = 0;
  const std::string url = "memory://" + dir + std::to_string(count++);
  keep = fill_by_put(url, objects);
  return keep == nullptr ? "" : url;
}

inline std::span<const StoreUnderTest> memory_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"memory", true, true, &fill_memory}};
  return kStores;
}

}  // namespace headrace::testing

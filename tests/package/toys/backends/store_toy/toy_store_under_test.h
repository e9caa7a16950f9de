// Makes a toy file for tests. With this, the store takes part in every suite that runs over stores.
#pragma once

#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace::testing {

inline std::string fill_toy(const std::string& dir, const Objects& objects) {
  store::Bytes file;
  const auto append = [&](std::span<const std::byte> bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); };
  for (const auto& [key, bytes] : objects) {
    const std::string head = std::to_string(key.size()) + " " + std::to_string(bytes.size()) + "\n" + key;
    append(std::as_bytes(std::span(head)));
    append(bytes);
  }
  const std::string path = dir + "/objects.toy";
  return support::write_file(path, file) ? "toy://" + path : "";
}

inline std::span<const StoreUnderTest> toy_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"toy", false, true, &fill_toy}};
  return kStores;
}

}  // namespace headrace::testing

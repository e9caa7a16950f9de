// Serves a test's objects as Azure Blob Storage does.
#pragma once

#include <cstdlib>

#include "support/http_server.h"

namespace headrace::testing {

inline std::string fill_az(const std::string&, const Objects& objects) {
  Objects below;
  for (const auto& [key, bytes] : objects) below["some/prefix/" + key] = bytes;
  ::setenv("AZURE_STORAGE_ENDPOINT", serve_objects("az", below, ObjectStyle::kAzure).c_str(), 1);
  ::setenv("AZURE_STORAGE_ACCOUNT", "account", 1);
  ::setenv("AZURE_STORAGE_KEY", "b2YtYS10ZXN0", 1);
  return "az://bucket/some/prefix";
}

inline std::string fill_abfs(const std::string& dir, const Objects& objects) {
  fill_az(dir, objects);
  return "abfs://bucket@account.dfs.core.windows.net/some/prefix";
}

inline std::string fill_abfss(const std::string& dir, const Objects& objects) {
  fill_az(dir, objects);
  return "abfss://bucket/some/prefix";
}

inline std::span<const StoreUnderTest> az_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"az", false, false, &fill_az, true, true},
                                               {"abfs", false, false, &fill_abfs, true, true},
                                               {"abfss", false, false, &fill_abfss, true, true}};
  return kStores;
}

}  // namespace headrace::testing

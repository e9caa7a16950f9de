// Serves a test's objects as Google Cloud Storage does.
#pragma once

#include <cstdlib>

#include "support/http_server.h"

namespace headrace::testing {

inline std::string fill_gs(const std::string&, const Objects& objects) {
  Objects below;
  for (const auto& [key, bytes] : objects) below["some/prefix/" + key] = bytes;
  ::setenv("STORAGE_EMULATOR_HOST", serve_objects("gs", below, ObjectStyle::kS3).c_str(), 1);
  ::setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "of-a-test", 1);
  return "gs://bucket/some/prefix";
}

inline std::string fill_gcs(const std::string& dir, const Objects& objects) {
  const std::string url = fill_gs(dir, objects);
  return "gcs" + url.substr(2);
}

inline std::span<const StoreUnderTest> gs_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"gs", false, true, &fill_gs, true, true},
                                               {"gcs", false, true, &fill_gcs, true, true}};
  return kStores;
}

}  // namespace headrace::testing

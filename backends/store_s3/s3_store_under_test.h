// Serves a test's objects as S3 does.
#pragma once

#include <cstdlib>

#include "support/http_server.h"

namespace headrace::testing {

inline std::string fill_s3(const std::string&, const Objects& objects) {
  Objects below;
  for (const auto& [key, bytes] : objects) below["some/prefix/" + key] = bytes;
  ::setenv("AWS_ENDPOINT_URL", serve_objects("s3", below, ObjectStyle::kS3).c_str(), 1);
  ::setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "of-a-test", 1);
  return "s3://bucket/some/prefix";
}

inline std::span<const StoreUnderTest> s3_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"s3", false, true, &fill_s3, true, true}};
  return kStores;
}

}  // namespace headrace::testing

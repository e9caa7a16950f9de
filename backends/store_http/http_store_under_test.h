// Serves a test's objects over HTTP and HTTPS.
#pragma once

#include <cstdlib>

#include "support/http_server.h"

namespace headrace::testing {

inline std::string fill_http(const std::string&, const Objects& objects) {
  Objects below;
  for (const auto& [key, bytes] : objects) below["base dir/" + key] = bytes;
  return serve_objects("http", below, ObjectStyle::kPlain) + "/base%20dir";
}

inline std::string fill_https(const std::string& dir, const Objects& objects) {
  const std::string certificate = dir + "/certificate.pem";
  std::string url = serve_objects("https", objects, ObjectStyle::kPlain, certificate);
  ::setenv("AWS_CA_BUNDLE", certificate.c_str(), 1);
  return url;
}

inline std::span<const StoreUnderTest> http_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"http", false, true, &fill_http, true, false},
                                               {"https", false, true, &fill_https, true, false}};
  return kStores;
}

}  // namespace headrace::testing

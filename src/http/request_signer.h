// RequestSigner: AWS Signature Version 4 for requests of S3 without a body.
//
// Our own, since libcurl's signs other things in each of its releases, and cannot follow a server's clock.
//
// Threads: every call from any thread.
// Fails:   not at all. The secret is in no text but the signature made with it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "http/hmac_sha256.h"
#include "http/url.h"

namespace headrace::http {

struct AwsKeys {
  std::string id, secret, session_token;  // no id: nothing is signed
};

class RequestSigner {
 public:
  RequestSigner(AwsKeys keys, std::string region) : keys_(std::move(keys)), region_(std::move(region)) {}

  // Adds the header lines of a signed GET of `url` at `now` (seconds since 1970): Authorization and x-amz-*.
  void sign(const Url& url, std::int64_t now, std::vector<std::string>& headers);

  // The query as it is signed, and best sent: sorted, with "=" behind names without a value.
  static std::string canonical_query(std::string_view query);

  std::string region() const;
  void set_region(std::string region);

 private:
  const AwsKeys keys_;
  mutable std::mutex mutex_;
  std::string region_;  // guarded by mutex_
  std::string day_;     // guarded by mutex_: of which key_ is
  Digest key_{};        // guarded by mutex_
};

}  // namespace headrace::http

// RequestSigner: AWS Signature Version 4.
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

#include "http/credentials.h"
#include "http/hmac_sha256.h"
#include "http/url.h"

namespace headrace::http {

// For requests of S3 without a body.
class RequestSigner {
 public:
  explicit RequestSigner(std::string region, bool requester_pays = false)
      : requester_pays_(requester_pays), region_(std::move(region)) {}

  // Adds the header lines of a GET of `url` at `now` (seconds since 1970) that `keys` have signed: Authorization and
  // x-amz-*. Without keys: those that need no signature.
  void sign(const Url& url, std::int64_t now, const AwsKeys& keys, std::vector<std::string>& headers);

  // The query as it is signed, and best sent: sorted, with "=" behind names without a value.
  static std::string canonical_query(std::string_view query);

  std::string region() const;
  void set_region(std::string region);

 private:
  const bool requester_pays_;
  mutable std::mutex mutex_;
  std::string region_;        // guarded by mutex_
  std::string day_, secret_;  // guarded by mutex_: of which key_ is
  Digest key_{};              // guarded by mutex_
};

// The header lines of a POST of the form `body`, for any service.
void sign_form(const Url& url, std::string_view body, const AwsKeys& keys, std::string_view region,
               std::string_view service, std::int64_t now, std::vector<std::string>& headers);

}  // namespace headrace::http

// RequestSigner: AWS Signature Version 4. libcurl's implementation is not used: what it signs varies between releases,
// and it cannot follow a server's clock.
//
// Threads: every call from any thread.
// Fails:   never. The secret appears in no output except through the signature.
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

// For S3 requests without a body.
class RequestSigner {
 public:
  explicit RequestSigner(std::string region, bool requester_pays = false)
      : requester_pays_(requester_pays), region_(std::move(region)) {}

  // Adds the headers of a GET of `url`, signed with `keys` at `now` (seconds since 1970): Authorization and x-amz-*.
  // Without keys: only the headers that need no signature.
  void sign(const Url& url, std::int64_t now, const AwsKeys& keys, std::vector<std::string>& headers);

  // The query in signed form, which is best also sent: sorted, with "=" after names without a value.
  static std::string canonical_query(std::string_view query);

  std::string region() const;
  void set_region(std::string region);

 private:
  const bool requester_pays_;
  mutable std::mutex mutex_;
  std::string region_;        // guarded by mutex_
  std::string day_, secret_;  // guarded by mutex_: what key_ was derived from
  Digest key_{};              // guarded by mutex_
};

// Adds the headers of a signed POST of the form `body`, for any service.
void sign_form(const Url& url, std::string_view body, const AwsKeys& keys, std::string_view region,
               std::string_view service, std::int64_t now, std::vector<std::string>& headers);

}  // namespace headrace::http

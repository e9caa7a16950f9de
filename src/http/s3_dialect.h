// Requests to AWS S3 and to services that speak its protocol, such as Google's XML interface.
//
// Threads: every call from any thread.
#pragma once

#include "http/bucket_store.h"
#include "http/request_signer.h"
#include "http/s3_settings.h"

namespace headrace::http {

class S3Dialect final : public BucketDialect {
 public:
  S3Dialect(const char* scheme, std::string bucket, S3Settings settings)
      : scheme_(scheme),
        bucket_(std::move(bucket)),
        settings_(std::move(settings)),
        signer_(settings_.region, settings_.requester_pays) {}

  std::string url() const override { return std::string(scheme_) + "://" + bucket_; }
  ServiceKind kind() const noexcept override { return ServiceKind::kS3; }
  Url place(std::string_view key) const override { return place_in_bucket(settings_, signer_.region(), bucket_, key); }
  void fetch_page(Url& url, std::string_view prefix, std::string_view token) const override;
  bool parse_page(std::string_view text, ObjectPage& page) const override { return parse_s3_page(text, page); }
  void authorize(const Url& url, std::int64_t now, const Credentials& who, std::vector<std::string>& headers) override;
  void learn_region(std::string_view region) override { signer_.set_region(std::string(region)); }

 private:
  const char* const scheme_;
  const std::string bucket_;
  const S3Settings settings_;
  RequestSigner signer_;
};

// As parse_bucket_location(), and kInvalidArgument for bucket names that S3's rules forbid.
Result<BucketLocation> parse_s3_location(std::string_view location, const char* scheme);

}  // namespace headrace::http

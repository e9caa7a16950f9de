#include "http/s3_dialect.h"

namespace headrace::http {

// Parameters are in signing order.
void S3Dialect::fetch_page(Url& url, std::string_view prefix, std::string_view token) const {
  if (!token.empty()) {
    url.query = "continuation-token=";
    append_escaped(url.query, token, false);
    url.query += '&';
  }
  url.query += "delimiter=%2F&encoding-type=url&list-type=2&prefix=";
  append_escaped(url.query, prefix, false);
}

void S3Dialect::authorize(const Url& url, std::int64_t now, const Credentials& who, std::vector<std::string>& headers) {
  if (!who.bearer.empty()) {
    headers.push_back("Authorization: Bearer " + who.bearer);
  } else {
    signer_.sign(url, now, who.keys, headers);
  }
}

Result<BucketLocation> parse_s3_location(std::string_view location, const char* scheme) {
  HEADRACE_TRY_ASSIGN(BucketLocation found, parse_bucket_location(location, scheme));
  if (valid_bucket(found.bucket)) return found;
  return Status(Code::kInvalidArgument, Layer::kStore,
                "the name of the bucket in " + std::string(scheme) + "://bucket/prefix is not valid");
}

}  // namespace headrace::http

#include "http/s3_dialect.h"

namespace headrace::http {

// In the order in which it is signed.
void S3Dialect::ask_page(Url& url, std::string_view prefix, std::string_view token) const {
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

}  // namespace headrace::http

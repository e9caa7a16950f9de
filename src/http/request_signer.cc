#include "http/request_signer.h"

#include <time.h>

#include <algorithm>

namespace headrace::http {

std::string RequestSigner::canonical_query(std::string_view query) {
  std::vector<std::string> parts;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    std::string part(query.substr(0, end));
    query.remove_prefix(std::min(end + 1, query.size()));
    if (part.empty()) continue;
    if (part.find('=') == std::string::npos) part += '=';
    parts.push_back(std::move(part));
  }
  // By name first: '=' sorts behind some characters that names may have.
  std::sort(parts.begin(), parts.end(), [](const std::string& a, const std::string& b) {
    const std::size_t x = a.find('='), y = b.find('=');
    const int names = a.compare(0, x, b, 0, y);
    return names != 0 ? names < 0 : a.compare(x, a.size(), b, y, b.size()) < 0;
  });
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "&") + part;
  return out;
}

std::string RequestSigner::region() const {
  std::lock_guard lock(mutex_);
  return region_;
}

void RequestSigner::set_region(std::string region) {
  std::lock_guard lock(mutex_);
  region_ = std::move(region);
  day_.clear();
}

void RequestSigner::sign(const Url& url, std::int64_t now, std::vector<std::string>& headers) {
  if (keys_.id.empty()) return;
  static constexpr const char* kPayload = "UNSIGNED-PAYLOAD";
  const ::time_t seconds = static_cast<::time_t>(now);
  struct tm parts {};
  ::gmtime_r(&seconds, &parts);
  char stamp[32];
  ::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &parts);
  const std::string day(stamp, 8);

  const bool token = !keys_.session_token.empty();
  const std::string names =
      std::string("host;x-amz-content-sha256;x-amz-date") + (token ? ";x-amz-security-token" : "");
  std::string canonical = "GET\n" + url.path + "\n" + canonical_query(url.query) + "\nhost:" + url.authority() +
                          "\nx-amz-content-sha256:" + kPayload + "\nx-amz-date:" + stamp + "\n";
  if (token) canonical += "x-amz-security-token:" + keys_.session_token + "\n";
  canonical += "\n" + names + "\n" + kPayload;

  std::string scope;
  Digest key;
  {
    std::lock_guard lock(mutex_);
    if (day_ != day) {
      key_ = hmac_sha256("AWS4" + keys_.secret, day);
      key_ = hmac_sha256(as_text(key_), region_);
      key_ = hmac_sha256(as_text(key_), "s3");
      key_ = hmac_sha256(as_text(key_), "aws4_request");
      day_ = day;
    }
    key = key_;
    scope = day + "/" + region_ + "/s3/aws4_request";
  }
  const std::string signature = hex(hmac_sha256(
      as_text(key), std::string("AWS4-HMAC-SHA256\n") + stamp + "\n" + scope + "\n" + hex(sha256(canonical))));
  headers.push_back("Authorization: AWS4-HMAC-SHA256 Credential=" + keys_.id + "/" + scope + ",SignedHeaders=" + names +
                    ",Signature=" + signature);
  headers.push_back(std::string("x-amz-content-sha256: ") + kPayload);
  headers.push_back(std::string("x-amz-date: ") + stamp);
  if (token) headers.push_back("x-amz-security-token: " + keys_.session_token);
}

}  // namespace headrace::http

#include "http/request_signer.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace headrace::http {
namespace {

// Lower-case names, in sorted order.
using Fields = std::vector<std::pair<const char*, std::string>>;

std::string stamp_of(std::int64_t now) {
  const ::time_t seconds = static_cast<::time_t>(now);
  struct tm parts {};
  ::gmtime_r(&seconds, &parts);
  char stamp[32];
  ::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &parts);
  return stamp;
}

Digest signing_key(const std::string& secret, std::string_view day, std::string_view region, std::string_view service) {
  Digest key = hmac_sha256("AWS4" + secret, day);
  key = hmac_sha256(as_text(key), region);
  key = hmac_sha256(as_text(key), service);
  return hmac_sha256(as_text(key), "aws4_request");
}

// Signs the request and adds its headers. `scope`: day, region, service and terminator.
void add_signed(const char* method, const Url& url, const Fields& fields, std::string_view payload,
                const std::string& id, const Digest& key, const std::string& stamp, const std::string& scope,
                std::vector<std::string>& headers) {
  std::string canonical =
      std::string(method) + "\n" + url.path + "\n" + RequestSigner::canonical_query(url.query) + "\n";
  std::string names;
  for (const auto& [name, value] : fields) {
    canonical += std::string(name) + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + std::string(name);
  }
  canonical += "\n" + names + "\n" + std::string(payload);
  const std::string signature =
      hex(hmac_sha256(as_text(key), "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex(sha256(canonical))));
  headers.push_back("Authorization: AWS4-HMAC-SHA256 Credential=" + id + "/" + scope + ",SignedHeaders=" + names +
                    ",Signature=" + signature);
  for (const auto& [name, value] : fields) {
    if (std::string_view(name) != "host") headers.push_back(std::string(name) + ": " + value);
  }
}

}  // namespace

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
  // Compare names first: '=' sorts after some characters that names may contain.
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

void RequestSigner::sign(const Url& url, std::int64_t now, const AwsKeys& keys, std::vector<std::string>& headers) {
  static constexpr const char* kPayload = "UNSIGNED-PAYLOAD";
  if (keys.id.empty()) {
    if (requester_pays_) headers.push_back("x-amz-request-payer: requester");
    return;
  }
  const std::string stamp = stamp_of(now), day = stamp.substr(0, 8);
  std::string scope;
  Digest key;
  {
    std::lock_guard lock(mutex_);
    if (day_ != day || secret_ != keys.secret) {
      key_ = signing_key(keys.secret, day, region_, "s3");
      secret_ = keys.secret;
      day_ = day;
    }
    key = key_;
    scope = day + "/" + region_ + "/s3/aws4_request";
  }
  Fields fields{{"host", url.authority()}, {"x-amz-content-sha256", kPayload}, {"x-amz-date", stamp}};
  if (requester_pays_) fields.emplace_back("x-amz-request-payer", "requester");
  if (!keys.session_token.empty()) fields.emplace_back("x-amz-security-token", keys.session_token);
  add_signed("GET", url, fields, kPayload, keys.id, key, stamp, scope, headers);
}

void sign_form(const Url& url, std::string_view body, const AwsKeys& keys, std::string_view region,
               std::string_view service, std::int64_t now, std::vector<std::string>& headers) {
  const std::string stamp = stamp_of(now), day = stamp.substr(0, 8);
  Fields fields{
      {"content-type", "application/x-www-form-urlencoded"}, {"host", url.authority()}, {"x-amz-date", stamp}};
  if (!keys.session_token.empty()) fields.emplace_back("x-amz-security-token", keys.session_token);
  add_signed("POST", url, fields, hex(sha256(body)), keys.id, signing_key(keys.secret, day, region, service), stamp,
             day + "/" + std::string(region) + "/" + std::string(service) + "/aws4_request", headers);
}

}  // namespace headrace::http

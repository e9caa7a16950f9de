#include <algorithm>
#include <array>
#include <cmath>

#include "system/probes.h"
#include "system/remote_probe.h"

namespace headrace {
namespace system {
namespace {

struct ProblemRow {
  RemoteProblem problem;
  const char* name;
  const char* verdict;
  const char* what_to_do;
};

constexpr auto kProblems = std::to_array<ProblemRow>({
    {RemoteProblem::kNone, "none", "arrays can be read from here", ""},
    {RemoteProblem::kUrl, "url", "the URL or a storage option is not valid",
     "write it as scheme://place/path, for instance s3://bucket/path, and check the names of the options"},
    {RemoteProblem::kNoCredentials, "no-credentials", "no credentials were found",
     "set the variables or the profile of the service's own tools; to read a public bucket, AWS_NO_SIGN_REQUEST=YES or "
     "the storage option anon"},
    {RemoteProblem::kNoSuchHost, "no-such-host", "the server's name has no address",
     "check the spelling of the endpoint, the network, and the DNS of this machine; behind a proxy set https_proxy"},
    {RemoteProblem::kNoConnection, "no-connection", "no connection to the server",
     "check that the server runs, its port, and the firewalls on the way; behind a proxy set https_proxy"},
    {RemoteProblem::kCertificate, "certificate", "the server's certificate is not trusted, or the TLS handshake failed",
     "name the file of the certificates to trust by AWS_CA_BUNDLE or SSL_CERT_FILE; check that the name in the URL is "
     "the one in the certificate, that the certificate has not expired, and whether the port is one for https"},
    {RemoteProblem::kTimeout, "timeout", "the server did not answer in time",
     "check the network and the firewalls on the way; HEADRACE_HTTP_CONNECT_SECONDS and HEADRACE_HTTP_IDLE_SECONDS "
     "wait "
     "longer"},
    {RemoteProblem::kNotHttp, "not-http", "the peer is not an HTTP server, or violates HTTP",
     "check the port, and whether the URL should be http or https"},
    {RemoteProblem::kNoBucket, "no-bucket", "there is no such bucket or container",
     "check its spelling, and that the endpoint (AWS_ENDPOINT_URL) is the one that has it"},
    {RemoteProblem::kDenied, "denied", "access denied for these credentials",
     "grant s3:GetObject for objects, s3:ListBucket to tell missing chunks from denied ones; or use other "
     "credentials; to read a public bucket, AWS_NO_SIGN_REQUEST=YES or the storage option anon"},
    {RemoteProblem::kBadCredentials, "bad-credentials", "the service does not know the keys, or the secret is wrong",
     "check both keys, and that they belong to this endpoint"},
    {RemoteProblem::kExpired, "expired", "the credentials have expired, or the token is not valid",
     "get new ones, and keep AWS_SESSION_TOKEN with the keys that it belongs to"},
    {RemoteProblem::kClock, "clock", "this machine's clock is wrong", "set it, best by NTP"},
    {RemoteProblem::kRegion, "region", "the bucket is in another region",
     "set AWS_REGION to the bucket's region, and remove an endpoint of another region"},
    {RemoteProblem::kNothingThere, "nothing-there", "there is no object at or below the URL",
     "check the path: it is the array's, the group's or the object's own"},
    {RemoteProblem::kNoRanges, "no-ranges", "the server serves only whole objects",
     "chunks that are objects of their own can be read; for shards and archives use a server that answers range "
     "requests, such as nginx"},
    {RemoteProblem::kBusy, "busy", "the server is overloaded, or broken", "try again later; contact its operator"},
    {RemoteProblem::kOther, "other", "the server refused the request, or sent an unexpected response",
     "check that the URL is the store's own, not a login page"},
});

const ProblemRow& row_of(RemoteProblem problem) {
  for (const ProblemRow& row : kProblems) {
    if (row.problem == problem) return row;
  }
  return kProblems.back();
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

}  // namespace

RemoteProblem problem_of(const http::ServiceAnswer& answer) {
  using http::ExchangeEnd;
  using Stage = http::ConnectionFacts::Stage;
  if (answer.http_status == 0) {
    switch (answer.end) {
      case ExchangeEnd::kNoConnection:
        return answer.facts.failed == Stage::kName || answer.facts.failed == Stage::kProxyName
                   ? RemoteProblem::kNoSuchHost
               : answer.facts.failed == Stage::kHandshake ? RemoteProblem::kCertificate
                                                          : RemoteProblem::kNoConnection;
      case ExchangeEnd::kTls:
        return RemoteProblem::kCertificate;
      case ExchangeEnd::kConnectTimeout:
      case ExchangeEnd::kIdleTimeout:
      case ExchangeEnd::kTotalTimeout:
        return RemoteProblem::kTimeout;
      case ExchangeEnd::kBroken:
        return RemoteProblem::kNoConnection;
      default:
        return RemoteProblem::kNotHttp;
    }
  }
  if (!answer.head.malformed.empty() || answer.end == ExchangeEnd::kProtocol) return RemoteProblem::kNotHttp;
  const std::string& code = answer.store_code;
  if (is_one_of(code, {"NoSuchBucket", "ContainerNotFound"})) return RemoteProblem::kNoBucket;
  if (is_one_of(code, {"RequestTimeTooSkewed"})) return RemoteProblem::kClock;
  if (is_one_of(code, {"ExpiredToken", "TokenRefreshRequired", "InvalidToken"})) return RemoteProblem::kExpired;
  if (is_one_of(code, {"SignatureDoesNotMatch", "InvalidAccessKeyId", "AuthenticationFailed", "InvalidSecurity",
                       "AuthorizationHeaderMalformed"})) {
    return answer.next == http::Verdict::Next::kRegion ? RemoteProblem::kRegion : RemoteProblem::kBadCredentials;
  }
  if (answer.next == http::Verdict::Next::kRegion) return RemoteProblem::kRegion;
  if (answer.http_status == 401 || answer.http_status == 403 || answer.http_status == 407) {
    return RemoteProblem::kDenied;
  }
  if (answer.next == http::Verdict::Next::kRetry) return RemoteProblem::kBusy;
  switch (answer.end) {
    case ExchangeEnd::kIdleTimeout:
    case ExchangeEnd::kTotalTimeout:
      return RemoteProblem::kTimeout;
    case ExchangeEnd::kBroken:
      return RemoteProblem::kNoConnection;
    default:
      return RemoteProblem::kOther;
  }
}

void judge_remote(RemoteReport& report) {
  const ProblemRow& row = row_of(report.problem);
  report.verdict = row.verdict;
  report.what_to_do = row.what_to_do;
  if (report.service == "http" && report.problem == RemoteProblem::kDenied) {
    report.what_to_do =
        "provide the credentials the server expects: a signed query in the URL, or header lines by the storage "
        "option headers.Authorization; and check that it may read its own files";
  } else if (report.service == "azure" && report.problem == RemoteProblem::kDenied) {
    report.what_to_do =
        "give the account's key, a SAS token with the rights to read and list, or a token of somebody "
        "with the role Storage Blob Data Reader";
  }
  const auto warn = [&](std::string text) { report.warnings.push_back(std::move(text)); };
  if (report.clock_ahead_seconds && std::abs(*report.clock_ahead_seconds) > 300) {
    warn("this machine's clock is " + std::to_string(std::lround(std::abs(*report.clock_ahead_seconds))) + " s " +
         (*report.clock_ahead_seconds > 0 ? "behind" : "ahead of") +
         " the server's: AWS refuses more than 900 s, which costs a request each time; set it by NTP");
  }
  if (report.region_was_wrong) {
    warn("the bucket's region is " + report.region + ": set AWS_REGION, which saves a request each time it is opened");
  }
  if (report.problem != RemoteProblem::kNone) return;
  if (report.keeps_connections == false) {
    warn("the server closes the connection after each answer: every request needs a new connection");
  }
  if (report.if_match == false) {
    warn("the server ignores If-Match: an object that is replaced is noticed by its ETag afterwards, not before");
  }
  if (report.tells_version == false) {
    warn(
        "the server sends no strong ETag: shard indexes are fetched at every read, and the disk cache does not keep "
        "its "
        "objects");
  }
  if (report.lists == false) {
    warn("names cannot be listed: groups need consolidated metadata, and missing chunks look like denied ones");
  }
  if (report.redirects > 0) warn("the server redirects: name the address that it leads to, which saves a request each");
  if (report.credentials_expire_seconds && *report.credentials_expire_seconds < 900) {
    warn("the credentials expire in " + std::to_string(std::lround(*report.credentials_expire_seconds)) + " s");
  }
}

}  // namespace system

const char* remote_problem_name(RemoteProblem problem) noexcept { return system::row_of(problem).name; }

const char* remote_bound_name(RemoteBound bound) noexcept {
  switch (bound) {
    case RemoteBound::kLatency:
      return "latency";
    case RemoteBound::kConnections:
      return "connections";
    case RemoteBound::kProcessor:
      return "processor";
    case RemoteBound::kNetwork:
      return "network";
    case RemoteBound::kThrottled:
      return "throttled";
    case RemoteBound::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace headrace

#include "http/verdict.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "http/xml_reader.h"

namespace headrace::http {
namespace {

Status wrong(std::string what) { return Status(Code::kIo, Layer::kStore, std::move(what)); }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

// A word from the server that is safe to print; empty if it is not.
std::string word(std::string_view text) {
  if (text.empty() || text.size() > 64) return {};
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    if (!plain) return {};
  }
  return std::string(text);
}

Status check_head(const AnswerHead& head) {
  if (!head.malformed.empty()) return wrong("the server's answer is malformed: " + head.malformed);
  if (!head.content_encoding.empty() && head.content_encoding != "identity") {
    return Status(Code::kUnsupported, Layer::kStore,
                  "the server sends the object with a Content-Encoding that was not asked for")
        .with_cause(word(head.content_encoding));
  }
  if (!head.content_length.empty() && !parse_length(head.content_length)) {
    return wrong("the server's Content-Length is not a number");
  }
  if (!head.content_length.empty() && !head.transfer_encoding.empty()) {
    return wrong("the server's answer has both a Content-Length and a Transfer-Encoding");
  }
  if (head.content_type.starts_with("multipart/byteranges")) {
    return wrong("the server answers one range in several parts");
  }
  return {};
}

Status check_version(const AnswerHead& head, const RequestedRange& requested) {
  if (requested.etag.empty() || strong_etag(head.etag) == requested.etag) return {};
  return Status(Code::kAgainExhausted, Layer::kStore, "the object was replaced while it was read; retry the read");
}

// A body is rejected if its end cannot be distinguished from a broken connection.
bool marks_end(const AnswerHead& head) {
  return !head.content_length.empty() || !head.transfer_encoding.empty() || head.http2;
}

Result<BodyPlan> plan_part(const AnswerHead& head, const RequestedRange& requested) {
  const auto range = parse_content_range(head.content_range);
  if (!range || range->unsatisfied) return wrong("the server answers a range without a valid Content-Range");
  const std::uint64_t count = range->last - range->first + 1;
  const auto length = parse_length(head.content_length);
  if (length && *length != count) return wrong("the server's Content-Length and Content-Range do not agree");
  const bool ends = range->size && range->last + 1 == *range->size;
  bool right = count <= requested.count && (count == requested.count || ends);
  if (requested.from_end) {
    right = right && ends && count == std::min(requested.count, *range->size);
  } else {
    right = right && range->first == requested.first;
  }
  if (!right) return wrong("the server's Content-Range is not the requested range");
  BodyPlan plan;
  plan.bytes = count;
  plan.object_bytes = range->size.value_or(BodyPlan::kUnknown);
  return plan;
}

Result<BodyPlan> plan_unrequested_whole(const AnswerHead& head, const RequestedRange& requested) {
  if (!marks_end(head)) return wrong("the server's response does not say where its body ends");
  const auto length = parse_length(head.content_length);
  BodyPlan plan;
  if (length && *length <= requested.count && (requested.from_end || requested.first == 0)) {
    plan.bytes = plan.object_bytes = *length;
    return plan;
  }
  if (requested.from_end || requested.first != 0) {
    return Status(Code::kUnsupported, Layer::kStore, "the server ignores range requests and sends whole objects");
  }
  plan.bytes = requested.count;
  plan.exact = false;
  plan.cut = length.has_value();
  if (length) plan.object_bytes = *length;
  return plan;
}

Verdict done(Status status) {
  Verdict verdict;
  verdict.status = std::move(status);
  return verdict;
}

// A server without If-Match may respond for another version, so an ETag is checked where present; many servers send
// none with 416.
Verdict unsatisfied(const AnswerHead& head, const RequestedRange& requested) {
  if (!head.etag.empty()) {
    if (Status same = check_version(head, requested); !same.ok()) return done(std::move(same));
  }
  const auto range = parse_content_range(head.content_range);
  Verdict verdict;
  const bool known = range && range->unsatisfied;
  if (known && (requested.from_end ? *range->size != 0 : *range->size > requested.first)) {
    return done(wrong("the server refuses a range that the object has (416)"));
  }
  if (known) {
    verdict.object_bytes = *range->size;
  } else if (requested.from_end || requested.first == 0) {
    verdict.object_bytes = 0;
  }
  return verdict;
}

}  // namespace

Result<BodyPlan> plan_body(const AnswerHead& head, const RequestedRange& requested) {
  HEADRACE_TRY(check_head(head));
  HEADRACE_TRY(check_version(head, requested));
  // Some servers answer ranges correctly but with the wrong status: Content-Range decides what the body is.
  if (head.status == 206 || !head.content_range.empty()) return plan_part(head, requested);
  return plan_unrequested_whole(head, requested);
}

Result<BodyPlan> plan_whole_body(const AnswerHead& head, std::uint64_t limit) {
  HEADRACE_TRY(check_head(head));
  if (head.status != 200 || !head.content_range.empty())
    return wrong("the server sent part of an object that was requested whole");
  if (!marks_end(head)) return wrong("the server's response does not say where its body ends");
  const auto length = parse_length(head.content_length);
  if (length && *length > limit) {
    return Status(Code::kResourceExhausted, Layer::kStore,
                  "an answer of " + std::to_string(*length) + " bytes is above the limit of " + std::to_string(limit));
  }
  BodyPlan plan;
  plan.bytes = length.value_or(limit);
  plan.exact = length.has_value();
  return plan;
}

Verdict judge(const AnswerHead& head, const RequestedRange& requested, ServiceKind kind, std::string_view body) {
  using Next = Verdict::Next;
  if (!head.malformed.empty()) return done(wrong("the server's answer is malformed: " + head.malformed));
  const S3Error error = kind != ServiceKind::kHttp ? parse_s3_error(body) : S3Error();
  std::string cause = "HTTP " + std::to_string(head.status);
  const std::string code = word(error.code);
  if (!code.empty()) cause += " " + code;
  const std::string request = word(head.request_id.empty() ? error.request_id : head.request_id);
  if (!request.empty()) cause += ", request " + request;
  const auto say = [&](Code as, std::string what) {
    return Status(as, Layer::kStore, std::move(what)).with_cause(cause);
  };
  const auto again = [&](Next next, Code as, const char* what) {
    Verdict verdict;
    verdict.next = next;
    verdict.status = say(as, what);
    return verdict;
  };

  if (kind == ServiceKind::kS3) {
    const std::string region = word(head.bucket_region.empty() ? error.region : head.bucket_region);
    const bool elsewhere = head.status == 301 || head.status == 307 || code == "AuthorizationHeaderMalformed" ||
                           code == "IllegalLocationConstraintException" || code == "PermanentRedirect";
    if (elsewhere && !region.empty()) {
      Verdict verdict = again(Next::kRegion, Code::kInvalidArgument, "the bucket is in another region");
      verdict.region = region;
      return verdict;
    }
    if (code == "RequestTimeTooSkewed") {
      return again(Next::kClock, Code::kPermission, "this machine's clock differs too much from the server's");
    }
    if (is_one_of(code, {"ExpiredToken", "TokenRefreshRequired", "InvalidToken"})) {
      return again(Next::kCredentials, Code::kPermission, "the session token has expired or is not valid");
    }
    if (is_one_of(code, {"SignatureDoesNotMatch", "InvalidAccessKeyId", "AuthorizationHeaderMalformed"})) {
      return done(say(Code::kPermission, "the store does not accept the credentials or the region"));
    }
    if (is_one_of(code, {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling",
                         "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded"})) {
      return again(Next::kRetry, Code::kAgainExhausted, "the store stayed busy on every attempt");
    }
  }
  switch (head.status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
      if (head.location.empty()) return done(say(Code::kIo, "the server redirects to nowhere"));
      return again(Next::kRedirect, Code::kIo, "the server redirects");
    case 401:
      // Bearer tokens may have expired.
      if (kind != ServiceKind::kHttp) {
        return again(Next::kCredentials, Code::kPermission, "the store does not accept the credentials, or none");
      }
      [[fallthrough]];
    case 403:
      return done(say(Code::kPermission, kind == ServiceKind::kS3
                                             ? "access denied; an object that is missing looks the same to credentials "
                                               "that may not list the bucket"
                                             : "access denied"));
    case 407:
      return done(say(Code::kPermission, "the proxy requires credentials: put them into its URL"));
    case 404:
      if (kind == ServiceKind::kHttp || code == (kind == ServiceKind::kS3 ? "NoSuchKey" : "BlobNotFound")) {
        return done(Status(Code::kNotFound, Layer::kStore, "no such object"));
      }
      if (code == "NoSuchBucket") return done(say(Code::kIo, "no such bucket"));
      if (code == "ContainerNotFound") return done(say(Code::kIo, "no such container"));
      return done(say(Code::kIo, "HTTP 404 without the error code of a missing object"));
    case 410:
      if (kind == ServiceKind::kHttp) return done(Status(Code::kNotFound, Layer::kStore, "no such object"));
      break;
    case 412:
      return done(say(Code::kAgainExhausted, "the object was replaced while it was read; retry the read"));
    case 416:
      return unsatisfied(head, requested);
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return again(Next::kRetry, Code::kAgainExhausted, "the server failed or was busy on every attempt");
    case 501:
    case 505:
      return done(say(Code::kUnsupported, "the server cannot answer such requests"));
    default:
      break;
  }
  return done(say(Code::kIo, "the server refused the request or sent an unexpected response"));
}

}  // namespace headrace::http

// Validates the response to a range request: whether its body can be trusted, and if not, what to do next.
//
// Threads: pure functions.
// Fails:   a Status contains the HTTP status, the store's error code and its request number; never a request header, an
//          address or text from the server, which may repeat a signature.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "http/answer_head.h"

namespace headrace::http {

enum class ServiceKind : std::uint8_t { kHttp, kS3, kAzure };

struct RequestedRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;  // at least 1; first + count below 2^63
  bool from_end = false;    // the last `count` bytes; `first` is unused
  std::string_view etag;    // sent as If-Match; empty: any version
};

// Which bytes of a body answer the request.
struct BodyPlan {
  static constexpr std::uint64_t kUnknown = RangeRead::kUnknown;
  std::uint64_t bytes = 0;                // the answer's size: at most what was requested
  bool exact = true;                      // the body has exactly this many; else it may end sooner, or be cut
  bool cut = false;                       // the body is longer: the rest is not read
  std::uint64_t object_bytes = kUnknown;  // of the whole object; without `exact` and `cut`, the received length
};

// REQUIRES: the status is 200 or 206.
Result<BodyPlan> plan_body(const AnswerHead& head, const RequestedRange& requested);
// For a whole body of at most `limit` bytes.
Result<BodyPlan> plan_whole_body(const AnswerHead& head, std::uint64_t limit);

struct Verdict {
  enum class Next : std::uint8_t {
    kDone,         // `status` is the result; OK means that the object has no bytes at that place
    kRetry,        // after a delay; `status` is the error to report if that does not help
    kRedirect,     // to head.location
    kRegion,       // sign again for the region in head.bucket_region or in the error
    kCredentials,  // retry with fresh credentials
    kClock         // sign again by the server's clock
  };
  Next next = Next::kDone;
  Status status;
  std::uint64_t object_bytes = RangeRead::kUnknown;
  std::string region;  // for kRegion
};

// For every response except 200 and 206. `body`: as much of it as was kept.
Verdict judge(const AnswerHead& head, const RequestedRange& requested, ServiceKind kind, std::string_view body);

}  // namespace headrace::http

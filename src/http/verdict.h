// What an answer to a range request is worth: whether its body may be believed, and if not, what follows.
//
// Threads: pure functions.
// Fails:   a Status names the HTTP status, the store's error code and its request number; never a header that was sent,
//          an address or a text of the server's, which may repeat a signature.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "http/answer_head.h"

namespace headrace::http {

enum class ServiceKind : std::uint8_t { kHttp, kS3, kAzure };

struct RangeAsked {
  std::uint64_t first = 0;
  std::uint64_t count = 0;  // at least 1; first + count below 2^63
  bool from_end = false;    // the last `count` bytes; `first` is unused
  std::string_view etag;    // asked for with If-Match; empty: any
};

// Which bytes of a body are the answer.
struct BodyPlan {
  static constexpr std::uint64_t kUnknown = RangeRead::kUnknown;
  std::uint64_t bytes = 0;                // the answer: never more than was asked for
  bool exact = true;                      // the body has this many; else it ends sooner, or goes on and is cut
  bool cut = false;                       // the body goes on: what follows is not looked at
  std::uint64_t object_bytes = kUnknown;  // of the whole object; the body's own length where `exact` and `cut` are not
};

// REQUIRES: the status is 200 or 206.
Result<BodyPlan> plan_body(const AnswerHead& head, const RangeAsked& asked);
// Of a whole body of at most `limit` bytes.
Result<BodyPlan> plan_whole_body(const AnswerHead& head, std::uint64_t limit);

struct Verdict {
  enum class Next : std::uint8_t {
    kDone,         // `status` is what came of it; where that is OK there are no bytes at that place
    kRetry,        // after a while; `status` is what to say when that does not help
    kRedirect,     // to head.location
    kRegion,       // once more, signed for head.bucket_region or what the error says
    kCredentials,  // once more, with others
    kClock         // once more, signed by the server's clock
  };
  Next next = Next::kDone;
  Status status;
  std::uint64_t object_bytes = RangeRead::kUnknown;
  std::string region;  // of kRegion
};

// Of every answer but 200 and 206. `body`: as much of it as was kept.
Verdict judge(const AnswerHead& head, const RangeAsked& asked, ServiceKind kind, std::string_view body);

}  // namespace headrace::http

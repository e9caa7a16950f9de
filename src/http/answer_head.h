// AnswerHead: the status line and the header fields of a response that headrace uses, and parsers of their values.
//
// Threads: pure, one thread at a time.
// Fails:   the size of a head is bounded. An ill-formed field counts as absent, or marks the head malformed where
//          trusting it would be dangerous.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headrace::http {

// Case-insensitive comparison of `a` with `b`, which is in lower case.
bool same_name(std::string_view a, std::string_view b);
// Strips leading and trailing blanks and tabs.
std::string_view trimmed(std::string_view text);

// "bytes 0-9/100", "bytes 0-9/*", "bytes */100".
struct ContentRange {
  bool unsatisfied = false;  // "bytes */100": first and last are not set
  std::uint64_t first = 0, last = 0;
  std::optional<std::uint64_t> size;
};
// Empty unless first <= last < size, all below 2^63.
std::optional<ContentRange> parse_content_range(std::string_view text);

// Digits only, below 2^63.
std::optional<std::uint64_t> parse_length(std::string_view text);

// Any of the three date forms of RFC 9110, as seconds since 1970.
std::optional<std::int64_t> parse_http_date(std::string_view text);

// Seconds to wait from `now` (seconds since 1970), given as a number or a date. A past date gives 0. At most a day.
std::optional<std::uint32_t> parse_retry_after(std::string_view text, std::int64_t now);

// A strong ETag with its quotes, ready for If-Match; empty for a weak or invalid one.
std::string_view strong_etag(std::string_view text);

struct AnswerHead {
  int status = 0;  // 0: no response yet
  bool http2 = false, http10 = false;
  std::string malformed;  // why this head must not be trusted; empty: it is well-formed
  std::string content_range, content_length, content_encoding, transfer_encoding, content_type, connection;
  std::string etag, location, retry_after, date, request_id, bucket_region;

  // Takes the next line, with or without its line end. Returns true once the head is complete; 1xx responses are
  // skipped.
  bool line(std::string_view text);
  void clear();

  bool is_complete() const noexcept { return complete_; }

 private:
  bool complete_ = false;
  std::uint32_t lines_ = 0, bytes_ = 0, interim_ = 0;
};

}  // namespace headrace::http

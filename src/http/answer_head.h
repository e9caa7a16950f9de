// AnswerHead: the status line and the header fields of an answer that headrace uses, and what their values say.
//
// Threads: pure, one thread at a time.
// Fails:   what a server sends is bounded; a field that is not of its form is as good as absent, or makes the head
//          malformed where believing it would be dangerous.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headrace::http {

// Whether `a` is the name `b`, which is in small letters.
bool same_name(std::string_view a, std::string_view b);
// Without blanks and tabs at its ends.
std::string_view trimmed(std::string_view text);

// "bytes 0-9/100", "bytes 0-9/*", "bytes */100".
struct ContentRange {
  bool unsatisfied = false;  // of the last form: first and last are not set
  std::uint64_t first = 0, last = 0;
  std::optional<std::uint64_t> size;
};
// Nothing unless first <= last < size, all below 2^63.
std::optional<ContentRange> parse_content_range(std::string_view text);

// Digits alone, below 2^63.
std::optional<std::uint64_t> parse_length(std::string_view text);

// Seconds since 1970 of any of the three forms of RFC 9110.
std::optional<std::int64_t> parse_http_date(std::string_view text);

// Seconds to wait from `now` (since 1970) on: of a number or a date; a date of the past is 0. At most a day.
std::optional<std::uint32_t> parse_retry_after(std::string_view text, std::int64_t now);

// A strong ETag with its quotes, as it goes into If-Match; empty for weak ones and what is none.
std::string_view strong_etag(std::string_view text);

struct AnswerHead {
  int status = 0;  // 0: no answer yet
  bool http2 = false, http10 = false;
  std::string malformed;  // not empty: what about this head is not to be believed
  std::string content_range, content_length, content_encoding, transfer_encoding, content_type, connection;
  std::string etag, location, retry_after, date, request_id, bucket_region;

  // The next line with or without its line end. True when the head is complete: 1xx answers are passed over.
  bool line(std::string_view text);
  void clear();

  bool is_complete() const noexcept { return complete_; }

 private:
  bool complete_ = false;
  std::uint32_t lines_ = 0, bytes_ = 0, interim_ = 0;
};

}  // namespace headrace::http

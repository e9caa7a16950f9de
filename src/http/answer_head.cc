#include "http/answer_head.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace headrace::http {
namespace {

constexpr std::uint32_t kMaxLines = 500, kMaxHeadBytes = 128 << 10, kMaxInterim = 20;
constexpr std::size_t kMaxValueBytes = 8 << 10, kMaxEtagBytes = 256;

// Days since 1970 of a Gregorian date (Howard Hinnant's algorithm).
std::int64_t days_from_civil(std::int64_t year, int month, int day) {
  year -= month <= 2;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t of_era = year - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

class DateReader {
 public:
  explicit DateReader(std::string_view text) : text_(text) {}
  // A number of `least` to `most` digits.
  int number(std::size_t least, std::size_t most) {
    std::size_t n = 0;
    int value = 0;
    while (n < most && n < text_.size() && text_[n] >= '0' && text_[n] <= '9') value = value * 10 + (text_[n++] - '0');
    if (n < least) good_ = false;
    text_.remove_prefix(n);
    return value;
  }
  int month() {
    static constexpr std::string_view kNames = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const std::size_t at = text_.size() < 3 ? std::string_view::npos : kNames.find(text_.substr(0, 3));
    if (at == std::string_view::npos || at % 3 != 0) {
      good_ = false;
      return 1;
    }
    text_.remove_prefix(3);
    return static_cast<int>(at / 3) + 1;
  }
  void literal(std::string_view text) {
    if (!text_.starts_with(text)) {
      good_ = false;
    } else {
      text_.remove_prefix(text.size());
    }
  }
  void spaces() {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
  }
  bool at_end() const { return good_ && text_.empty(); }

 private:
  std::string_view text_;
  bool good_ = true;
};

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y; });
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<std::uint64_t> parse_length(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value >> 63 != 0) return std::nullopt;
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (text.size() < 6 || !same_name(text.substr(0, 6), "bytes ")) return std::nullopt;
  text = trimmed(text.substr(6));
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view range = text.substr(0, slash), size = text.substr(slash + 1);
  ContentRange out;
  if (size != "*") {
    out.size = parse_length(size);
    if (!out.size) return std::nullopt;
  }
  if (range == "*") {
    out.unsatisfied = true;
    return out.size ? std::optional(out) : std::nullopt;
  }
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_length(range.substr(0, dash)), last = parse_length(range.substr(dash + 1));
  if (!first || !last || *first > *last || (out.size && *last >= *out.size)) return std::nullopt;
  out.first = *first;
  out.last = *last;
  return out;
}

std::optional<std::int64_t> parse_http_date(std::string_view text) {
  // "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
  if (text.size() < 3 || text.size() > 40) return std::nullopt;
  const std::size_t comma = text.find(',');
  int year = 0, month = 1, day = 1;
  DateReader reader(comma == std::string_view::npos ? text.substr(3) : text.substr(comma + 1));
  reader.literal(" ");
  const auto time_of_day = [&] {
    const int hour = reader.number(2, 2);
    reader.literal(":");
    const int minute = reader.number(2, 2);
    reader.literal(":");
    const int second = reader.number(2, 2);
    return hour > 23 || minute > 59 || second > 60 ? -1 : hour * 3600 + minute * 60 + second;
  };
  int time = 0;
  if (comma == std::string_view::npos) {
    month = reader.month();
    reader.spaces();
    day = reader.number(1, 2);
    reader.literal(" ");
    time = time_of_day();
    reader.literal(" ");
    year = reader.number(4, 4);
  } else {
    const bool old = text.find('-') != std::string_view::npos;
    day = reader.number(2, 2);
    reader.literal(old ? "-" : " ");
    month = reader.month();
    reader.literal(old ? "-" : " ");
    year = old ? reader.number(2, 2) : reader.number(4, 4);
    if (old) year += year < 70 ? 2000 : 1900;
    reader.literal(" ");
    time = time_of_day();
    reader.literal(" GMT");
  }
  if (!reader.at_end() || time < 0 || day < 1 || day > 31) return std::nullopt;
  return days_from_civil(year, month, day) * 86400 + time;
}

std::optional<std::uint32_t> parse_retry_after(std::string_view text, std::int64_t now) {
  constexpr std::int64_t kDay = 86400;
  text = trimmed(text);
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) {
    const auto seconds = parse_length(text);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(seconds.value_or(kDay), kDay));
  }
  const auto date = parse_http_date(text);
  if (!date) return std::nullopt;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(*date - now, 0, kDay));
}

std::string_view strong_etag(std::string_view text) {
  if (text.size() < 3 || text.size() > kMaxEtagBytes || text.front() != '"' || text.back() != '"') return {};
  for (const char c : text.substr(1, text.size() - 2)) {
    if (c == '"' || static_cast<unsigned char>(c) < 0x21 || static_cast<unsigned char>(c) > 0x7e) return {};
  }
  return text;
}

void AnswerHead::clear() {
  status = 0;
  http2 = http10 = complete_ = false;
  lines_ = bytes_ = interim_ = 0;
  for (std::string* value :
       {&malformed, &content_range, &content_length, &content_encoding, &transfer_encoding, &content_type, &connection,
        &etag, &location, &retry_after, &date, &request_id, &bucket_region}) {
    value->clear();
  }
}

bool AnswerHead::line(std::string_view text) {
  if (complete_) return true;  // trailers after a body
  bytes_ += static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), kMaxHeadBytes));
  if (++lines_ > kMaxLines || bytes_ > kMaxHeadBytes) {
    malformed = "too many header fields";
    return complete_ = true;
  }
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) {
    if (status >= 200) return complete_ = true;
    if (status == 0 || ++interim_ > kMaxInterim) {
      malformed = "no status line";
      return complete_ = true;
    }
    const std::uint32_t lines = lines_, bytes = bytes_, interim = interim_;
    clear();
    lines_ = lines;
    bytes_ = bytes;
    interim_ = interim;
    return false;
  }
  if (status == 0) {
    // "HTTP/1.1 206 Partial Content", "HTTP/2 206".
    const std::size_t space = text.find(' ');
    const std::string_view version = text.substr(0, space);
    std::string_view code = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
    code = code.substr(0, code.find(' '));
    const std::uint64_t number = code.size() == 3 ? parse_length(code).value_or(0) : 0;
    if ((version != "HTTP/1.1" && version != "HTTP/1.0" && version != "HTTP/2") || number < 100 || number > 599) {
      malformed = "the status line is not one of HTTP";
      return complete_ = true;
    }
    status = static_cast<int>(number);
    http2 = version == "HTTP/2";
    http10 = version == "HTTP/1.0";
    return false;
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || text[0] == ' ' || text[0] == '\t') {
    if (malformed.empty()) malformed = "a header line is not a field";
    return false;
  }
  const struct {
    std::string_view name;
    std::string& value;
    bool once;  // two different values are an error, since neither can be trusted
  } fields[] = {{"content-range", content_range, true},
                {"content-length", content_length, true},
                {"content-encoding", content_encoding, true},
                {"transfer-encoding", transfer_encoding, true},
                {"etag", etag, true},
                {"location", location, true},
                {"content-type", content_type, false},
                {"connection", connection, false},
                {"retry-after", retry_after, false},
                {"date", date, false},
                {"x-amz-request-id", request_id, false},
                {"x-amz-bucket-region", bucket_region, false}};
  const std::string_view name = text.substr(0, colon);
  for (const auto& field : fields) {
    if (!same_name(name, field.name)) continue;
    const std::string_view value = trimmed(text.substr(colon + 1)).substr(0, kMaxValueBytes);
    if (!field.value.empty() && field.once && field.value != value && malformed.empty()) {
      malformed = "two fields " + std::string(field.name) + " that differ";
    }
    field.value = value;
    if (value.find('\0') != std::string_view::npos && malformed.empty()) malformed = "a NUL in a header field";
  }
  return false;
}

}  // namespace headrace::http

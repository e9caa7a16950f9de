// Parses numbers, sizes and durations in the syntax of fio's job files.
//
// Fails: kInvalidArgument; the message contains the text and the expected form.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace::bench {

inline Status invalid(std::string message) { return {Code::kInvalidArgument, Layer::kApi, std::move(message)}; }

Result<std::uint64_t> parse_number(std::string_view text);
// "4096", "4k", "1m", "2g", "1t", also as "4kb" or "4kib": powers of 1024. Bytes without a suffix.
Result<std::uint64_t> parse_size(std::string_view text);
// "1.5", without a sign or exponent.
Result<double> parse_decimal(std::string_view text);
// "30", "1.5", "500ms", "200us", "2m", "1h", "1d"; seconds without a suffix. Returns seconds, at most 10^9.
Result<double> parse_duration(std::string_view text);
// The same, but a number without a suffix is in units of `unit_seconds`.
Result<double> parse_duration(std::string_view text, double unit_seconds);
// "1", "0", "true", "false", "yes", "no"; empty (a key without a value) is true.
Result<bool> parse_truth(std::string_view text);
// "50:99:99.9", each above 0 and at most 100. Returns them sorted.
Result<std::vector<double>> parse_percentiles(std::string_view text);

// Splits "a,b" or "a,b,c" by direction. One value applies to reads and writes; otherwise the first is for reads, the
// second for writes, and the third, for trims, is ignored. An empty part keeps the previous value.
struct DirectionTexts {
  std::string_view read, write;
};
Result<DirectionTexts> parse_directions(std::string_view text);
// CPUs as "0-3,8". Returns them sorted, each below 65,536.
Result<std::vector<unsigned>> parse_cpu_list(std::string_view text);

// 4,194,304 is "4MiB", 1,000 is "1000": exact, so that job files can read it back.
std::string size_text(std::uint64_t bytes);

}  // namespace headrace::bench

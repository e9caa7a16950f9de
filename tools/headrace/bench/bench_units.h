// Numbers, sizes and durations as fio's job files write them.
//
// Fails: kInvalidArgument, the message naming the text and the form that is wanted.
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
// "4096", "4k", "1m", "2g", "1t", each also as "4kb" or "4kib": powers of 1024. Without a suffix: bytes.
Result<std::uint64_t> parse_size(std::string_view text);
// "1.5", without sign or exponent.
Result<double> parse_decimal(std::string_view text);
// "30", "1.5", "500ms", "200us", "2m", "1h", "1d"; without a suffix: seconds. Gives seconds, at most 10^9.
Result<double> parse_duration(std::string_view text);
// The same; a number without a suffix counts `unit_seconds` each.
Result<double> parse_duration(std::string_view text, double unit_seconds);
// "1", "0", "true", "false", "yes", "no"; empty, as a key without a value is: true.
Result<bool> parse_truth(std::string_view text);
// "50:99:99.9": above 0, at most 100; sorted.
Result<std::vector<double>> parse_percentiles(std::string_view text);

// The parts of "a,b" or "a,b,c" by direction: one value holds for reads and writes, of several the first is for reads
// and the second for writes; the third, for trims, is not used. An empty part leaves what is there.
struct DirectionTexts {
  std::string_view read, write;
};
Result<DirectionTexts> parse_directions(std::string_view text);
// CPUs as "0-3,8"; sorted, each below 65,536.
Result<std::vector<unsigned>> parse_cpu_list(std::string_view text);

// 4,194,304 is "4MiB", 1,000 is "1000": exact, as job files read it back.
std::string size_text(std::uint64_t bytes);

}  // namespace headrace::bench

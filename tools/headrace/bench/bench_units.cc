#include "bench_units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace headrace::bench {
namespace {

Status wrong(std::string_view text, const char* wanted) {
  return {Code::kInvalidArgument, Layer::kApi, "'" + std::string(text.substr(0, 80)) + "' is not " + wanted};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// A decimal number without sign or exponent; std::from_chars accepts more than job files may contain.
bool is_decimal(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::count(text.begin(), text.end(), '.') <= 1 && text != ".";
}

Result<double> decimal_of(std::string_view text, std::string_view whole, const char* wanted) {
  double value = 0;
  if (!is_decimal(text)) return wrong(whole, wanted);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return wrong(whole, wanted);
  return value;
}

}  // namespace

Result<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return wrong(text, "a whole number below 2^64");
  }
  return value;
}

Result<std::uint64_t> parse_size(std::string_view text) {
  constexpr const char* kWanted = "a size below 2^63 such as 4096, 256k, 4m or 1g";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string suffix = lower(text.substr(digits));
  unsigned shift = 0;
  if (!suffix.empty()) {
    if (const auto power = std::string_view("kmgtp").find(suffix[0]); power != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(power) + 1);
      suffix.erase(0, 1);
      if (suffix == "ib") suffix = "b";
    }
    if (!suffix.empty() && suffix != "b") return wrong(text, kWanted);
  }
  const auto number = parse_number(text.substr(0, digits));
  if (!number.ok() || *number > std::uint64_t{INT64_MAX} >> shift) return wrong(text, kWanted);
  return *number << shift;
}

Result<double> parse_decimal(std::string_view text) { return decimal_of(text, text, "a decimal number"); }

Result<double> parse_duration(std::string_view text) { return parse_duration(text, 1); }

Result<double> parse_duration(std::string_view text, double unit_seconds) {
  constexpr const char* kWanted = "a duration of at most 10^9 seconds such as 30, 500ms or 2m";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string suffix = lower(text.substr(digits));
  double unit = 0;
  for (const auto& [name, seconds] : {std::pair<const char*, double>{"", unit_seconds},
                                      {"s", 1},
                                      {"ms", 1e-3},
                                      {"msec", 1e-3},
                                      {"us", 1e-6},
                                      {"usec", 1e-6},
                                      {"m", 60},
                                      {"h", 3600},
                                      {"d", 86400}}) {
    if (suffix == name) unit = seconds;
  }
  if (unit == 0) return wrong(text, kWanted);
  HEADRACE_TRY_ASSIGN(const double value, decimal_of(text.substr(0, digits), text, kWanted));
  if (value * unit > 1e9) return wrong(text, kWanted);
  return value * unit;
}

Result<bool> parse_truth(std::string_view text) {
  const std::string word = lower(text);
  if (word.empty() || word == "1" || word == "true" || word == "yes") return true;
  if (word == "0" || word == "false" || word == "no") return false;
  return wrong(text, "1 or 0");
}

Result<std::vector<double>> parse_percentiles(std::string_view text) {
  constexpr const char* kWanted = "a list of at most 20 percentiles such as 50:99:99.9";
  std::vector<double> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    HEADRACE_TRY_ASSIGN(const double value, decimal_of(text.substr(at, end - at), text, kWanted));
    if (!(value > 0) || value > 100 || out.size() == 20) return wrong(text, kWanted);
    out.push_back(value);
    at = end + 1;
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<DirectionTexts> parse_directions(std::string_view text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos) return DirectionTexts{text, text};
  std::string_view rest = text.substr(comma + 1);
  const std::string_view write = rest.substr(0, rest.find(','));
  if (std::count(rest.begin(), rest.end(), ',') > 1) return wrong(text, "of the form READ,WRITE");
  return DirectionTexts{text.substr(0, comma), write};
}

Result<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
  constexpr const char* kWanted = "a list of CPUs such as 0-3,8";
  std::vector<bool> chosen;
  for (std::size_t at = 0; at <= text.size();) {
    // fio also accepts ':'.
    const std::size_t end = std::min(text.find_first_of(",:", at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t dash = part.find('-');
    const auto first = parse_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1));
    if (!first.ok() || !last.ok() || *last < *first || *last >= 65536) return wrong(text, kWanted);
    if (chosen.size() <= *last) chosen.resize(*last + 1);
    for (std::uint64_t cpu = *first; cpu <= *last; ++cpu) chosen[cpu] = true;
    at = end + 1;
  }
  std::vector<unsigned> out;
  for (unsigned cpu = 0; cpu < chosen.size(); ++cpu) {
    if (chosen[cpu]) out.push_back(cpu);
  }
  return out;
}

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB"};
  unsigned unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

}  // namespace headrace::bench

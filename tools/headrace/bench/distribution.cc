#include "distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "bench_units.h"
#include "offset_generator.h"

namespace headrace::bench {
namespace {

double unit(std::uint64_t random) noexcept { return (static_cast<double>(random >> 11) + 0.5) * 0x1p-53; }

Result<DistributionKind> parse_zones(std::string_view text, std::string_view name) {
  const bool absolute = name == "zoned_abs";
  if (text.empty()) {
    return Status(Code::kInvalidArgument, Layer::kApi,
                  "'" + std::string(name) + "' is not complete: zones are SHARE/SIZE, as " +
                      (absolute ? "zoned_abs:60/10g:40/90g" : "zoned:60/10:40/90"));
  }
  DistributionKind kind;
  kind.law = DistributionKind::Law::kZoned;
  HEADRACE_TRY_ASSIGN(const DirectionTexts texts, parse_directions(text));
  HEADRACE_TRY_ASSIGN(kind.zones[0], AccessZones::parse(texts.read, absolute));
  HEADRACE_TRY_ASSIGN(kind.zones[1], AccessZones::parse(texts.write, absolute));
  return kind;
}

}  // namespace

Result<DistributionKind> parse_distribution(std::string_view text) {
  using Law = DistributionKind::Law;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const auto wrong = [&](const char* wanted) {
    return Status(Code::kInvalidArgument, Layer::kApi, "'" + std::string(text.substr(0, 80)) + "' is not " + wanted);
  };
  DistributionKind kind;
  if (name == "random" && colon == text.size()) return kind;
  if (name == "zoned" || name == "zoned_abs") return parse_zones(text.substr(std::min(colon + 1, text.size())), name);
  kind.law = name == "zipf" ? Law::kZipf : name == "pareto" ? Law::kPareto : Law::kNormal;
  if (kind.law == Law::kNormal && name != "normal")
    return wrong("one of random, zipf:T, pareto:H, normal:D, zoned:Z, zoned_abs:Z");
  if (colon == text.size()) {
    kind.parameter = kind.law == Law::kZipf ? 1.1 : kind.law == Law::kPareto ? 0.2 : 20;
    if (kind.law == Law::kNormal) return wrong("complete: normal:D has the deviation in percent");
    return kind;
  }
  const auto number = parse_decimal(text.substr(colon + 1));
  if (!number.ok()) return wrong("such as zipf:1.2, pareto:0.9 or normal:20");
  kind.parameter = *number;
  if (kind.law == Law::kZipf && !(kind.parameter > 0 && kind.parameter <= 10)) {
    return wrong("a zipf theta above 0 and at most 10");
  }
  if (kind.law == Law::kPareto && !(kind.parameter > 0 && kind.parameter < 1))
    return wrong("a pareto h between 0 and 1");
  if (kind.law == Law::kNormal && !(kind.parameter > 0 && kind.parameter <= 100)) {
    return wrong("a normal deviation above 0 and at most 100 percent");
  }
  return kind;
}

Distribution::Distribution(const DistributionKind& kind, std::uint64_t count)
    : law_(kind.law), parameter_(kind.parameter), count_(static_cast<double>(count)) {
  if (law_ == DistributionKind::Law::kPareto) {
    first_ = std::log(parameter_) / std::log(1 - parameter_);
  } else if (law_ == DistributionKind::Law::kZipf) {
    first_ = area(1.5) - 1;
    last_ = area(count_ + 0.5);
  }
}

double Distribution::area(double x) const noexcept {
  const double power = 1 - parameter_;
  return std::abs(power) < 1e-9 ? std::log(x) : (std::pow(x, power) - 1) / power;
}

double Distribution::area_end(double a) const noexcept {
  const double power = 1 - parameter_;
  return std::abs(power) < 1e-9 ? std::exp(a) : std::pow(std::max(a * power + 1, 0.0), 1 / power);
}

std::uint64_t Distribution::pick(std::uint64_t random) const noexcept {
  using Law = DistributionKind::Law;
  const auto clamped = [this](double x) { return static_cast<std::uint64_t>(std::clamp(x, 0.0, count_ - 1)); };
  if (law_ == Law::kPareto) return clamped(count_ * std::pow(unit(random), first_));
  if (law_ == Law::kNormal) {
    // Rejects draws outside the region; with a deviation of 100 %, 38 % of them are inside.
    for (int attempt = 0; attempt < 64; ++attempt, random = mix64(random)) {
      const double radius = std::sqrt(-2 * std::log(unit(random)));
      const double x = radius * std::cos(2 * std::numbers::pi * unit(mix64(random ^ 1)));
      const double at = count_ / 2 + x * count_ * parameter_ / 100;
      if (at >= 0 && at < count_) return clamped(at);
    }
    return clamped(count_ / 2);
  }
  // Rejection sampling: draws a point under the curve rank^-theta through all ranks, and rejects it in the part of a
  // rank's strip that exceeds the rank's weight. Fewer than one draw in five is rejected.
  for (int attempt = 0; attempt < 64; ++attempt, random = mix64(random)) {
    const double a = first_ + unit(random) * (last_ - first_);
    const double rank = std::clamp(std::round(area_end(a)), 1.0, count_);
    if (a >= area(rank + 0.5) - std::pow(rank, -parameter_)) return clamped(rank - 1);
  }
  return 0;
}

}  // namespace headrace::bench

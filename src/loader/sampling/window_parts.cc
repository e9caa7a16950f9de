// divide_windows(): contiguous parts of windows, and the windows at their borders that share elements with another
// part.
#include <headrace/split.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/access.h"
#include "base/checked.h"
#include "loader/sampling/sampling_parts.h"
#include "loader/sampling/windows_impl.h"

namespace headrace {
namespace loader {
namespace {

struct PartRange {
  std::uint64_t begin = 0, end = 0;  // windows along the axis
};

// How many windows reach across a border between parts. They are the last ones before it.
std::uint64_t reaching_over(const Windows::Impl::Axis& axis) { return base::ceil_div(axis.window, axis.stride) - 1; }

// For a circular axis: how many of the last windows reach over the end into the first ones, and how many of the first
// ones they reach.
struct Circle {
  std::uint64_t last = 0, first = 0;
};
Circle circle_of(const Windows::Impl::Axis& axis) {
  if (axis.boundary != Boundary::kWrap) return {};
  const std::uint64_t last = axis.first + axis.windows - 1;
  // Elements beyond the extent belong to the second lap; the first window begins at first * stride.
  const std::uint64_t end = last * axis.stride + axis.window;
  if (end <= axis.extent || end - axis.extent <= axis.first * axis.stride) return {};
  const std::uint64_t inside = (axis.first * axis.stride + axis.extent - axis.window) / axis.stride;
  return {last - inside, base::ceil_div(end - axis.extent, axis.stride) - axis.first};
}

std::string name_of(std::string_view dim) { return "dim: dimension " + in_quotes(dim) + ": "; }

// The axis to divide.
Result<const Windows::Impl::Axis*> find_axis(const Windows::Impl& impl, std::string_view dim) {
  for (const std::size_t at : impl.sliced) {
    const Windows::Impl::Axis& axis = impl.axes[at];
    if (axis.name != dim) continue;
    if (axis.per_sample != 1) return refuse(name_of(dim) + "samples have several windows along it");
    if (!axis.starts.empty()) {
      return refuse(name_of(dim) + "input_starts sets where its windows begin; divide those starts instead");
    }
    return &axis;
  }
  return refuse("dim: there are no windows along a dimension " + in_quotes(dim));
}

Result<std::vector<PartRange>> ranges_of(const Windows::Impl::Axis& axis, const std::vector<double>& weights) {
  if (weights.empty()) return refuse("weights: no parts");
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] <= 0) {
      return refuse("weights: number " + std::to_string(i) + " is not above 0 and finite");
    }
    total += weights[i];
  }
  if (!std::isfinite(total)) return refuse("weights: their sum is infinite");
  std::vector<PartRange> ranges;
  double sum = 0;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    const double share = std::nearbyint(static_cast<double>(axis.samples) * (sum / total));
    const std::uint64_t end =
        i + 1 == weights.size() ? axis.samples : std::min(axis.samples, static_cast<std::uint64_t>(share));
    if (end <= begin) {
      return refuse("weights: part " + std::to_string(i) + " of " + std::to_string(weights.size()) +
                    " would have no window of the " + std::to_string(axis.samples) + " along " + in_quotes(axis.name));
    }
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

}  // namespace
}  // namespace loader

Result<WindowParts> divide_windows(const Windows& windows, std::string_view dim, const std::vector<double>& weights,
                                   bool drop_leaking) {
  HEADRACE_TRY_ASSIGN(const Windows::Impl::Axis* axis, loader::find_axis(*Access::impl(windows), dim));
  HEADRACE_TRY_ASSIGN(const auto ranges, loader::ranges_of(*axis, weights));
  const std::uint64_t others = windows.sample_count() / axis->samples;
  const std::uint64_t border = loader::reaching_over(*axis);
  const loader::Circle circle = loader::circle_of(*axis);
  WindowParts parts;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto [begin, end] = ranges[i];
    const std::uint64_t windows_of_part = end - begin;
    // A single part has no other part to share with.
    const bool divided = ranges.size() > 1;
    const std::uint64_t front = i > 0 ? border : divided ? circle.first : 0;
    const std::uint64_t back = i + 1 < ranges.size() ? border : divided ? circle.last : 0;
    if (drop_leaking) {
      if (back >= windows_of_part) {
        return loader::refuse("drop_leaking: all " + std::to_string(windows_of_part) + " windows of part " +
                              std::to_string(i) + " along " + loader::in_quotes(dim) + " reach into the next one");
      }
      HEADRACE_TRY_ASSIGN(Windows part, windows.restrict(dim, begin, windows_of_part - back));
      parts.parts.push_back(std::move(part));
      parts.leaking.push_back(0);
      parts.dropped.push_back(back * others);
    } else {
      HEADRACE_TRY_ASSIGN(Windows part, windows.restrict(dim, begin, windows_of_part));
      parts.parts.push_back(std::move(part));
      // The sum cannot overflow: both are below the number of windows of an axis.
      parts.leaking.push_back(std::min(windows_of_part, front + back) * others);
      parts.dropped.push_back(0);
    }
  }
  return parts;
}

}  // namespace headrace

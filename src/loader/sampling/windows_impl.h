// The implementation of Windows.
#pragma once

#include <headrace/windows.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace headrace {

class Windows::Impl {
 public:
  struct Axis {
    std::string name;
    std::uint64_t extent = 0;      // elements of the array
    std::uint64_t window = 0;      // elements of a window
    std::uint64_t stride = 0;      // elements from one window to the next
    std::uint64_t windows = 1;     // along this axis, from `first` on
    std::uint64_t first = 0;       // number of the first window on the whole axis
    std::uint64_t per_sample = 1;  // windows per sample along this axis; the last sample may have fewer
    std::uint64_t samples = 1;     // along this axis
    Boundary boundary = Boundary::kDrop;
    std::vector<std::uint64_t> starts;  // of all windows of the axis; empty: multiples of the stride

    std::uint64_t begin_of(std::uint64_t number) const noexcept {
      return starts.empty() ? (first + number) * stride : starts[first + number];
    }
    std::uint64_t windows_of(std::uint64_t sample) const noexcept {
      return std::min(per_sample, windows - sample * per_sample);
    }
  };
  struct Output {
    static constexpr std::size_t kNoAxis = std::numeric_limits<std::size_t>::max();
    std::string name;
    std::size_t axis = kNoAxis;  // along which its slice differs from the window's
    std::uint64_t offset = 0, count = 1, step = 1;
  };

  static DimSlice slice(const Axis& axis, std::uint64_t window, const Output* output) noexcept;

  std::vector<Axis> axes;           // of the array, in its order
  std::vector<std::size_t> sliced;  // those that have windows, slowest first
  std::vector<Output> outputs;      // at least one
  std::uint64_t sample_count = 1, window_count = 1;
};

}  // namespace headrace

// How much a read has to do, as far as metadata tells: whether anybody may come to want it stopped.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>

#include <cstdint>

namespace headrace::python {

// What a read that is over before anybody could press Ctrl-C costs at most.
inline constexpr std::uint64_t kShortReadBytes = std::uint64_t{16} << 20;

struct ReadCost {
  std::uint64_t chunks = 0;
  std::uint64_t elements = 0;  // decoded or copied
  std::uint64_t bytes = 0;     // of these, and something for each chunk's way from storage
};

// At most this much; each saturates. Nothing for a selection that the array does not have: the read says so.
ReadCost cost_of(const Array& array, const Selection& selection);

}  // namespace headrace::python

// The kinds of Footprint that make_footprint() chooses from.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zarr/footprint.h"

namespace headrace::zarr {

std::unique_ptr<const Footprint> make_grid_footprint(FootprintInput input);
Result<std::unique_ptr<const Footprint>> make_point_footprint(FootprintInput input);

struct LocatedPoint {
  std::uint64_t key;     // number of the smallest unit: the object's, then the entry at each level
  std::uint64_t offset;  // in the decoded unit, bytes
  std::uint64_t place;   // in the result
};
// Of points whose places are known; they are some or all of the selection's.
Result<std::unique_ptr<const Footprint>> make_point_footprint(FootprintInput input, std::vector<LocatedPoint> points);

}  // namespace headrace::zarr

// The kinds of Footprint that make_footprint() chooses from.
#pragma once

#include <memory>

#include "zarr/grid/footprint.h"

namespace headrace::zarr {

std::unique_ptr<const Footprint> make_grid_footprint(FootprintInput input);
std::unique_ptr<const Footprint> make_rectilinear_footprint(const FootprintInput& input);
Result<std::unique_ptr<const Footprint>> make_point_footprint(FootprintInput input);

}  // namespace headrace::zarr

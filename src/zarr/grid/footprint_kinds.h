// The kinds of Footprint that make_footprint() chooses from.
#pragma once

#include <memory>
#include <memory_resource>

#include "zarr/grid/footprint.h"

namespace headrace::zarr {

std::shared_ptr<const Footprint> make_grid_footprint(FootprintInput&& input, std::pmr::memory_resource* memory);
std::shared_ptr<const Footprint> make_rectilinear_footprint(const FootprintInput& input);
Result<std::shared_ptr<const Footprint>> make_point_footprint(FootprintInput input);

}  // namespace headrace::zarr

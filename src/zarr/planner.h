// Planner: turns a selection of an array into transfer waves.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>
#include <headrace/status.h>

#include <memory>

#include "transfer/plan.h"
#include "zarr/array_impl.h"
#include "zarr/footprint.h"
#include "zarr/read_conversion.h"

namespace headrace::zarr {

// `tensor` has been checked against `selection.shape`; its strides are set, and its elements are conversion.dtype.
Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array,
                                                  const ResolvedSelection& selection, const TensorView& tensor,
                                                  ReadConversion conversion);
// Chunks of one shape of an array that has several, each an object of its own. `chain` decodes them.
std::unique_ptr<transfer::Plan> make_chunk_plan(std::shared_ptr<const Array::Impl> array,
                                                std::unique_ptr<const Footprint> footprint, ReadConversion conversion,
                                                std::shared_ptr<const codec::Chain> chain);

}  // namespace headrace::zarr

// Planner: turns a selection of an array into transfer waves.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>
#include <headrace/status.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "transfer/plan/plan.h"
#include "zarr/array/array_impl.h"
#include "zarr/plan/read_conversion.h"

namespace headrace::zarr {

// Each tensor has been checked against its selection's shape; its strides are set, and its elements are
// conversion.dtype. REQUIRES: count > 0.
// Several are planned together: each chunk is a task once. `part_at` sets each of them, one after the other in the same
// place, whose vectors keep their memory.
struct PlanPart {
  ResolvedSelection selection;
  TensorView tensor;
};
using PlanPartAt = std::function<Status(std::size_t number, PlanPart& part)>;
Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array, std::size_t count,
                                                  const PlanPartAt& part_at, ReadConversion conversion);
Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array,
                                                  const ResolvedSelection& selection, const TensorView& tensor,
                                                  ReadConversion conversion);

}  // namespace headrace::zarr

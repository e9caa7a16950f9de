// Turns selections of an array into a transfer::Plan.
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

// One of the selections of a read. make_plan() plans them together: a chunk touched by several is one task. It calls
// `part_at` for each number below `count` with the same PlanPart, whose vectors keep their memory.
// REQUIRES: count > 0. The tensor's shape matches the selection, its strides are set, and its elements are
// conversion.dtype.
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

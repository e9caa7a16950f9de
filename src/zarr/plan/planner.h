// Planner: turns a selection of an array into transfer waves.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>
#include <headrace/status.h>

#include <memory>
#include <span>

#include "transfer/plan/plan.h"
#include "zarr/array/array_impl.h"
#include "zarr/plan/read_conversion.h"

namespace headrace::zarr {

// Each tensor has been checked against its selection's shape; its strides are set, and its elements are
// conversion.dtype. REQUIRES: parts is not empty.
// Several are planned together: each chunk is a task once.
struct PlanPart {
  ResolvedSelection selection;
  TensorView tensor;
};
Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array,
                                                  std::span<const PlanPart> parts, ReadConversion conversion);
Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array,
                                                  const ResolvedSelection& selection, const TensorView& tensor,
                                                  ReadConversion conversion);

}  // namespace headrace::zarr

// Array::read_variable: the way from an array of strings to transfer::VariableRead.
#include <headrace/array.h>

#include <cstring>
#include <new>

#include "base/access.h"
#include "base/checked.h"
#include "base/trace.h"
#include "codec/variable_codec.h"
#include "transfer/context/context_impl.h"
#include "transfer/read/variable_read.h"
#include "zarr/array/array_impl.h"
#include "zarr/plan/planner.h"
#include "zarr/plan/read_conversion.h"

namespace headrace {
namespace {

using codec::kVariableSlotBytes;

Result<VariableResult> read_elements(const std::shared_ptr<const Array::Impl>& array, const ResolvedSelection& resolved,
                                     const VariableReadOptions& options) {
  const auto& resources = Access::impl(array->store.context())->resources;
  HEADRACE_TRY(resources->check_usable());
  const DataType& dtype = array->metadata.dtype;
  if (!dtype.is_variable_length()) {
    return Status(Code::kInvalidArgument, Layer::kApi,
                  "elements of type '" + dtype.name + "' have a size: Array::read reads them into a tensor");
  }
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : resolved.shape) {
    if (extent == 0) elements = 0;
  }
  for (const std::uint64_t extent : resolved.shape) {
    const auto product = base::checked_mul(elements, extent);
    if (!product || *product > (std::uint64_t{1} << 58)) {
      return Status(Code::kResourceExhausted, Layer::kApi, "the selection has more than 2^58 elements: select fewer");
    }
    elements = *product;
  }
  HEADRACE_TRY_ASSIGN(auto operation, transfer::VariableRead::create(*resources, elements, options));

  // A tensor of slots.
  TensorView slots;
  slots.memory = operation->slots();
  slots.shape = resolved.shape;
  slots.strides_bytes.resize(resolved.shape.size());
  std::int64_t stride = kVariableSlotBytes;
  for (std::size_t i = resolved.shape.size(); i-- > 0;) {
    slots.strides_bytes[i] = stride;
    if (elements != 0) stride *= static_cast<std::int64_t>(resolved.shape[i]);
  }
  zarr::ReadConversion as_stored;
  as_stored.dtype = codec::slot_type(dtype);
  as_stored.op = array->element_op;
  as_stored.fill.resize(kVariableSlotBytes);
  const codec::VariableSlot fill{array->fill.data(), array->fill.size()};
  std::memcpy(as_stored.fill.data(), &fill, sizeof(fill));
  trace::Timer timer(trace::Stage::kPlan);
  auto plan = zarr::make_plan(array, resolved, slots, std::move(as_stored));
  const double plan_seconds = timer.stop();
  if (!plan.ok()) return std::move(plan).status();
  HEADRACE_TRY(operation->run(std::move(*plan), plan_seconds));
  VariableResult result(resolved.shape, operation->take_offsets(), operation->take_data(),
                        dtype.kind == TypeKind::kString);
  result.errors = operation->take_errors();
  result.stats = operation->stats();
  return result;
}

}  // namespace

Result<VariableResult> Array::read_variable(const Selection& selection, const VariableReadOptions& options) const {
  try {
    HEADRACE_TRY_ASSIGN(const ResolvedSelection resolved, resolve(selection));
    return read_elements(impl_, resolved, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace

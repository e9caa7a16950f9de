// Array::read_variable: reads elements of variable length, as a read whose chunks end in an ElementsSink.
#include <headrace/array.h>
#include <headrace/device.h>

#include <cstring>
#include <new>

#include "base/access.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/trace.h"
#include "codec/variable_codec.h"
#include "transfer/context/context_impl.h"
#include "transfer/read/elements_sink.h"
#include "transfer/read/read.h"
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
                  "elements of type '" + dtype.name + "' are of fixed size: use Array::read");
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
  transfer::ReadStart start{base::now_ns()};
  HEADRACE_TRY_ASSIGN(const auto kept, transfer::Elements::create(*resources, elements, options));

  // A tensor of slots.
  TensorView slots;
  slots.memory = kept->slots();
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
  start.plan_seconds = timer.stop();
  if (!plan.ok()) return std::move(plan).status();
  ReadOptions reading;
  reading.placement = Placement::kCpu;
  reading.progress = options.progress;
  reading.cancel = options.cancel;
  reading.collect_errors = options.collect_errors;
  const transfer::HostTarget target{
      [&kept](const transfer::ReadTasks& tasks) { return std::make_unique<transfer::ElementsSink>(tasks, *kept); }};
  HEADRACE_TRY_ASSIGN(const Device host, Device::open("host"));
  HEADRACE_TRY_ASSIGN(const auto read, transfer::Read::create(*resources, std::move(*plan), Access::impl(host),
                                                              std::move(reading), start, target));
  HEADRACE_TRY(read->run());
  Stats stats = read->stats();
  HEADRACE_TRY(kept->gather(stats));
  VariableResult result(resolved.shape, kept->take_offsets(), kept->take_data(), dtype.kind == TypeKind::kString);
  result.errors = read->errors();
  result.stats = std::move(stats);
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

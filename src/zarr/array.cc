#include <headrace/array.h>

#include <algorithm>
#include <limits>
#include <new>

#include "base/access.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/json_budget.h"
#include "base/trace.h"
#include "codec/variable_codec.h"
#include "transfer/context/context_impl.h"
#include "transfer/read/read.h"
#include "zarr/array/array_impl.h"
#include "zarr/index/decode_index.h"
#include "zarr/kept_read.h"
#include "zarr/metadata/node_io.h"
#include "zarr/metadata/node_path.h"
#include "zarr/plan/planner.h"
#include "zarr/plan/read_conversion.h"
#include "zarr/select/block_selection.h"

namespace headrace {
Result<Array> Array::Impl::make(const Store& store, std::string path, zarr::LoadedNode node,
                                const OpenOptions& options) {
  if (!node.array) {
    return Status(Code::kInvalidArgument, Layer::kZarr, "this is a group, not an array; name an array inside it")
        .with_key(path.empty() ? "/" : path);
  }
  auto impl = std::make_shared<Impl>(store, std::move(path));
  impl->metadata = std::move(*node.array);
  impl->memory = base::Charge(Access::impl(store.context())->resources->stored_memory());
  HEADRACE_TRY(impl->memory.take(zarr::kept_bytes(impl->metadata), "an array's metadata").with_key(node.key));
  if (Status status = impl->resolve(); !status.ok()) return std::move(status).with_key(node.key);
  HEADRACE_TRY(impl->memory.take(impl->info.attributes_json.size(), "an array's attributes").with_key(node.key));
  impl->info.lenient_uses = std::move(node.lenient.uses);
  impl->index_array = Access::impl(store.context())->resources->indices().array_number(store.url(), impl->path);
  impl->revalidate = options.revalidate;
  if (!options.index_directory.empty()) {
    HEADRACE_TRY_ASSIGN(impl->info.decode_index, zarr::load_decode_index(*impl, options.index_directory));
  }
  return Array(std::shared_ptr<const Impl>(std::move(impl)));
}

Result<Array> Array::open(const Store& store, std::string_view given_path, const OpenOptions& options) {
  try {
    HEADRACE_TRY(Access::impl(store.context())->resources->check_usable());
    HEADRACE_TRY_ASSIGN(std::string path, zarr::normalize_path(given_path));
    zarr::LoadOptions load;
    HEADRACE_TRY_ASSIGN(load.lenient, zarr::Lenient::parse(options.lenient));
    load.memory = Access::impl(store.context())->resources->stored_memory();
    HEADRACE_TRY_ASSIGN(zarr::LoadedNode node, zarr::load_node(*Access::impl(store), path, load));
    return Impl::make(store, std::move(path), std::move(node), options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<Array> Array::from_document(const Store& store, std::string_view given_path, int zarr_format,
                                   std::string_view document, const OpenOptions& options) {
  try {
    HEADRACE_TRY(Access::impl(store.context())->resources->check_usable());
    HEADRACE_TRY_ASSIGN(std::string path, zarr::normalize_path(given_path));
    if (zarr_format != 2 && zarr_format != 3) {
      return Status(Code::kInvalidArgument, Layer::kZarr,
                    "zarr_format is " + std::to_string(zarr_format) + ", not 2 or 3");
    }
    zarr::LoadedNode node;
    node.key = path + (path.empty() ? "" : "/") + (zarr_format == 2 ? ".zarray" : "zarr.json");
    HEADRACE_TRY_ASSIGN(node.lenient, zarr::Lenient::parse(options.lenient));
    node.memory = base::Charge(Access::impl(store.context())->resources->stored_memory());
    HEADRACE_TRY(
        node.memory.take(base::max_parse_bytes(document.size()), "parsing a metadata document").with_key(node.key));
    auto metadata = zarr_format == 2 ? zarr::parse_v2_array(document, &node.lenient)
                                     : zarr::parse_v3_array(document, &node.lenient);
    if (!metadata.ok()) return std::move(metadata).status().with_key(node.key);
    node.array = std::move(*metadata);
    return Impl::make(store, std::move(path), std::move(node), options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

const ArrayInfo& Array::info() const noexcept { return impl_->info; }

Result<ResolvedSelection> Array::resolve(const Selection& selection) const {
  try {
    return impl_->resolve_selection(selection);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

namespace {

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + ")";
}

std::string name_of(const DataType& dtype) { return dtype.name.empty() ? "of no type" : dtype.name; }

// Checks the tensor against the selection and gives it strides if it has none.
Status check_tensor(const ResolvedSelection& selection, const DataType& dtype, TensorView& tensor) {
  if (tensor.shape != selection.shape) {
    return Status(
        Code::kInvalidArgument, Layer::kApi,
        "the tensor has shape " + shape_text(tensor.shape) + ", the selection has " + shape_text(selection.shape));
  }
  std::uint64_t bytes = dtype.item_bytes;
  for (const std::uint64_t extent : selection.shape) bytes = base::saturating_mul(bytes, extent);
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Status(Code::kInvalidArgument, Layer::kApi, "the selection has more bytes than any tensor can hold");
  }
  if (!same_elements(tensor.dtype, dtype)) {
    return Status(Code::kInvalidArgument, Layer::kApi,
                  "the tensor's elements are " + name_of(tensor.dtype) + ", but the read delivers " + name_of(dtype) +
                      (tensor.dtype.name == dtype.name ? " with other fields" : ""));
  }
  if (tensor.memory.data() == nullptr && bytes > 0) {
    return Status(Code::kInvalidArgument, Layer::kApi, "the tensor's memory is null");
  }
  if (tensor.strides_bytes.empty()) {
    tensor.strides_bytes.resize(tensor.shape.size());
    std::int64_t stride = dtype.item_bytes;
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
      tensor.strides_bytes[i] = stride;
      stride *= static_cast<std::int64_t>(std::max<std::uint64_t>(tensor.shape[i], 1));
    }
  } else if (tensor.strides_bytes.size() != tensor.shape.size()) {
    return Status(Code::kInvalidArgument, Layer::kApi,
                  "the tensor has " + std::to_string(tensor.shape.size()) + " dimensions and " +
                      std::to_string(tensor.strides_bytes.size()) + " strides");
  }
  if (bytes == 0) return {};
  device::Box box;
  box.rank = static_cast<int>(tensor.shape.size());
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) box.dim[i] = {tensor.shape[i], 0, tensor.strides_bytes[i]};
  if (tensor.first_byte <= tensor.memory.size() &&
      device::fits(box, &device::BoxDim::dst_stride_bytes, static_cast<std::int64_t>(tensor.first_byte),
                   dtype.item_bytes, tensor.memory.size())) {
    return {};
  }
  return Status(Code::kInvalidArgument, Layer::kApi,
                "the tensor's memory has " + std::to_string(tensor.memory.size()) +
                    " bytes, but its shape and strides from byte " + std::to_string(tensor.first_byte) +
                    " on need more (" + std::to_string(bytes) + " bytes of elements)");
}

}  // namespace

class Completion::State {
 public:
  State(std::shared_ptr<const Array::Impl> array, std::shared_ptr<transfer::Scheduler> started)
      : owner(std::move(array)), read(std::move(started)) {}
  Status usable() const { return Access::impl(owner->store.context())->resources->check_usable(); }
  const std::shared_ptr<const Array::Impl> owner;  // keeps the Context; outlives `read`
  const std::shared_ptr<transfer::Scheduler> read;
};

// In a forked child the reading threads do not exist, and locks may stay held. Nothing ever arrives there, so these
// calls do not wait.
Status Completion::wait() const {
  HEADRACE_TRY(state_->usable());
  return state_->read->wait();
}
bool Completion::wait_for(std::chrono::nanoseconds timeout) const {
  return !state_->usable().ok() || state_->read->wait_for(timeout);
}
bool Completion::done() const { return !state_->usable().ok() || state_->read->done(); }
void Completion::cancel() const {
  if (state_->usable().ok()) state_->read->cancel();
}
const Stats& Completion::stats() const { return state_->read->stats(); }
const std::vector<ChunkError>& Completion::errors() const { return state_->read->errors(); }

namespace {

// The conversion of each element, as requested by `options`.
Result<zarr::ReadConversion> conversion_of(const Array::Impl& array, const ReadOptions& options) {
  HEADRACE_TRY(Access::impl(array.store.context())->resources->check_usable());
  if (array.metadata.dtype.is_variable_length()) {
    return Status(Code::kUnsupported, Layer::kZarr,
                  "elements of type '" + array.metadata.dtype.name +
                      "' have variable length, which tensors and device memory cannot hold: read them to the host with "
                      "Array::read_variable (C: hr_array_read_variable)");
  }
  return zarr::make_conversion(array.metadata.dtype, array.element_op, array.fill, !array.metadata.fill.empty(),
                               options);
}

using Prepared = Result<std::shared_ptr<transfer::Scheduler>>;

Prepared prepare(const std::shared_ptr<const Array::Impl>& array, Result<std::unique_ptr<transfer::Plan>> plan,
                 const transfer::ReadStart& start, const Device& device, const ReadOptions& options,
                 transfer::ReadExtras extras) {
  if (!plan.ok()) return std::move(plan).status();
  // Only the store can say whether a cached chunk is still the one under its key, so caches are not used.
  if (array->revalidate && array->sharding == nullptr && Access::impl(array->store)->ranges() != nullptr) {
    extras.kept = {};
  }
  return transfer::Read::create(*Access::impl(array->store.context())->resources, std::move(*plan),
                                Access::impl(device), options, start, {}, std::move(extras));
}

Prepared prepare_read(const std::shared_ptr<const Array::Impl>& array, const Selection& selection,
                      const TensorView& tensor, const Device& device, const ReadOptions& options,
                      transfer::ReadExtras extras = {}) {
  transfer::ReadStart start{base::now_ns()};
  HEADRACE_TRY_ASSIGN(zarr::ReadConversion conversion, conversion_of(*array, options));
  HEADRACE_TRY_ASSIGN(const ResolvedSelection resolved, array->resolve_selection(selection));
  TensorView target = tensor;
  HEADRACE_TRY(check_tensor(resolved, conversion.dtype, target));
  trace::Timer timer(trace::Stage::kPlan);
  auto plan = zarr::make_plan(array, resolved, target, std::move(conversion));
  start.plan_seconds = timer.stop();
  return prepare(array, std::move(plan), start, device, options, std::move(extras));
}

Prepared prepare_many(const std::shared_ptr<const Array::Impl>& array, std::span<const ReadPart> parts,
                      const Device& device, const ReadOptions& options, transfer::ReadExtras extras = {}) {
  if (parts.empty()) return Status(Code::kInvalidArgument, Layer::kApi, "no selections to read");
  if (parts.size() == 1) {
    return prepare_read(array, parts[0].selection, parts[0].tensor, device, options, std::move(extras));
  }
  transfer::ReadStart start{base::now_ns()};
  HEADRACE_TRY_ASSIGN(zarr::ReadConversion conversion, conversion_of(*array, options));
  trace::Timer timer(trace::Stage::kPlan);
  auto plan = [&]() -> Result<std::unique_ptr<transfer::Plan>> {
    const auto part_at = [&](std::size_t i, zarr::PlanPart& part) {
      Status status = array->resolve_selection(parts[i].selection, part.selection);
      part.tensor = parts[i].tensor;
      if (status.ok()) status = check_tensor(part.selection, conversion.dtype, part.tensor);
      if (status.ok()) return status;
      return std::move(status).with_cause("selection " + std::to_string(i) + " of those read together");
    };
    return zarr::make_plan(array, parts.size(), part_at, conversion);
  }();
  start.plan_seconds = timer.stop();
  return prepare(array, std::move(plan), start, device, options, std::move(extras));
}

Result<Completion> start_reading(const std::shared_ptr<const Array::Impl>& array, Prepared prepared) {
  if (!prepared.ok()) return std::move(prepared).status();
  // Allocated first: once the read has started, there must be a handle that can wait for it.
  auto state = std::make_shared<Completion::State>(array, std::move(*prepared));
  state->read->start();
  return Access::make<Completion>(std::move(state));
}

Status run(Prepared prepared, Stats* stats) {
  if (!prepared.ok()) return std::move(prepared).status();
  Status status = (*prepared)->run();
  if (stats != nullptr) *stats = (*prepared)->stats();
  return status;
}

}  // namespace

Result<Completion> Array::read_async(const Selection& selection, const TensorView& tensor, const Device& device,
                                     const ReadOptions& options) const {
  try {
    return start_reading(impl_, prepare_read(impl_, selection, tensor, device, options));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status Array::read(const Selection& selection, const TensorView& tensor, const Device& device,
                   const ReadOptions& options, Stats* stats) const {
  try {
    return run(prepare_read(impl_, selection, tensor, device, options), stats);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<Completion> Array::read_many_async(std::span<const ReadPart> parts, const Device& device,
                                          const ReadOptions& options) const {
  try {
    return start_reading(impl_, prepare_many(impl_, parts, device, options));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

bool zarr::has_no_files(const Array& array) noexcept {
  return Access::impl(Access::impl(array)->store)->ranges() != nullptr;
}

Result<Completion> zarr::read_many_kept(const Array& array, std::span<const ReadPart> parts, const Device& device,
                                        const ReadOptions& options, transfer::KeptChunks kept,
                                        std::unique_ptr<transfer::ReadEnd> end) {
  transfer::ReadExtras extras{std::move(kept), std::move(end)};
  try {
    const auto& impl = Access::impl(array);
    return start_reading(impl, prepare_many(impl, parts, device, options, std::move(extras)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status Array::read_many(std::span<const ReadPart> parts, const Device& device, const ReadOptions& options,
                        Stats* stats) const {
  try {
    return run(prepare_many(impl_, parts, device, options), stats);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace

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
#include "transfer/context_impl.h"
#include "transfer/read.h"
#include "zarr/array_impl.h"
#include "zarr/block_selection.h"
#include "zarr/decode_index.h"
#include "zarr/node_io.h"
#include "zarr/node_path.h"
#include "zarr/planner.h"
#include "zarr/read_conversion.h"

namespace headrace {
namespace {

constexpr std::uint64_t kSaturated = std::numeric_limits<std::uint64_t>::max();

std::uint64_t saturating_mul(std::uint64_t a, std::uint64_t b) {
  return base::checked_mul(a, b).value_or(a == 0 || b == 0 ? 0 : kSaturated);
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + ")";
}

void list_codecs(const codec::Chain& chain, int zarr_format, std::vector<std::string>& names,
                 std::vector<bool>* on_gpu) {
  (void)zarr_format;
  for (const codec::Codec& codec : chain.codecs()) {
    names.emplace_back(codec.name());
    if (on_gpu != nullptr) on_gpu->push_back(codec.has_device_code());
  }
}

}  // namespace

namespace {

// `decoded` is the type of the elements that a chain gives, which outlives what is returned.
zarr::ChunkCodecs chunk_codecs(const zarr::ArrayMetadata& metadata, const DataType& decoded,
                               const std::vector<std::byte>& fill, std::shared_ptr<base::MemoryBudget> memory) {
  const std::size_t rank = metadata.shape.size();
  zarr::ChunkCodecs about;
  about.zarr_format = metadata.zarr_format;
  about.dtype = &decoded;
  about.fill = &fill;
  about.memory = std::move(memory);
  if (metadata.zarr_format == 2) {
    about.initial.byte_swapped = metadata.v2_big_endian;
    for (std::size_t i = 0; i < rank; ++i) {
      about.initial.axis_order.push_back(static_cast<std::uint8_t>(metadata.v2_order == 'F' ? rank - 1 - i : i));
    }
  }
  return about;
}

}  // namespace

Result<codec::Chain> Array::Impl::build_chain_for(const std::vector<std::uint64_t>& shape) const {
  return zarr::build_chain(metadata.codecs, shape, chunk_codecs(metadata, decoded, fill, shards.budget()));
}

Status Array::Impl::resolve() {
  const std::size_t rank = metadata.shape.size();
  fill = metadata.fill;
  if (fill.empty()) fill.resize(metadata.dtype.item_bytes);
  decoded = metadata.dtype.is_variable_length() ? codec::slot_type(metadata.dtype) : metadata.dtype;
  const zarr::ChunkCodecs about = chunk_codecs(metadata, decoded, fill, shards.budget());
  // Shards of a rectilinear grid are read whole: each would have an index of its own length.
  if (metadata.rectilinear == nullptr) {
    HEADRACE_TRY_ASSIGN(sharding, zarr::build_shard_tree(metadata.codecs, metadata.chunk_shape, about));
  }
  if (sharding == nullptr) {
    HEADRACE_TRY_ASSIGN(chain, zarr::build_chain(metadata.codecs, metadata.chunk_shape, about));
  }
  const codec::Chain& unit = unit_chain();
  const std::uint32_t width = decoded.uniform_swap_width();
  element_op.element_bytes = decoded.item_bytes;
  element_op.swap_width = unit.layout().byte_swapped && width > 1 ? width : 1;

  info.zarr_format = metadata.zarr_format;
  info.shape = metadata.shape;
  info.chunk_shape = unit_shape();
  if (sharding) info.shard_shape = metadata.chunk_shape;
  info.dtype = metadata.dtype;
  info.dimension_names = metadata.dimension_names;
  list_codecs(unit, metadata.zarr_format, info.codecs, &info.codec_on_gpu);
  if (sharding) {
    for (const zarr::CodecSpec& codec : metadata.codecs) info.outer_codecs.push_back(codec.name);
    for (std::size_t i = 1; i < sharding->grids.size(); ++i) info.outer_codecs.push_back("sharding_indexed");
  }
  if (metadata.rectilinear != nullptr) info.chunk_grid = "rectilinear";
  info.fill_text = metadata.fill_text;
  info.fill = fill;
  info.attributes_json = metadata.attributes.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  metadata.attributes = base::Json::object();  // many times as large
  info.decoded_bytes = metadata.dtype.item_bytes;
  info.chunk_count = 1;
  grid.resize(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    info.decoded_bytes = saturating_mul(info.decoded_bytes, info.shape[i]);
    const auto chunks = [&](const std::vector<std::uint64_t>& of) {
      return of[i] == 0 ? 0 : base::ceil_div(info.shape[i], of[i]);
    };
    if (metadata.rectilinear != nullptr) {
      grid[i] = metadata.rectilinear->chunk_count(i);
      info.chunk_count = saturating_mul(info.chunk_count, grid[i]);
      continue;
    }
    info.chunk_count = saturating_mul(info.chunk_count, chunks(info.chunk_shape));
    grid[i] = chunks(metadata.chunk_shape);
  }
  return {};
}

Array::Impl::Impl(Store owner, std::string node_path)
    : store(std::move(owner)),
      path(std::move(node_path)),
      shards(Access::impl(store.context())->resources->stored_memory()) {}

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
        node.memory.take(base::most_parse_bytes(document.size()), "parsing a metadata document").with_key(node.key));
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

namespace {

class StoredBlocks final : public zarr::BlockBegin {
 public:
  explicit StoredBlocks(const Array::Impl& array) : array_(array) {}
  std::uint64_t count(std::size_t axis) const override { return array_.grid[axis]; }
  std::uint64_t begin(std::size_t axis, std::uint64_t block) const override {
    if (array_.metadata.rectilinear != nullptr) return array_.metadata.rectilinear->chunk_begin(axis, block);
    return block * array_.metadata.chunk_shape[axis];
  }

 private:
  const Array::Impl& array_;
};

}  // namespace

Result<ResolvedSelection> Array::Impl::resolve_selection(const Selection& selection) const {
  const std::vector<std::uint64_t>& shape = metadata.shape;
  if (!zarr::has_blocks(selection)) return headrace::resolve_selection(selection, shape);
  HEADRACE_TRY_ASSIGN(const Selection slices, zarr::blocks_to_slices(selection, shape, StoredBlocks(*this)));
  return headrace::resolve_selection(slices, shape);
}

Result<ResolvedSelection> Array::resolve(const Selection& selection) const {
  try {
    return impl_->resolve_selection(selection);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

namespace {

std::string name_of(const DataType& dtype) { return dtype.name.empty() ? "of no type" : dtype.name; }

// Checks the tensor against the selection and gives it strides if it has none.
Status check_tensor(const ResolvedSelection& selection, const DataType& dtype, TensorView& tensor) {
  if (tensor.shape != selection.shape) {
    return Status(
        Code::kInvalidArgument, Layer::kApi,
        "the tensor has shape " + shape_text(tensor.shape) + ", the selection has " + shape_text(selection.shape));
  }
  std::uint64_t bytes = dtype.item_bytes;
  for (const std::uint64_t extent : selection.shape) bytes = saturating_mul(bytes, extent);
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Status(Code::kInvalidArgument, Layer::kApi, "the selection has more bytes than any tensor can hold");
  }
  if (!same_elements(tensor.dtype, dtype)) {
    return Status(Code::kInvalidArgument, Layer::kApi,
                  "the tensor's elements are " + name_of(tensor.dtype) + ", the read's are " + name_of(dtype) +
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
                "the tensor's memory has " + std::to_string(tensor.memory.size()) + " bytes, and " +
                    std::to_string(bytes) + " bytes of elements, laid out by its shape and strides from byte " +
                    std::to_string(tensor.first_byte) + " on, reach beyond it");
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

// In a forked child the threads that read are missing, and the locks may be held by one of them: nothing will come.
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

// What happens to every element on the way.
Result<zarr::ReadConversion> conversion_of(const Array::Impl& array, const ReadOptions& options) {
  HEADRACE_TRY(Access::impl(array.store.context())->resources->check_usable());
  if (array.metadata.dtype.is_variable_length()) {
    return Status(Code::kUnsupported, Layer::kZarr,
                  "elements of type '" + array.metadata.dtype.name +
                      "' have variable length, which no tensor and no device memory holds: read them to the host with "
                      "Array::read_variable (C: hr_array_read_variable)");
  }
  return zarr::make_conversion(array.metadata.dtype, array.element_op, array.fill, !array.metadata.fill.empty(),
                               options);
}

using Prepared = Result<std::shared_ptr<transfer::Scheduler>>;

Prepared prepare(const std::shared_ptr<const Array::Impl>& array, Result<std::unique_ptr<transfer::Plan>> plan,
                 const transfer::ReadBegun& begun, const Device& device, const ReadOptions& options) {
  if (!plan.ok()) return std::move(plan).status();
  return transfer::Read::create(*Access::impl(array->store.context())->resources, std::move(*plan),
                                Access::impl(device), options, begun);
}

Prepared prepare_read(const std::shared_ptr<const Array::Impl>& array, const Selection& selection,
                      const TensorView& tensor, const Device& device, const ReadOptions& options) {
  transfer::ReadBegun begun{base::now_ns()};
  HEADRACE_TRY_ASSIGN(zarr::ReadConversion conversion, conversion_of(*array, options));
  HEADRACE_TRY_ASSIGN(const ResolvedSelection resolved, array->resolve_selection(selection));
  TensorView target = tensor;
  HEADRACE_TRY(check_tensor(resolved, conversion.dtype, target));
  trace::Timer timer(trace::Stage::kPlan);
  auto plan = zarr::make_plan(array, resolved, target, std::move(conversion));
  begun.plan_seconds = timer.stop();
  return prepare(array, std::move(plan), begun, device, options);
}

Prepared prepare_many(const std::shared_ptr<const Array::Impl>& array, std::span<const ReadPart> parts,
                      const Device& device, const ReadOptions& options) {
  if (parts.empty()) return Status(Code::kInvalidArgument, Layer::kApi, "no selections to read");
  if (parts.size() == 1) return prepare_read(array, parts[0].selection, parts[0].tensor, device, options);
  transfer::ReadBegun begun{base::now_ns()};
  HEADRACE_TRY_ASSIGN(zarr::ReadConversion conversion, conversion_of(*array, options));
  trace::Timer timer(trace::Stage::kPlan);
  auto plan = [&]() -> Result<std::unique_ptr<transfer::Plan>> {
    std::vector<zarr::PlanPart> planned;
    planned.reserve(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto named = [i](Status status) {
        return std::move(status).with_cause("selection " + std::to_string(i) + " of those read together");
      };
      auto resolved = array->resolve_selection(parts[i].selection);
      if (!resolved.ok()) return named(std::move(resolved).status());
      planned.push_back({std::move(*resolved), parts[i].tensor});
      Status status = check_tensor(planned.back().selection, conversion.dtype, planned.back().tensor);
      if (!status.ok()) return named(std::move(status));
    }
    return zarr::make_plan(array, planned, std::move(conversion));
  }();
  begun.plan_seconds = timer.stop();
  return prepare(array, std::move(plan), begun, device, options);
}

Result<Completion> start_reading(const std::shared_ptr<const Array::Impl>& array, Prepared prepared) {
  if (!prepared.ok()) return std::move(prepared).status();
  // Made first: once the read has started there must be a handle that can wait for it.
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

Status Array::read_many(std::span<const ReadPart> parts, const Device& device, const ReadOptions& options,
                        Stats* stats) const {
  try {
    return run(prepare_many(impl_, parts, device, options), stats);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace

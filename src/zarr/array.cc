#include <headrace/array.h>

#include <algorithm>
#include <limits>
#include <new>

#include "base/checked.h"
#include "base/trace.h"
#include "codec/variable_codec.h"
#include "transfer/context_impl.h"
#include "transfer/operation.h"
#include "zarr/array_impl.h"
#include "zarr/node_io.h"
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
  for (const auto& codec : chain.codecs()) {
    names.emplace_back(codec->name());
    if (on_gpu != nullptr) on_gpu->push_back(codec->has_device_code());
  }
}

}  // namespace

Status Array::Impl::resolve() {
  const std::size_t rank = metadata.shape.size();
  const DataType decoded = metadata.dtype.is_variable_length() ? codec::slot_type(metadata.dtype) : metadata.dtype;
  zarr::ChunkCodecs about;
  about.zarr_format = metadata.zarr_format;
  about.dtype = &decoded;
  fill = metadata.fill;
  if (fill.empty()) fill.resize(metadata.dtype.item_bytes);
  about.fill = &fill;
  if (metadata.zarr_format == 2) {
    about.initial.byte_swapped = metadata.v2_big_endian;
    for (std::size_t i = 0; i < rank; ++i) {
      about.initial.axis_order.push_back(static_cast<std::uint8_t>(metadata.v2_order == 'F' ? rank - 1 - i : i));
    }
  }
  const bool plain_shards =
      metadata.zarr_format == 3 && metadata.codecs.size() == 1 && metadata.codecs[0].name == "sharding_indexed";
  if (plain_shards) {
    HEADRACE_TRY_ASSIGN(sharding, zarr::build_sharding(metadata.codecs[0].config, metadata.chunk_shape, about, 0));
  } else {
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
  if (sharding) info.outer_codecs = {"sharding_indexed"};
  info.fill_text = metadata.fill_text;
  info.fill = fill;
  info.attributes_json = metadata.attributes.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  info.decoded_bytes = metadata.dtype.item_bytes;
  info.chunk_count = 1;
  grid.resize(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    info.decoded_bytes = saturating_mul(info.decoded_bytes, info.shape[i]);
    const auto chunks = [&](const std::vector<std::uint64_t>& of) {
      return of[i] == 0 ? 0 : base::ceil_div(info.shape[i], of[i]);
    };
    info.chunk_count = saturating_mul(info.chunk_count, chunks(info.chunk_shape));
    grid[i] = chunks(metadata.chunk_shape);
  }
  return {};
}

Result<Array> Array::open(const Store& store, std::string_view path) {
  try {
    HEADRACE_TRY(store.context().impl()->resources->check_usable());
    auto impl = std::make_shared<Impl>(store, std::string(path));
    HEADRACE_TRY_ASSIGN(zarr::LoadedNode node, zarr::load_node(*store.impl(), path));
    if (!node.array) {
      return Status(Code::kInvalidArgument, Layer::kZarr, "this is a group, not an array; name an array inside it")
          .with_key(path.empty() ? "/" : path);
    }
    impl->metadata = std::move(*node.array);
    if (Status status = impl->resolve(); !status.ok()) return std::move(status).with_key(node.key);
    return Array(std::shared_ptr<const Impl>(std::move(impl)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

const ArrayInfo& Array::info() const noexcept { return impl_->info; }

namespace {

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
  if (tensor.data == nullptr && bytes > 0) {
    return Status(Code::kInvalidArgument, Layer::kApi, "the tensor's data pointer is null");
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
  return {};
}

}  // namespace

class Completion::State {
 public:
  State(std::shared_ptr<const Array::Impl> array, std::shared_ptr<transfer::ReadOperation> shared)
      : owner(std::move(array)), operation(std::move(shared)) {}
  const std::shared_ptr<const Array::Impl> owner;  // keeps the Context; outlives `operation`
  const std::shared_ptr<transfer::ReadOperation> operation;
};

Status Completion::wait() const { return state_->operation->wait(); }
bool Completion::done() const { return state_->operation->done(); }
void Completion::cancel() const { state_->operation->cancel(); }
const Stats& Completion::stats() const { return state_->operation->stats(); }
const std::vector<ChunkError>& Completion::errors() const { return state_->operation->errors(); }

namespace {

Result<std::shared_ptr<transfer::ReadOperation>> make_operation(const std::shared_ptr<const Array::Impl>& array,
                                                                const Selection& selection, const TensorView& tensor,
                                                                const Device& device, const ReadOptions& options) {
  const auto& resources = array->store.context().impl()->resources;
  HEADRACE_TRY(resources->check_usable());
  HEADRACE_TRY_ASSIGN(const ResolvedSelection resolved, resolve_selection(selection, array->metadata.shape));
  if (array->metadata.dtype.is_variable_length()) {
    return Status(Code::kUnsupported, Layer::kZarr,
                  "elements of type '" + array->metadata.dtype.name +
                      "' have variable length, which no tensor and no device memory holds: read them to the host with "
                      "Array::read_variable (C: hr_array_read_variable)");
  }
  TensorView target = tensor;
  HEADRACE_TRY_ASSIGN(zarr::ReadConversion conversion,
                      zarr::make_conversion(array->metadata.dtype, array->element_op, array->fill,
                                            !array->metadata.fill.empty(), options));
  HEADRACE_TRY(check_tensor(resolved, conversion.dtype, target));
  auto plan = [&] {
    trace::Span span(trace::Stage::kPlan);
    return zarr::make_plan(array, resolved, target, std::move(conversion));
  }();
  if (!plan.ok()) return std::move(plan).status();
  return transfer::ReadOperation::create(*resources, std::move(*plan), device.impl(), options);
}

}  // namespace

Result<Completion> Array::read_async(const Selection& selection, const TensorView& tensor, const Device& device,
                                     const ReadOptions& options) const {
  try {
    HEADRACE_TRY_ASSIGN(auto operation, make_operation(impl_, selection, tensor, device, options));
    // Made first: once the read has started there must be a handle that can wait for it.
    auto state = std::make_shared<Completion::State>(impl_, std::move(operation));
    state->operation->start();
    return Completion(std::move(state));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status Array::read(const Selection& selection, const TensorView& tensor, const Device& device,
                   const ReadOptions& options, Stats* stats) const {
  try {
    HEADRACE_TRY_ASSIGN(auto operation, make_operation(impl_, selection, tensor, device, options));
    Status status = operation->run();
    if (stats != nullptr) *stats = operation->stats();
    return status;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace

#include "zarr/array/array_impl.h"

#include "base/access.h"
#include "base/checked.h"
#include "codec/variable_codec.h"
#include "transfer/context/context_impl.h"
#include "zarr/select/block_selection.h"

namespace headrace {
namespace {

void list_codecs(const codec::Chain& chain, int zarr_format, std::vector<std::string>& names,
                 std::vector<bool>* on_gpu) {
  (void)zarr_format;
  for (const codec::Codec& codec : chain.codecs()) {
    names.emplace_back(codec.name());
    if (on_gpu != nullptr) on_gpu->push_back(codec.has_device_code());
  }
}

// `decoded` is the type of a chain's decoded elements. It must outlive the result.
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
  // Shards of a rectilinear grid are read whole, since each would have an index of its own length.
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
  metadata.attributes = base::Json::object();  // many times as large as its text
  info.decoded_bytes = metadata.dtype.item_bytes;
  info.chunk_count = 1;
  grid.resize(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    info.decoded_bytes = base::saturating_mul(info.decoded_bytes, info.shape[i]);
    const auto chunks = [&](const std::vector<std::uint64_t>& of) {
      return of[i] == 0 ? 0 : base::ceil_div(info.shape[i], of[i]);
    };
    if (metadata.rectilinear != nullptr) {
      grid[i] = metadata.rectilinear->chunk_count(i);
      info.chunk_count = base::saturating_mul(info.chunk_count, grid[i]);
      continue;
    }
    info.chunk_count = base::saturating_mul(info.chunk_count, chunks(info.chunk_shape));
    grid[i] = chunks(metadata.chunk_shape);
  }
  return {};
}

Array::Impl::Impl(Store owner, std::string node_path)
    : store(std::move(owner)),
      path(std::move(node_path)),
      shards(Access::impl(store.context())->resources->stored_memory()) {}

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
  ResolvedSelection out;
  HEADRACE_TRY(resolve_selection(selection, out));
  return out;
}

Status Array::Impl::resolve_selection(const Selection& selection, ResolvedSelection& out) const {
  const std::vector<std::uint64_t>& shape = metadata.shape;
  if (!zarr::has_blocks(selection)) return zarr::resolve_selection_into(selection, shape, out);
  HEADRACE_TRY_ASSIGN(const Selection slices, zarr::blocks_to_slices(selection, shape, StoredBlocks(*this)));
  return zarr::resolve_selection_into(slices, shape, out);
}

}  // namespace headrace

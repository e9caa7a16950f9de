#include "zarr/shard/chain_builder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "codec/representation.h"
#include "codec/variable_codec.h"
#include "device/box.h"

namespace headrace::zarr {
namespace {

// sharding_indexed as an ordinary array -> bytes codec that decodes a whole shard at once. Used if a shard cannot be
// read in parts: there are codecs after the sharding, or codecs before it that do more than move axes. Other shards
// are a ShardTree.
class WholeShardCodec final : public codec::ArrayToBytes, public codec::StreamCoder {
 public:
  WholeShardCodec(std::unique_ptr<Sharding> sharding, std::vector<std::uint64_t> shard_shape, const DataType& dtype,
                  std::vector<std::byte> fill, std::shared_ptr<base::MemoryBudget> memory)
      : memory_(std::move(memory)),
        sharding_(std::move(sharding)),
        shard_shape_(std::move(shard_shape)),
        op_{dtype.item_bytes, sharding_->inner.layout().byte_swapped ? std::max(dtype.uniform_swap_width(), 1u) : 1u},
        fill_(std::move(fill)) {
    if (!variable_length()) return;
    fill_text_ = std::move(fill_);
    fill_.resize(codec::kVariableSlotBytes);
    const codec::VariableSlot slot{fill_text_.data(), fill_text_.size()};
    std::memcpy(fill_.data(), &slot, sizeof(slot));
  }

  std::string_view name() const noexcept override { return "sharding_indexed"; }
  const codec::StreamCoder* coder() const noexcept override { return this; }
  bool variable_length() const noexcept override { return sharding_->inner.variable_length(); }
  // There may be gaps between inner chunks, and an encoded chunk may be longer than its elements.
  codec::EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    const std::uint64_t inner = sharding_->index.entry_count();
    const auto payload = base::checked_mul(inner, sharding_->inner.max_encoded_bytes());
    const std::uint64_t most = std::max(payload.value_or(decoded_bytes), decoded_bytes);
    // Bytes that no entry names are legal ("sharding-indexed" 1.0, binary format). Since memory is reserved for them,
    // at most as many bytes again are accepted.
    return {base::checked_mul(std::uint64_t{2}, most).value_or(most) + sharding_->index.encoded_bytes()};
  }
  Status enter(codec::Representation& elements) const override {
    if (elements.layout().byte_swapped) return Status(Code::kInternal, Layer::kZarr, "byte order before sharding");
    return {};
  }

  struct ShardScratch final : codec::Scratch {
    codec::Chain::Workspace workspace;
    std::vector<std::byte> decoded, temporary[2];
    std::vector<ShardEntry> entries;
    // Elements of variable length: one buffer for each inner chunk, since all are needed until the end.
    std::vector<codec::GrowingBuffer> text;
    codec::GrowthBudget* budget = nullptr;
    base::Charge memory;  // of the index

    void set_budget(codec::GrowthBudget* new_budget) override {
      text.clear();
      budget = new_budget;
      workspace.set_budget(new_budget);
    }
  };
  std::unique_ptr<codec::Scratch> make_scratch() const override {
    auto scratch = std::make_unique<ShardScratch>();
    scratch->workspace = sharding_->inner.make_workspace();
    scratch->memory = base::Charge(memory_);
    return scratch;
  }

  Status decode(codec::EncodedStream& stream, codec::Scratch* own_scratch) const override {
    auto& scratch = static_cast<ShardScratch&>(*own_scratch);
    const codec::Chain& inner = sharding_->inner;
    scratch.text.clear();
    scratch.decoded.resize(static_cast<std::size_t>(inner.decoded_bytes()));
    for (int i = 0; i < 2 && inner.temporary_bytes() > 0; ++i) {
      scratch.temporary[i].resize(static_cast<std::size_t>(inner.temporary_bytes()));
      scratch.workspace.temporary[i] = scratch.temporary[i];
    }
    HEADRACE_TRY_ASSIGN(const std::uint64_t at, sharding_->index.position(stream.src_bytes));
    const ShardIndexFormat& index = sharding_->index;
    HEADRACE_TRY(scratch.memory.grow_to(index.entry_count() * sizeof(ShardEntry) + index.parse_bytes(),
                                        "the index of a shard that is decoded whole"));
    HEADRACE_TRY(sharding_->index.parse({stream.src + at, static_cast<std::size_t>(sharding_->index.encoded_bytes())},
                                        stream.src_bytes, scratch.entries));
    const std::size_t rank = shard_shape_.size();
    std::array<std::uint64_t, kMaxRank> position{};
    for (const ShardEntry& entry : scratch.entries) {
      device::Box box;
      box.rank = static_cast<int>(rank);
      std::int64_t stride = op_.element_bytes;
      std::int64_t start = 0;
      for (std::size_t axis = rank; axis-- > 0;) {
        box.dim[axis] = {sharding_->inner_shape[axis], inner.strides_bytes()[axis], stride};
        start += static_cast<std::int64_t>(position[axis] * sharding_->inner_shape[axis]) * stride;
        stride *= static_cast<std::int64_t>(shard_shape_[axis]);
      }
      if (!device::fits(box, &device::BoxDim::dst_stride_bytes, start, op_.element_bytes, stream.dst_capacity)) {
        return Status(Code::kInternal, Layer::kZarr, "an inner chunk reaches beyond its shard");
      }
      box.dst = stream.dst + start;
      if (entry.length != 0) {
        HEADRACE_TRY(inner
                         .decode({stream.src + entry.offset, static_cast<std::size_t>(entry.length)}, scratch.decoded,
                                 scratch.workspace)
                         .with_range(entry.offset, entry.length));
        if (variable_length()) HEADRACE_TRY(keep_text(scratch));
        box.src = scratch.decoded.data();
      }
      device::simplify(box);
      device::copy_box(box, op_, fill_.data());
      for (std::size_t axis = rank; axis-- > 0;) {
        if (++position[axis] < sharding_->inner_grid[axis]) break;
        position[axis] = 0;
      }
    }
    stream.dst_bytes = stream.dst_capacity;
    return {};
  }

 private:
  // Copies the elements that the slots in scratch.decoded point to, and makes the slots point to the copies.
  static Status keep_text(ShardScratch& scratch) {
    std::uint64_t bytes = 0;
    const std::size_t count = scratch.decoded.size() / codec::kVariableSlotBytes;
    const auto slot_at = [&](std::size_t i) { return scratch.decoded.data() + i * codec::kVariableSlotBytes; };
    codec::VariableSlot slot;
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&slot, slot_at(i), sizeof(slot));
      bytes += slot.bytes == codec::VariableSlot::kNotText ? 0 : slot.bytes;
    }
    if (bytes == 0) return {};
    codec::GrowingBuffer& text = scratch.text.emplace_back(scratch.budget);
    HEADRACE_TRY(text.at_least(bytes));
    std::byte* at = text.data();
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&slot, slot_at(i), sizeof(slot));
      if (slot.bytes == 0 || slot.bytes == codec::VariableSlot::kNotText) continue;
      std::memcpy(at, slot.data, static_cast<std::size_t>(slot.bytes));
      slot.data = at;
      at += slot.bytes;
      std::memcpy(slot_at(i), &slot, sizeof(slot));
    }
    return {};
  }

  std::shared_ptr<base::MemoryBudget> memory_;
  std::unique_ptr<Sharding> sharding_;
  std::vector<std::uint64_t> shard_shape_;
  device::ElementOp op_;
  std::vector<std::byte> fill_;
  std::vector<std::byte> fill_text_;  // elements of variable length: what the slot in fill_ points to
};

std::vector<std::byte> fill_or_zeros(const ChunkCodecs& about) {
  if (about.fill != nullptr && (!about.fill->empty() || about.dtype->is_variable_length())) return *about.fill;
  return std::vector<std::byte>(about.dtype->item_bytes);
}

// Checks which codecs elements of variable length can enter. Shardings are handled before this.
Status check_variable(const codec::Codec& codec, const DataType& dtype) {
  const std::string name(codec.name());
  if (codec.array_to_bytes() != nullptr && !codec.array_to_bytes()->variable_length()) {
    return Status(Code::kCorrupt, Layer::kZarr,
                  "codec '" + name + "' encodes fixed-size elements, but type '" + dtype.name +
                      "' has variable length; use '" + (dtype.kind == TypeKind::kString ? "vlen-utf8" : "vlen-bytes") +
                      "'");
  }
  if (codec.array_to_array() != nullptr && codec.coder() != nullptr) {
    return Status(Code::kCorrupt, Layer::kZarr,
                  "codec '" + name + "' changes numbers, but elements of type '" + dtype.name + "' are not numbers");
  }
  return {};
}

}  // namespace

namespace {

// The contents of a sharding_indexed codec without the chain of its chunks.
struct ShardParts {
  std::vector<std::uint64_t> inner_shape, inner_grid;  // by the axes of what enters the codec
  std::vector<CodecSpec> inner_codecs;
  ShardIndexFormat index;
};

Result<ShardParts> build_parts(const base::Json& config, const std::vector<std::uint64_t>& shard_shape, int depth) {
  if (depth >= kMaxShardingDepth) {
    return Status(Code::kUnsupported, Layer::kZarr,
                  "sharding nested deeper than " + std::to_string(kMaxShardingDepth) + " levels");
  }
  HEADRACE_TRY_ASSIGN(ShardingConfig parsed, parse_sharding(config, shard_shape));
  std::vector<std::uint64_t> grid(shard_shape.size());
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    grid[i] = parsed.inner_shape[i] == 0 ? 0 : shard_shape[i] / parsed.inner_shape[i];
    const auto product = base::checked_mul(count, grid[i]);
    if (!product || *product > (std::uint64_t{1} << 32)) {
      return Status(Code::kUnsupported, Layer::kZarr, "a shard with more than 2^32 inner chunks");
    }
    count = *product;
  }
  static const DataType kIndexType = numeric_type("uint64");
  std::vector<std::uint64_t> index_shape = grid;
  index_shape.push_back(2);
  ChunkCodecs index_about;
  index_about.dtype = &kIndexType;
  HEADRACE_TRY_ASSIGN(codec::Chain index_chain, build_chain(parsed.index_codecs, index_shape, index_about, depth + 1));
  if (!index_chain.encoded_exact()) {
    return Status(Code::kCorrupt, Layer::kZarr, "index_codecs must keep a fixed size; compressors are not allowed");
  }
  for (std::size_t i = 0; i < index_shape.size(); ++i) {
    if (index_chain.layout().axis_order[i] != i) {
      return Status(Code::kUnsupported, Layer::kZarr, "a transposed shard index");
    }
  }
  return ShardParts{std::move(parsed.inner_shape), std::move(grid), std::move(parsed.codecs),
                    ShardIndexFormat(std::move(index_chain), count, parsed.index_at_end)};
}

// Whether each inner chunk can be found and decoded separately.
bool can_read_parts(const std::vector<CodecSpec>& specs) {
  return !specs.empty() && specs.back().name == "sharding_indexed" &&
         std::all_of(specs.begin(), specs.end() - 1, [](const CodecSpec& spec) { return spec.name == "transpose"; });
}

}  // namespace

Result<std::unique_ptr<Sharding>> build_sharding(const base::Json& config,
                                                 const std::vector<std::uint64_t>& shard_shape,
                                                 const ChunkCodecs& about, int depth) {
  HEADRACE_TRY_ASSIGN(ShardParts parts, build_parts(config, shard_shape, depth));
  HEADRACE_TRY_ASSIGN(codec::Chain inner, build_chain(parts.inner_codecs, parts.inner_shape, about, depth + 1));
  return std::unique_ptr<Sharding>(new Sharding{std::move(parts.inner_shape), std::move(parts.inner_grid),
                                                std::move(inner), std::move(parts.index)});
}

Result<std::unique_ptr<ShardTree>> build_shard_tree(const std::vector<CodecSpec>& specs,
                                                    const std::vector<std::uint64_t>& chunk_shape,
                                                    const ChunkCodecs& about) {
  if (about.zarr_format != 3 || !can_read_parts(specs)) return std::unique_ptr<ShardTree>();
  const std::size_t rank = chunk_shape.size();
  std::vector<CodecSpec> chain = specs;
  std::vector<std::uint64_t> shape = chunk_shape;  // by the axes of what enters `chain`
  std::vector<std::uint8_t> axes;                  // the array's axes that those are
  for (std::size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<std::uint8_t>(axis));
  std::vector<LevelGrid> grids;
  std::vector<ShardIndexFormat> indexes;
  std::uint64_t units = 1;
  while (can_read_parts(chain)) {
    codec::CodecArgs context;
    context.dtype = about.dtype;
    codec::Representation elements(*about.dtype, std::move(shape), {std::move(axes), false});
    for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
      HEADRACE_TRY_ASSIGN(const codec::Codec transpose, codec::make_codec(chain[i].name, chain[i].config, context));
      HEADRACE_TRY(elements.enter(transpose));
    }
    axes = elements.layout().axis_order;
    HEADRACE_TRY_ASSIGN(ShardParts parts,
                        build_parts(chain.back().config, elements.shape(), static_cast<int>(grids.size())));
    LevelGrid grid{std::vector<std::uint64_t>(rank), std::vector<std::uint64_t>(rank), axes};
    for (std::size_t i = 0; i < rank; ++i) {
      grid.shape[axes[i]] = parts.inner_shape[i];
      grid.grid[axes[i]] = parts.inner_grid[i];
    }
    const auto product = base::checked_mul(units, parts.index.entry_count());
    if (!product || *product > kMaxUnitsPerShard) {
      return Status(Code::kUnsupported, Layer::kZarr, "a shard with more than 2^56 chunks at its lowest level");
    }
    units = *product;
    grids.push_back(std::move(grid));
    indexes.push_back(std::move(parts.index));
    shape = std::move(parts.inner_shape);
    chain = std::move(parts.inner_codecs);
  }
  HEADRACE_TRY_ASSIGN(codec::Chain inner, build_chain(chain, shape, about, static_cast<int>(grids.size())));
  std::vector<std::int64_t> strides(rank);
  for (std::size_t i = 0; i < rank; ++i) strides[axes[i]] = inner.strides_bytes()[i];
  return std::unique_ptr<ShardTree>(
      new ShardTree{std::move(grids), std::move(indexes), std::move(inner), std::move(strides)});
}

Result<codec::Chain> build_chain(const std::vector<CodecSpec>& specs, const std::vector<std::uint64_t>& chunk_shape,
                                 const ChunkCodecs& about, int depth) {
  if (specs.size() > kMaxCodecs) {
    return Status(
        Code::kUnsupported, Layer::kZarr,
        "chains of more than " + std::to_string(kMaxCodecs) + " codecs: this one has " + std::to_string(specs.size()));
  }
  std::vector<codec::Codec> codecs;
  // Array codecs change shape and type; an inner shard must divide the shape that it really encodes.
  codec::Representation representation(*about.dtype, chunk_shape, about.initial);
  codec::CodecArgs context;
  context.zarr_format = about.zarr_format;
  for (const CodecSpec& spec : specs) {
    if (about.zarr_format == 3 && spec.name == "sharding_indexed") {
      if (representation.values_changed()) {
        return Status(Code::kUnsupported, Layer::kZarr, "codecs that change values before 'sharding_indexed'");
      }
      HEADRACE_TRY_ASSIGN(auto sharding, build_sharding(spec.config, representation.shape(), about, depth));
      codecs.emplace_back(std::make_unique<WholeShardCodec>(std::move(sharding), representation.shape(), *about.dtype,
                                                            fill_or_zeros(about), about.memory));
      continue;
    }
    context.dtype = &representation.dtype();
    context.shape = &representation.shape();
    HEADRACE_TRY_ASSIGN(codec::Codec codec, codec::make_codec(spec.name, spec.config, context));
    if (context.dtype->is_variable_length()) HEADRACE_TRY(check_variable(codec, *context.dtype));
    HEADRACE_TRY(representation.enter(codec));
    codecs.push_back(std::move(codec));
  }
  return codec::Chain::make(std::move(codecs), *about.dtype, chunk_shape, about.initial, about.zarr_format == 3);
}

}  // namespace headrace::zarr

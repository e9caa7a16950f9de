#include "codec/chain.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/clock.h"
#include "codec/reorder.h"
#include "codec/representation.h"
#include "codec/variable_codec.h"

namespace headrace::codec {
namespace {

Status bad_chain(std::string message) { return Status(Code::kCorrupt, Layer::kCodec, std::move(message)); }

std::string list_names(std::span<const Codec> codecs) {
  std::string out;
  for (const Codec& codec : codecs) out += (out.empty() ? "" : ", ") + std::string(codec.name());
  return out;
}

// array -> array codecs, then one array -> bytes codec (v3), then bytes -> bytes codecs. [v3/core "Codecs"]
Status check_order(std::span<const Codec> codecs, bool needs_array_to_bytes) {
  int array_to_bytes = 0;
  Kind last = Kind::kArrayToArray;
  for (const Codec& codec : codecs) {
    if (codec.kind() < last) {
      return bad_chain("codec '" + std::string(codec.name()) + "' comes too late in the chain [" + list_names(codecs) +
                       "]");
    }
    last = codec.kind();
    array_to_bytes += last == Kind::kArrayToBytes;
  }
  if (needs_array_to_bytes ? array_to_bytes != 1 : array_to_bytes > 1) {
    return bad_chain("a codec chain needs exactly one array->bytes codec" +
                     std::string(needs_array_to_bytes ? "" : " or none") + ", [" + list_names(codecs) + "] has " +
                     std::to_string(array_to_bytes));
  }
  return {};
}

}  // namespace

Result<Chain> Chain::make(std::vector<Codec> codecs, const DataType& dtype,
                          const std::vector<std::uint64_t>& chunk_shape, Layout initial, bool needs_array_to_bytes) {
  HEADRACE_TRY(check_order(codecs, needs_array_to_bytes));
  Chain chain;
  chain.codecs_ = std::move(codecs);
  chain.item_bytes_ = dtype.item_bytes;
  std::uint64_t bytes = dtype.item_bytes;
  for (const std::uint64_t extent : chunk_shape) {
    const auto product = base::checked_mul(bytes, extent);
    if (!product || *product > (std::uint64_t{1} << 62)) return bad_chain("one chunk is larger than 2^62 bytes");
    bytes = *product;
  }
  chain.decoded_bytes_ = bytes;

  Representation representation(dtype, chunk_shape, std::move(initial));
  const ArrayToArray* last_value_codec = nullptr;
  const StreamCoder* makes_slots = nullptr;  // for variable-length elements
  for (const Codec& codec : chain.codecs_) {
    HEADRACE_TRY(representation.enter(codec));
    const ArrayToArray* array = codec.array_to_array();
    if (array != nullptr && array->coder() != nullptr) last_value_codec = array;
    const ArrayToBytes* to_bytes = codec.array_to_bytes();
    if (to_bytes != nullptr && to_bytes->variable_length()) makes_slots = to_bytes->coder();
  }
  chain.layout_ = representation.layout();
  if (last_value_codec != nullptr && chain.layout_.byte_swapped) {
    // The big-endian bytes are that codec's input; its output is native.
    chain.big_endian_coder_ = last_value_codec->make_big_endian_coder();
    chain.layout_.byte_swapped = false;
  }
  chain.strides_bytes_.resize(chunk_shape.size());
  std::int64_t stride = dtype.item_bytes;
  for (std::size_t i = chunk_shape.size(); i-- > 0;) {
    const std::size_t axis = chain.layout_.axis_order[i];
    chain.strides_bytes_[axis] = stride;
    stride *= static_cast<std::int64_t>(std::max<std::uint64_t>(chunk_shape[axis], 1));
  }
  // If the numbers of an element differ in width or byte order, they are swapped field by field right after decoding.
  if (!dtype.stored_swap_runs.empty()) {
    chain.mixed_swaps_ = dtype.stored_swap_runs;
  } else if (chain.layout_.byte_swapped && dtype.uniform_swap_width() == 0) {
    chain.mixed_swaps_ = dtype.swap_runs;
  }

  // Coders, with the reorder steps between them.
  std::vector<const StreamCoder*> coders;
  std::vector<Reorder> reorders = representation.reorders();
  auto reorder = reorders.begin();
  for (std::size_t i = 0; i < chain.codecs_.size(); ++i) {
    const Codec& codec = chain.codecs_[i];
    const bool is_swapped = chain.big_endian_coder_ != nullptr && codec.array_to_array() == last_value_codec;
    coders.push_back(is_swapped ? chain.big_endian_coder_.get() : codec.coder());
    if (reorder == reorders.end() || reorder->codec_count != i + 1) continue;
    chain.reorders_.push_back(make_reorder(std::move(*reorder++)));
    coders.push_back(chain.reorders_.back().get());
  }
  chain.add_stages(coders, makes_slots);
  return chain;
}

void Chain::add_stages(const std::vector<const StreamCoder*>& coders, const StreamCoder* makes_slots) {
  // From the elements outwards: the output of each stage is the input of the next inner one.
  std::uint64_t capacity = decoded_bytes_;
  bool exact = true;
  for (const StreamCoder* coder : coders) {
    if (coder == nullptr) continue;
    stages_.push_back({coder, capacity, exact, variable_length_});
    if (variable_length_) continue;
    variable_length_ = coder == makes_slots;
    const EncodedSize encoded = variable_length_ ? EncodedSize{kMaxVariableBytes} : coder->encoded_size(capacity);
    capacity = encoded.most;
    exact = exact && encoded.exact;
  }
  std::reverse(stages_.begin(), stages_.end());
  max_encoded_bytes_ = capacity;
  encoded_exact_ = exact;
  for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
    if (stages_[i].grows) continue;
    temporary_bytes_ = std::max(temporary_bytes_, stages_[i].capacity);
  }
  device_begin_ = stages_.size();
  if (stages_.size() == 1 && !variable_length_ && !swaps_fields()) {
    part_table_bytes_ = std::min(coder(0).part_table_bytes(), kMaxPartTableBytes);
  }
  prefix_stage_ = find_prefix_stage();
  for (const std::size_t earliest = earliest_device_stage(); device_begin_ > earliest; --device_begin_) {
    device::DecodeStage stage;
    if (!describe_stage(device_begin_ - 1, stage)) break;
  }
}

// Starting at the stage that ends early (or at the stored bytes), every stage needs the same share of its input. Stages
// outside of that decode everything.
std::size_t Chain::find_prefix_stage() const noexcept {
  if (variable_length_) return stages_.size();
  EncodedSize element{item_bytes_, true};
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const Prefix prefix = coder(i).prefix(stages_[i].capacity);
    if (prefix == Prefix::kEndsEarly) return i;
    element = coder(i).encoded_size(element.most);
    // One element of the array may be only a part of one of the filter's elements.
    if (prefix != Prefix::kSameShare || !element.exact) return stages_.size();
  }
  return 0;
}

std::uint64_t Chain::bytes_for_prefix(std::size_t index, std::uint64_t prefix_bytes) const {
  std::uint64_t bytes = prefix_bytes;
  for (std::size_t i = stages_.size(); --i > index;) bytes = coder(i).encoded_size(bytes).most;
  return bytes;
}

bool Chain::describe_stage(std::size_t index, device::DecodeStage& stage) const {
  stage.capacity_bytes = stages_[index].capacity;
  stage.exact = stages_[index].exact;
  return coder(index).describe_for_device(stage);
}

std::size_t Chain::earliest_device_stage() const noexcept {
  if (swaps_fields() || variable_length_) return stages_.size();
  return stages_.size() - std::min(stages_.size(), device::kMaxDecodeStages);
}

std::vector<device::DecodeStage> Chain::device_stages(std::size_t begin) const {
  std::vector<device::DecodeStage> out(stages_.size() - begin);
  for (std::size_t i = begin; i < stages_.size(); ++i) {
    if (!describe_stage(i, out[i - begin])) out[i - begin].codec = stage_name(i);
  }
  return out;
}

std::string Chain::why_not_on_device() const {
  if (device_begin_ < stages_.size() || raw()) return "";
  if (!mixed_swaps_.empty()) return "fields of the elements are swapped one by one";
  return "codec '" + std::string(stages_.back().coder->name()) + "' has no device code";
}

Chain::Workspace Chain::make_workspace() const {
  Workspace workspace;
  for (const ChainStep& stage : stages_) workspace.scratch.push_back(stage.coder->make_scratch());
  return workspace;
}

void Chain::Workspace::set_budget(GrowthBudget* budget) {
  for (GrowingBuffer& buffer : growing) buffer.set_budget(budget);
  for (const auto& codec_scratch : scratch) {
    if (codec_scratch != nullptr) codec_scratch->set_budget(budget);
  }
}

Status Chain::check_encoded_size(std::uint64_t bytes) const {
  if (accepts_encoded_size(bytes)) return {};
  const bool is_short = bytes < max_encoded_bytes_;
  return Status(is_short ? Code::kShort : Code::kCorrupt, Layer::kCodec,
                "a stored chunk must have " + std::string(encoded_exact_ ? "exactly " : "at most ") +
                    std::to_string(max_encoded_bytes_) + " bytes, this one has " + std::to_string(bytes));
}

Status Chain::decode(std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace) const {
  if (dst.size() != decoded_bytes_) return Status(Code::kInternal, Layer::kCodec, "wrong output size for a chunk");
  HEADRACE_TRY(check_encoded_size(src.size()));
  if (stages_.empty()) {
    if (src.data() != dst.data() && !src.empty()) std::memcpy(dst.data(), src.data(), src.size());
    swap_fields(dst);
    return {};
  }
  std::size_t produced = 0;
  HEADRACE_TRY(run_stages(0, stages_.size(), src, dst, workspace, produced));
  swap_fields(dst);
  return {};
}

bool Chain::cut(std::span<const std::byte> table, std::uint64_t stored_bytes, std::uint64_t begin, std::uint64_t end,
                std::span<std::byte> head, StreamPart& part) const noexcept {
  if (begin >= end || end > decoded_bytes_ || table.size() > stored_bytes || !accepts_encoded_size(stored_bytes))
    return false;
  if (!coder(0).cut(table, stored_bytes, begin, end, head, part)) return false;
  return part.head_bytes <= head.size() && part.begin <= stored_bytes && part.bytes <= stored_bytes - part.begin &&
         part.decoded_begin <= begin && part.decoded_bytes >= end - part.decoded_begin &&
         part.decoded_bytes <= decoded_bytes_ - part.decoded_begin;
}

Status Chain::decode_part(std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace) const {
  const bool whole_elements = part_table_bytes_ != 0 || dst.size() % item_bytes_ == 0;
  if ((part_table_bytes_ == 0 && !has_prefix()) || dst.empty() || dst.size() > decoded_bytes_ || !whole_elements) {
    return Status(Code::kInternal, Layer::kCodec, "partial decoding was requested of a chunk that does not support it");
  }
  if (part_table_bytes_ == 0) {
    HEADRACE_TRY(check_encoded_size(src.size()));
    std::size_t produced = 0;
    HEADRACE_TRY(run_stages(0, stages_.size(), src, dst, workspace, produced, dst.size()));
    swap_fields(dst);
    return {};
  }
  EncodedStream stream{.src = src.data(), .src_bytes = src.size(), .dst = dst.data(), .dst_capacity = dst.size()};
  return coder(0).decode(stream, workspace.scratch[0].get());
}

Status Chain::decode_from(std::size_t begin, std::span<const std::byte> src, std::span<std::byte> dst,
                          Workspace& workspace) const {
  if (begin == 0) return decode(src, dst, workspace);
  if (dst.size() != decoded_bytes_) return Status(Code::kInternal, Layer::kCodec, "wrong output size for a chunk");
  std::size_t produced = 0;
  HEADRACE_TRY(run_stages(begin, stages_.size(), src, dst, workspace, produced));
  swap_fields(dst);
  return {};
}

Status Chain::decode_until(std::size_t end, std::span<const std::byte> src, std::span<std::byte> dst,
                           Workspace& workspace, std::size_t& produced) const {
  HEADRACE_TRY(check_encoded_size(src.size()));
  return run_stages(0, end, src, dst, workspace, produced);
}

std::size_t Chain::index_stage() const noexcept {
  std::size_t stage = device_begin_;
  while (stage < stages_.size() && !coder(stage).has_decode_index()) ++stage;
  return stage;
}

Result<std::vector<std::byte>> Chain::make_decode_index(std::span<const std::byte> src, std::span<std::byte> between,
                                                        Workspace& workspace) const {
  const std::size_t stage = index_stage();
  if (stage == stages_.size()) {
    return Status(Code::kUnsupported, Layer::kCodec, "no codec of the chain has decode indices");
  }
  if (stage > device_begin_) {
    std::size_t produced = 0;
    HEADRACE_TRY(run_stages(device_begin_, stage, src, between, workspace, produced));
    src = {between.data(), produced};
  }
  return coder(stage).make_decode_index(src);
}

Status Chain::run_stages(std::size_t begin, std::size_t end, std::span<const std::byte> src, std::span<std::byte> dst,
                         Workspace& workspace, std::size_t& produced, std::uint64_t prefix_bytes) const {
  for (std::size_t i = begin; i < end; ++i) {
    ChainStep stage = stages_[i];
    EncodedStream stream;
    if (prefix_bytes != 0 && i >= prefix_stage_) {
      stage.capacity = bytes_for_prefix(i, prefix_bytes);
      if (stage.coder->prefix(stages_[i].capacity) == Prefix::kEndsEarly) {
        stream.prefix_of = static_cast<std::size_t>(stages_[i].capacity);
      } else {
        // If there are fewer bytes, the codec reports it.
        src = src.first(std::min(src.size(), static_cast<std::size_t>(stage.coder->encoded_size(stage.capacity).most)));
      }
    }
    stream.src = src.data();
    stream.src_bytes = src.size();
    const std::span<std::byte> room = i + 1 == end ? dst : workspace.temporary[i % 2];
    if (!stage.grows && room.size() < stage.capacity) {
      return Status(Code::kInternal, Layer::kCodec, "no room for a codec's output");
    }
    stream.dst = room.data();
    stream.dst_capacity = stage.capacity;
    stream.exact = stage.exact;
    Status status;
    const std::uint64_t begun = workspace.stage_seconds.empty() ? 0 : base::now_ns();
    if (stage.grows) {
      status = decode_growing(stage, stream, workspace.growing[i % 2], workspace.scratch[i].get());
    } else {
      status = stage.coder->decode(stream, workspace.scratch[i].get());
    }
    if (begun != 0) workspace.stage_seconds[i] += static_cast<double>(base::now_ns() - begun) * 1e-9;
    if (!status.ok()) return status;
    src = {stream.dst, stream.dst_bytes};
  }
  produced = src.size();
  return {};
}

// Retries with more room until it suffices. The room grows geometrically, so all attempts together cost at most a few
// times the last one. The buffer keeps its size, so later chunks of similar size need one attempt.
Status Chain::decode_growing(const ChainStep& stage, EncodedStream& stream, GrowingBuffer& buffer, Scratch* scratch) {
  constexpr std::uint64_t kMinRoom = std::uint64_t{16} << 10, kMaxExtra = std::uint64_t{8} << 20;
  // Checksums and filters keep the size.
  const bool keeps_size = stage.coder->encoded_size(stream.src_bytes).exact;
  const std::uint64_t guess = stream.src_bytes + std::min<std::uint64_t>(3 * stream.src_bytes, kMaxExtra);
  std::uint64_t room = keeps_size ? stream.src_bytes : std::max(guess, kMinRoom);
  for (;;) {
    HEADRACE_TRY(buffer.at_least(std::min(room, stage.capacity)));
    stream.dst = buffer.data();
    stream.dst_capacity = buffer.capacity();
    stream.exact = false;
    Status status = stage.coder->decode(stream, scratch);
    if (status.ok() || stream.needed_bytes <= stream.dst_capacity || stream.dst_capacity >= stage.capacity) {
      return status;
    }
    // A size that the stream names may be its total size, or only that of its first frames.
    const bool named = stream.needed_bytes > stream.dst_capacity + 1;
    room = std::max<std::uint64_t>(stream.needed_bytes, stream.dst_capacity / 4 * (named ? 5 : 8));
  }
}

void Chain::swap_fields(std::span<std::byte> elements) const noexcept {
  if (mixed_swaps_.empty()) return;
  for (std::size_t item = 0; item + item_bytes_ <= elements.size(); item += item_bytes_) {
    std::byte* at = elements.data() + item;
    for (const DataType::SwapRun& run : mixed_swaps_) {
      for (std::uint32_t i = 0; i < run.count; ++i, at += run.width_bytes) {
        if (run.width_bytes > 1) std::reverse(at, at + run.width_bytes);
      }
    }
  }
}

}  // namespace headrace::codec

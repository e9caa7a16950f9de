// Chain: decodes a chunk's stored bytes to its elements, through all codecs of an array.
//
// Layout-only codecs are folded into one Layout. The remaining stages actually decode, outermost first. Every buffer
// size is known before a byte is read, and no stage can produce more. Variable-length elements are the exception: their
// chain decodes to slots (variable_codec.h), and the stages outside the codec that makes the slots decode into buffers
// that grow within a budget.
//
// Threads: immutable after make(); decode() on any number of threads, each with its own Workspace.
// Fails:   make(): kCorrupt for a chain that the specification forbids. decode(): the failing stage's error,
//          naming the codec.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.h"

namespace headrace::codec {

class Chain {
 public:
  // `initial` is the layout before the first codec (v2's order "F"). With needs_array_to_bytes (v3), there must be
  // exactly one array -> bytes codec; v2 chains have none.
  static Result<Chain> make(std::vector<Codec> codecs, const DataType& dtype,
                            const std::vector<std::uint64_t>& chunk_shape, Layout initial, bool needs_array_to_bytes);

  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }
  // The longest accepted stored stream; the only accepted length if encoded_exact().
  std::uint64_t max_encoded_bytes() const noexcept { return max_encoded_bytes_; }
  bool encoded_exact() const noexcept { return encoded_exact_; }
  // Stored bytes are the elements: they can be placed, and read in part, without decode().
  bool raw() const noexcept { return stages_.empty() && mixed_swaps_.empty(); }
  // decode() reverses bytes field by field, because the numbers of an element differ in width or byte order.
  bool swaps_fields() const noexcept { return !mixed_swaps_.empty(); }
  const Layout& layout() const noexcept { return layout_; }
  // Byte stride in the decoded chunk along each array axis.
  const std::vector<std::int64_t>& strides_bytes() const noexcept { return strides_bytes_; }
  std::span<const Codec> codecs() const noexcept { return codecs_; }
  // decode() moves elements, because axes move after a codec that changes them; see Representation.
  bool reorders() const noexcept { return !reorders_.empty(); }
  // Decoded elements are VariableSlots, valid while the stored bytes exist and until their Workspace decodes again.
  bool variable_length() const noexcept { return variable_length_; }
  // Size of each of a Workspace's two temporary buffers.
  std::uint64_t temporary_bytes() const noexcept { return temporary_bytes_; }

  // Working memory of one thread for one chain. The caller owns the temporary buffers.
  struct Workspace {
    std::vector<std::unique_ptr<Scratch>> scratch;  // one per stage
    std::span<std::byte> temporary[2];              // temporary_bytes() each
    std::vector<double> stage_seconds;              // one per stage; the time spent is added; empty: not measured
    GrowingBuffer growing[2];                       // variable_length() only

    // Sets the budget for all memory sized by stored bytes, and releases what is held. Null: no limit.
    void set_budget(GrowthBudget* budget);
  };
  Workspace make_workspace() const;

  // REQUIRES: dst.size() == decoded_bytes(). src may equal dst if there are no stages.
  Status decode(std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace) const;
  // StreamCoder::part_table_bytes() of the only stage, for chunks of which a part can be cut out. 0: none can.
  std::size_t part_table_bytes() const noexcept { return part_table_bytes_; }
  // Whether a chunk's first elements can be decoded without the rest, given all of its stored bytes. Checksums
  // are verified only over data that is decoded whole: over the stored bytes, but not within a stream whose
  // decoding ends early.
  bool has_prefix() const noexcept { return prefix_stage_ < stages_.size(); }
  // REQUIRES: part_table_bytes() > 0. If true, `part` lies within the stored and the decoded bytes.
  bool cut(std::span<const std::byte> table, std::uint64_t stored_bytes, std::uint64_t begin, std::uint64_t end,
           std::span<std::byte> head, StreamPart& part) const noexcept;
  // Decodes what cut() selected; dst.size() is its decoded_bytes. With has_prefix(), decodes a prefix from all stored
  // bytes; dst.size() is that of the wanted whole elements.
  Status decode_part(std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace) const;
  bool accepts_encoded_size(std::uint64_t bytes) const noexcept {
    return encoded_exact_ ? bytes == max_encoded_bytes_ : bytes <= max_encoded_bytes_;
  }
  Status check_encoded_size(std::uint64_t bytes) const;  // kShort or kCorrupt, with the reason

  // Stages are numbered outermost first, in decoding order. A device can take over at device_stage_begin(): that stage
  // and all later ones have device code. It is stage_count() if no stage can be taken over (also if fields are swapped
  // one by one). codec/device_stages.h knows what a particular device can do.
  std::size_t stage_count() const noexcept { return stages_.size(); }
  const StreamCoder& coder(std::size_t index) const noexcept { return *stages_[index].coder; }
  std::string_view stage_name(std::size_t index) const noexcept { return coder(index).name(); }
  std::size_t device_stage_begin() const noexcept { return device_begin_; }
  // The same if all codecs had device code.
  std::size_t earliest_device_stage() const noexcept;
  // Descriptions for a device of the stages from `begin` on; for stages without device code, just the codec's name.
  std::vector<device::DecodeStage> device_stages(std::size_t begin) const;
  // The codec that prevents a device from taking over; "" if none does or there is nothing to decode.
  std::string why_not_on_device() const;
  // Runs the stages before `end`, after which a device takes over. dst.size() must be at least capacity_before(end);
  // `produced` is the size used. REQUIRES: end > 0, since nothing is copied for 0.
  Status decode_until(std::size_t end, std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace,
                      std::size_t& produced) const;
  // Runs the stages from `begin` on, after decode_until(begin). dst.size() == decoded_bytes().
  Status decode_from(std::size_t begin, std::span<const std::byte> src, std::span<std::byte> dst,
                     Workspace& workspace) const;
  // The stage with decode indices, among those that a device takes over; stage_count() if there is none.
  std::size_t index_stage() const noexcept;
  // Builds, on the CPU, the decode index for the input of device_stage_begin(): StreamCoder::make_decode_index.
  // `between` has temporary_bytes(). Throws std::bad_alloc.
  Result<std::vector<std::byte>> make_decode_index(std::span<const std::byte> src, std::span<std::byte> between,
                                                   Workspace& workspace) const;
  // Maximum size of the input of stage `index`.
  std::uint64_t capacity_before(std::size_t index) const noexcept {
    return index == 0 ? max_encoded_bytes_ : stages_[index - 1].capacity;
  }

 private:
  Chain() = default;
  // prefix_bytes: bytes wanted of the last stage's output, with has_prefix(); 0: all.
  Status run_stages(std::size_t begin, std::size_t end, std::span<const std::byte> src, std::span<std::byte> dst,
                    Workspace& workspace, std::size_t& produced, std::uint64_t prefix_bytes = 0) const;
  std::size_t find_prefix_stage() const noexcept;
  // Bytes that stage `index` must produce for this many bytes of the last stage's output.
  std::uint64_t bytes_for_prefix(std::size_t index, std::uint64_t prefix_bytes) const;
  void swap_fields(std::span<std::byte> elements) const noexcept;
  bool describe_stage(std::size_t index, device::DecodeStage& stage) const;
  struct ChainStep {
    const StreamCoder* coder = nullptr;
    std::uint64_t capacity = 0;  // of its output
    bool exact = true;
    bool grows = false;  // decodes into a growing buffer of at most `capacity`
  };
  static Status decode_growing(const ChainStep& stage, EncodedStream& stream, GrowingBuffer& buffer, Scratch* scratch);
  void add_stages(const std::vector<const StreamCoder*>& coders, const StreamCoder* makes_slots);
  std::vector<Codec> codecs_;  // encoding order
  std::vector<std::unique_ptr<StreamCoder>> reorders_;
  std::unique_ptr<StreamCoder> big_endian_coder_;  // replaces that of the last codec that changes values
  std::vector<ChainStep> stages_;                  // decoding order
  Layout layout_;
  std::vector<std::int64_t> strides_bytes_;
  std::vector<DataType::SwapRun> mixed_swaps_;  // empty unless fields differ in byte order
  std::uint32_t item_bytes_ = 1;
  std::uint64_t decoded_bytes_ = 0, max_encoded_bytes_ = 0, temporary_bytes_ = 0;
  bool encoded_exact_ = true, variable_length_ = false;
  std::size_t device_begin_ = 0;
  std::size_t part_table_bytes_ = 0;
  std::size_t prefix_stage_ = 0;  // first stage that decodes only part for a prefix; the number of stages: none
};

}  // namespace headrace::codec

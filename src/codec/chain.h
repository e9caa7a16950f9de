// Chain: the whole way from a chunk's stored bytes to its decoded elements.
//
// Layout-only codecs are folded into one Layout; what is left are the stages that really decode, outermost first. Every
// buffer size is known before a byte is read, and no stage can produce more. The exception are elements of variable
// length: a chain of those decodes to slots (variable_codec.h), and what lies outside the codec that makes the slots is
// decoded into buffers that grow within a budget.
//
// Threads: immutable after make(); decode() on any number of threads, each with its own Workspace.
// Fails:   make(): kCorrupt for a chain the specification forbids. decode(): what the stage found, naming the codec.
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
  // `initial` is the layout before the first codec (v2's order "F"). With needs_array_to_bytes (v3) exactly one
  // array -> bytes codec must be there; v2 chains have none.
  static Result<Chain> make(std::vector<Codec> codecs, const DataType& dtype,
                            const std::vector<std::uint64_t>& chunk_shape, Layout initial, bool needs_array_to_bytes);

  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }
  // Longest stored stream that is accepted; the only accepted length if encoded_exact().
  std::uint64_t max_encoded_bytes() const noexcept { return max_encoded_bytes_; }
  bool encoded_exact() const noexcept { return encoded_exact_; }
  // Stored bytes are the elements: they can be placed, and partly read, without decode().
  bool raw() const noexcept { return stages_.empty() && mixed_swaps_.empty(); }
  // decode() reverses bytes field by field, since numbers of one element differ in width or byte order.
  bool swaps_fields() const noexcept { return !mixed_swaps_.empty(); }
  const Layout& layout() const noexcept { return layout_; }
  // Byte distance in the decoded chunk between neighbours along each array axis.
  const std::vector<std::int64_t>& strides_bytes() const noexcept { return strides_bytes_; }
  std::span<const Codec> codecs() const noexcept { return codecs_; }
  // decode() moves elements, since axes move behind a codec that changes them; see Representation.
  bool reorders() const noexcept { return !reorders_.empty(); }
  // Decoded elements are VariableSlots, valid until their Workspace decodes again, as long as the stored bytes are
  // there.
  bool variable_length() const noexcept { return variable_length_; }
  // Bytes that each of a Workspace's two buffers needs.
  std::uint64_t temporary_bytes() const noexcept { return temporary_bytes_; }

  // One thread's working memory for one chain; the buffers are lent by the caller.
  struct Workspace {
    std::vector<std::unique_ptr<Scratch>> scratch;  // one per stage
    std::span<std::byte> temporary[2];              // temporary_bytes() each
    std::vector<double> stage_seconds;              // one per stage: the time it took is added; empty: not measured
    GrowingBuffer growing[2];                       // variable_length() only

    // Of all memory whose size follows from stored bytes; what was held is given back. Without one there is no limit.
    void set_budget(GrowthBudget* budget);
  };
  Workspace make_workspace() const;

  // REQUIRES: dst.size() == decoded_bytes(). src may be dst where there are no stages.
  Status decode(std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace) const;
  // Chunks of which a part can be cut out: StreamCoder's of the same name, of the only stage. 0: none can.
  std::size_t part_table_bytes() const noexcept { return part_table_bytes_; }
  // Whether a chunk's first elements can be decoded without the others, from all of its stored bytes. Checksums are
  // compared of what is decoded whole: of the stored bytes, but not of a stream whose decoding ends early.
  bool has_prefix() const noexcept { return prefix_stage_ < stages_.size(); }
  // REQUIRES: part_table_bytes() > 0. True: `part` lies within the stored and the decoded bytes.
  bool cut(std::span<const std::byte> table, std::uint64_t stored_bytes, std::uint64_t begin, std::uint64_t end,
           std::span<std::byte> head, StreamPart& part) const noexcept;
  // Of what cut() gave; dst.size() is its decoded_bytes. Where has_prefix(), of all stored bytes; dst.size() is of as
  // many whole elements as are wanted.
  Status decode_part(std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace) const;
  bool accepts_encoded_size(std::uint64_t bytes) const noexcept {
    return encoded_exact_ ? bytes == max_encoded_bytes_ : bytes <= max_encoded_bytes_;
  }
  Status check_encoded_size(std::uint64_t bytes) const;  // kShort, kCorrupt: why not

  // Stages are numbered outermost first, as they are decoded. A device can take over from device_stage_begin(): that
  // stage and all after it have device code, none if it is stage_count() (also where fields are swapped one by one).
  // codec/device_stages.h knows what a given device does.
  std::size_t stage_count() const noexcept { return stages_.size(); }
  const StreamCoder& coder(std::size_t index) const noexcept { return *stages_[index].coder; }
  std::string_view stage_name(std::size_t index) const noexcept { return coder(index).name(); }
  std::size_t device_stage_begin() const noexcept { return device_begin_; }
  // The same as if all codecs had device code.
  std::size_t earliest_device_stage() const noexcept;
  // What a device needs to know of the stages from `begin` on; of those without device code, the codec's name.
  std::vector<device::DecodeStage> device_stages(std::size_t begin) const;
  // Why no device can take over: the codec at fault, "" where one can or there is nothing to decode.
  std::string why_not_on_device() const;
  // The stages before `end` only: what a device takes over from. dst.size() is at least capacity_before(end);
  // `produced` is how much of it was used. Nothing is copied for end == 0: REQUIRES end > 0.
  Status decode_until(std::size_t end, std::span<const std::byte> src, std::span<std::byte> dst, Workspace& workspace,
                      std::size_t& produced) const;
  // The stages from `begin` on: what is left after decode_until(begin). dst.size() == decoded_bytes().
  Status decode_from(std::size_t begin, std::span<const std::byte> src, std::span<std::byte> dst,
                     Workspace& workspace) const;
  // The stage whose codec has decode indices, of those that a device takes over; stage_count() if there is none.
  std::size_t index_stage() const noexcept;
  // The index of what device_stage_begin() is given, made by the CPU: StreamCoder::make_decode_index. `between` has
  // temporary_bytes(). Throws std::bad_alloc.
  Result<std::vector<std::byte>> make_decode_index(std::span<const std::byte> src, std::span<std::byte> between,
                                                   Workspace& workspace) const;
  // Most bytes that enter stage `index`.
  std::uint64_t capacity_before(std::size_t index) const noexcept {
    return index == 0 ? max_encoded_bytes_ : stages_[index - 1].capacity;
  }

 private:
  Chain() = default;
  // prefix_bytes: of what the last stage gives, where has_prefix(); 0: all.
  Status run_stages(std::size_t begin, std::size_t end, std::span<const std::byte> src, std::span<std::byte> dst,
                    Workspace& workspace, std::size_t& produced, std::uint64_t prefix_bytes = 0) const;
  std::size_t find_prefix_stage() const noexcept;
  // What stage `index` has to give for so many bytes of what the last one does.
  std::uint64_t bytes_for_prefix(std::size_t index, std::uint64_t prefix_bytes) const;
  void swap_fields(std::span<std::byte> elements) const noexcept;
  bool describe_stage(std::size_t index, device::DecodeStage& stage) const;
  struct ChainStep {
    const StreamCoder* coder = nullptr;
    std::uint64_t capacity = 0;  // of its output
    bool exact = true;
    bool grows = false;  // into a growing buffer, of at most `capacity`
  };
  static Status decode_growing(const ChainStep& stage, EncodedStream& stream, GrowingBuffer& buffer, Scratch* scratch);
  void add_stages(const std::vector<const StreamCoder*>& coders, const StreamCoder* makes_slots);
  std::vector<Codec> codecs_;  // encoding order
  std::vector<std::unique_ptr<StreamCoder>> reorders_;
  std::unique_ptr<StreamCoder> big_endian_coder_;  // of the last codec that changes values
  std::vector<ChainStep> stages_;                  // decoding order
  Layout layout_;
  std::vector<std::int64_t> strides_bytes_;
  std::vector<DataType::SwapRun> mixed_swaps_;  // empty unless fields differ in byte order
  std::uint32_t item_bytes_ = 1;
  std::uint64_t decoded_bytes_ = 0, max_encoded_bytes_ = 0, temporary_bytes_ = 0;
  bool encoded_exact_ = true, variable_length_ = false;
  std::size_t device_begin_ = 0;
  std::size_t part_table_bytes_ = 0;
  std::size_t prefix_stage_ =
      0;  // the first that does not decode all for a prefix; the number of stages: there is none
};

}  // namespace headrace::codec

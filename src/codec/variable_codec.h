// VariableCodec: base of array -> bytes codecs for strings and byte strings.
//
// Decoding produces one VariableSlot per element, which locates the element's bytes in the stream or in the
// codec's scratch. From the codec to the result, slots are fixed-size elements that layouts, shards and selections
// move like numbers.
//
// Threads: as for every codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "codec/stream_codec.h"

namespace headrace::codec {

struct VariableSlot {
  const std::byte* data = nullptr;  // valid while the stream and the scratch of its decode() are unchanged
  std::uint64_t bytes = 0;
  // An element that is not a string, as JSON may contain: an error only if it is selected.
  static constexpr std::uint64_t kNotText = ~std::uint64_t{0};
};
inline constexpr std::uint32_t kVariableSlotBytes = sizeof(VariableSlot);
static_assert(kVariableSlotBytes == 16);

// Longest accepted stream. The effective bound is the budget for its buffers.
inline constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 40;

// The type of the slots for variable-length elements of `dtype`: the same type with a size.
DataType slot_type(const DataType& dtype);

// dst has room for dst_capacity / kVariableSlotBytes slots. Fails only with kCorrupt and kResourceExhausted, and with
// kUnsupported where stated.
class VariableCodec : public ArrayToBytes, public CheckedCoder {
 public:
  std::string_view name() const noexcept override = 0;
  // kCorrupt for elements of a type other than element_kind().
  Status enter(Representation& elements) const override;
  const StreamCoder* coder() const noexcept final { return this; }
  bool variable_length() const noexcept final { return true; }
  EncodedSize encoded_size(std::uint64_t) const final { return {kMaxVariableBytes}; }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const final;
  virtual TypeKind element_kind() const noexcept = 0;
  // The stream is not empty. Writes `count` slots to `slots`, unaligned, with put_slot().
  virtual Status decode_elements(std::span<const std::byte> stream, std::byte* slots, std::uint64_t count,
                                 Scratch* scratch) const = 0;

  static void put_slot(std::byte* slots, std::uint64_t index, VariableSlot slot) noexcept;
};

// The format of vlen-utf8 and vlen-bytes: a count, then for each element its length and that many bytes. All numbers
// are uint32 little-endian ("codecs/vlen-utf8", "codecs/vlen-bytes" of the registered extensions; numcodecs.vlen).
class VlenCodec : public VariableCodec {
 protected:
  Status decode_elements(std::span<const std::byte> stream, std::byte* slots, std::uint64_t count,
                         Scratch* scratch) const final;
};

}  // namespace headrace::codec

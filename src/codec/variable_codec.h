// VariableCodec: what array -> bytes codecs of strings and byte strings have in common.
//
// Decoding gives one VariableSlot an element, which says where the element's bytes lie: in the stream or in the codec's
// scratch. Between the codec and the result, slots are elements of one size: layouts, shards and selections move them
// as they move numbers.
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
  const std::byte* data = nullptr;  // as long as the stream and the scratch of its decode() stay as they are
  std::uint64_t bytes = 0;
  // An element that is no string, as JSON may hold: an error only for who asks for it.
  static constexpr std::uint64_t kNotText = ~std::uint64_t{0};
};
inline constexpr std::uint32_t kVariableSlotBytes = sizeof(VariableSlot);
static_assert(kVariableSlotBytes == 16);

// Longest stream that is looked at; what really bounds one is the budget its buffers come from.
inline constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 40;

// The type of the slots of elements of `dtype`, a type of variable length: the same, but with a size.
DataType slot_type(const DataType& dtype);

// dst of its streams takes dst_capacity / kVariableSlotBytes slots. Only kCorrupt and kResourceExhausted, kUnsupported
// where named.
class VariableCodec : public ArrayToBytes, public CheckedCoder {
 public:
  std::string_view name() const noexcept override = 0;
  // kCorrupt for elements of another type than element_kind().
  Status enter(Representation& elements) const override;
  const StreamCoder* coder() const noexcept final { return this; }
  bool variable_length() const noexcept final { return true; }
  EncodedSize encoded_size(std::uint64_t) const final { return {kMaxVariableBytes}; }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const final;
  virtual TypeKind element_kind() const noexcept = 0;
  // The stream is not empty. Writes `count` slots at `slots`, of any alignment, by put_slot().
  virtual Status decode_elements(std::span<const std::byte> stream, std::byte* slots, std::uint64_t count,
                                 Scratch* scratch) const = 0;

  static void put_slot(std::byte* slots, std::uint64_t index, VariableSlot slot) noexcept;
};

// The format of vlen-utf8 and vlen-bytes: a count, then a length and that many bytes for each element, all numbers
// uint32 little-endian ("codecs/vlen-utf8", "codecs/vlen-bytes" of the registered extensions; numcodecs.vlen).
class VlenCodec : public VariableCodec {
 protected:
  Status decode_elements(std::span<const std::byte> stream, std::byte* slots, std::uint64_t count,
                         Scratch* scratch) const final;
};

}  // namespace headrace::codec

#include "codec/variable_codec.h"

#include <cstring>
#include <string>

#include "base/utf8.h"
#include "codec/representation.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kLengthBytes = 4;

std::uint32_t u32(const std::byte* at) noexcept {
  return std::to_integer<std::uint32_t>(at[0]) | std::to_integer<std::uint32_t>(at[1]) << 8 |
         std::to_integer<std::uint32_t>(at[2]) << 16 | std::to_integer<std::uint32_t>(at[3]) << 24;
}

}  // namespace

DataType slot_type(const DataType& dtype) {
  DataType out = dtype;
  out.item_bytes = kVariableSlotBytes;
  out.swap_runs = {{1, kVariableSlotBytes}};
  return out;
}

void VariableCodec::put_slot(std::byte* slots, std::uint64_t index, VariableSlot slot) noexcept {
  std::memcpy(slots + index * kVariableSlotBytes, &slot, kVariableSlotBytes);
}

Status VariableCodec::enter(Representation& elements) const {
  const DataType& dtype = elements.dtype();
  if (dtype.kind == element_kind()) return {};
  return Status(Code::kCorrupt, Layer::kCodec,
                "codec '" + std::string(name()) + "' encodes " +
                    (element_kind() == TypeKind::kString ? "strings" : "byte strings") +
                    " of variable length, not elements of type '" + dtype.name + "'");
}

Status VariableCodec::decode_stream(EncodedStream& stream, Scratch* scratch) const {
  if (stream.dst_capacity % kVariableSlotBytes != 0) {
    return Status(Code::kInternal, Layer::kCodec, "the output is not a whole number of slots");
  }
  stream.dst_bytes = stream.dst_capacity;
  return decode_elements({stream.src, stream.src_bytes}, stream.dst, stream.dst_capacity / kVariableSlotBytes, scratch);
}

Status VlenCodec::decode_elements(std::span<const std::byte> stream, std::byte* slots, std::uint64_t count,
                                  Scratch*) const {
  const std::string own(name());
  const char* const codec = own.c_str();
  if (stream.size() < kLengthBytes)
    return corrupt("%s: stream of %zu bytes has no element count", codec, stream.size());
  const std::uint32_t stored = u32(stream.data());
  if (stored != count) {
    return corrupt("%s: stream claims %u elements, but a chunk has %llu", codec, stored,
                   static_cast<unsigned long long>(count));
  }
  if ((stream.size() - kLengthBytes) / kLengthBytes < count) {
    return corrupt("%s: stream of %zu bytes is too short for the lengths of %u elements", codec, stream.size(), stored);
  }
  const bool is_utf8 = element_kind() == TypeKind::kString;
  std::size_t at = kLengthBytes;
  for (std::uint32_t i = 0; i < stored; ++i) {
    if (stream.size() - at < kLengthBytes) {
      return corrupt("%s: the stream of %zu bytes ends before the length of element %u of %u", codec, stream.size(), i,
                     stored);
    }
    const std::uint32_t bytes = u32(&stream[at]);
    at += kLengthBytes;
    if (bytes > stream.size() - at) {
      return corrupt("%s: element %u of %u has %u bytes at byte %zu of %zu", codec, i, stored, bytes, at,
                     stream.size());
    }
    const std::span<const std::byte> element = stream.subspan(at, bytes);
    if (is_utf8) {
      const std::size_t invalid = base::find_invalid_utf8(element);
      if (invalid != base::kValidUtf8) {
        return corrupt("%s: element %u of %u is not UTF-8: byte %zu of its %u is 0x%02x", codec, i, stored, invalid,
                       bytes, std::to_integer<unsigned>(element[invalid]));
      }
    }
    put_slot(slots, i, {element.data(), bytes});
    at += bytes;
  }
  if (at != stream.size()) {
    return corrupt("%s: %zu bytes follow the last of %u elements", codec, stream.size() - at, stored);
  }
  return {};
}

}  // namespace headrace::codec

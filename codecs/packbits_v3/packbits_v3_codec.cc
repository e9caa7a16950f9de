// packbits as registered for v3: some bits of each number, concatenated from the lowest bit of the first byte on.
// [registered codec "packbits"] An array -> bytes codec, unlike that of numcodecs, which also counts bits from the
// highest.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/representation.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

enum class PaddingByte : std::uint8_t { kFirst, kLast, kNone };

// One of the numbers that make up an element; the registration calls them components.
struct Component {
  unsigned width_bytes = 1;
  unsigned bits = 8;
  bool is_signed = false;
};

std::optional<Component> component_of(const DataType& dtype) {
  switch (dtype.kind) {
    case TypeKind::kBool:
      return Component{1, 1, false};
    case TypeKind::kInt:
    case TypeKind::kDatetime:
    case TypeKind::kTimedelta:
      return Component{dtype.item_bytes, 8 * dtype.item_bytes, true};
    case TypeKind::kUint:
    case TypeKind::kFloat:
    case TypeKind::kBfloat16:
      return Component{dtype.item_bytes, 8 * dtype.item_bytes, false};
    case TypeKind::kComplex:
      return Component{dtype.item_bytes / 2, 4 * dtype.item_bytes, false};
    default:
      return std::nullopt;
  }
}

class PackbitsV3Codec final : public ArrayToBytes, public CheckedCoder {
 public:
  PackbitsV3Codec(Component component, unsigned first_bit, unsigned bits, PaddingByte padding)
      : component_(component), first_bit_(first_bit), bits_(bits), padding_(padding) {}
  std::string_view name() const noexcept override { return "packbits_v3"; }
  const StreamCoder* coder() const noexcept override { return this; }
  Status enter(Representation& elements) const override {
    elements.set_byte_order(false);
    return {};
  }
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    return {packed_bytes(decoded_bytes) + (padding_ == PaddingByte::kNone ? 0 : 1), !may_lack_padding_byte()};
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    const std::size_t count = stream.dst_capacity / component_.width_bytes;
    const auto packed = static_cast<std::size_t>(packed_bytes(stream.dst_capacity));
    const bool lacks_byte = may_lack_padding_byte() && stream.src_bytes == packed;
    const std::size_t expected = packed + (padding_ == PaddingByte::kNone || lacks_byte ? 0 : 1);
    if (stream.dst_capacity % component_.width_bytes != 0 || stream.src_bytes != expected) {
      return corrupt("packbits: %zu numbers of %u bits are %zu bytes, not %zu", count, bits_, expected,
                     stream.src_bytes);
    }
    const std::byte* from = stream.src;
    if (expected != packed) {
      const auto stored = std::to_integer<std::size_t>(padding_ == PaddingByte::kFirst ? *from : from[packed]);
      if (stored != 8 * packed - padded_bits(count)) {
        return corrupt("packbits: %zu bits of padding, but %zu numbers of %u bits leave %zu", stored, count, bits_,
                       static_cast<std::size_t>(8 * packed - padded_bits(count)));
      }
      if (padding_ == PaddingByte::kFirst) ++from;
    }
    if (count != 0 && padded_bits(count) % 8 != 0 &&
        std::to_integer<unsigned>(from[packed - 1]) >> (padded_bits(count) % 8) != 0) {
      return corrupt("packbits: bits of the padding are not 0");
    }
    if (is_whole()) {
      std::memcpy(stream.dst, from, packed);
    } else {
      unpack({from, packed}, stream.dst, count);
    }
    stream.dst_bytes = count * component_.width_bytes;
    return {};
  }

 private:
  bool is_whole() const noexcept { return bits_ == 8 * component_.width_bytes; }
  // zarrs writes whole numbers like `bytes`, without the padding byte, which would be 0; the length tells which.
  bool may_lack_padding_byte() const noexcept { return is_whole() && padding_ != PaddingByte::kNone; }
  std::uint64_t padded_bits(std::uint64_t count) const noexcept { return count * bits_; }
  std::uint64_t packed_bytes(std::uint64_t decoded_bytes) const noexcept {
    // 8 numbers make bits_ bytes.
    const std::uint64_t count = decoded_bytes / component_.width_bytes;
    return count / 8 * bits_ + (count % 8 * bits_ + 7) / 8;
  }

  void unpack(std::span<const std::byte> packed, std::byte* out, std::size_t count) const noexcept {
    static_assert(std::endian::native == std::endian::little);
    const std::uint64_t mask = (~std::uint64_t{0}) >> (64 - bits_);
    const std::uint64_t sign = component_.is_signed ? std::uint64_t{1} << (first_bit_ + bits_ - 1) : 0;
    for (std::size_t i = 0; i < count; ++i, out += component_.width_bytes) {
      const std::uint64_t bit = std::uint64_t{i} * bits_;
      const auto at = static_cast<std::size_t>(bit / 8);
      const unsigned shift = bit % 8;
      std::uint64_t low = 0;
      std::memcpy(&low, &packed[at], std::min<std::size_t>(8, packed.size() - at));
      std::uint64_t value = low >> shift;
      if (shift + bits_ > 64) value |= std::to_integer<std::uint64_t>(packed[at + 8]) << (64 - shift);
      value = (value & mask) << first_bit_;
      // Sign-extends to 64 bits; memcpy truncates to the width of the number.
      value = (value ^ sign) - sign;
      std::memcpy(out, &value, component_.width_bytes);
    }
  }

  Component component_;
  unsigned first_bit_, bits_;
  PaddingByte padding_;
};

// null means the default.
std::optional<unsigned> read_bit(ConfigReader& reader, const char* key) {
  const base::Json* value = reader.any(key, Need::kOptional);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return static_cast<unsigned>(reader.integer(key, Need::kOptional, 0, 63));
}

}  // namespace

Result<Codec> make_packbits_v3(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const int padding = reader.choice("padding_encoding", Need::kOptional, {"first_byte", "last_byte", "none"}, 2);
  const std::optional<unsigned> first = read_bit(reader, "first_bit"), last = read_bit(reader, "last_bit");
  if (first && last && *last < *first) reader.refuse("last_bit", "is less than 'first_bit'");
  HEADRACE_TRY(reader.finish());
  if (context.dtype == nullptr) return Status(Code::kInternal, Layer::kCodec, "packbits: the data type is unknown");
  const std::optional<Component> component = component_of(*context.dtype);
  if (!component)
    return corrupt("codec 'packbits' cannot pack elements of type '%s'", context.dtype->name.substr(0, 60).c_str());
  const unsigned from = first.value_or(0), to = last.value_or(component->bits - 1);
  if (to >= component->bits || to < from) {
    return corrupt("codec 'packbits': bits %u to %u, but numbers of type '%s' have %u", from, to,
                   context.dtype->name.substr(0, 60).c_str(), component->bits);
  }
  return Codec(std::make_unique<PackbitsV3Codec>(*component, from, to - from + 1, static_cast<PaddingByte>(padding)));
}

}  // namespace headrace::codec

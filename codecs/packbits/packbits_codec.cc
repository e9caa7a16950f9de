// numcodecs' packbits: bools as bits, the first in the highest bit, after one byte with the number of bits that pad the
// last byte. The registered v3 codec of the same name is a different one: packbits_v3.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "codec/config_reader.h"
#include "codec/value_codec.h"

namespace headrace::codec {
namespace {

class PackbitsEncoder final : public Encoder {
 public:
  std::size_t bound_bytes(std::size_t plain_bytes) const override { return 1 + plain_bytes / 8 + 1; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const std::size_t bytes = (plain.size() + 7) / 8;
    out[0] = static_cast<std::byte>(bytes * 8 - plain.size());
    std::fill_n(out.begin() + 1, bytes, std::byte{0});
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i] != std::byte{0}) out[1 + i / 8] |= std::byte{0x80} >> (i % 8);
    }
    return 1 + bytes;
  }
};

// The eight bools of each byte value.
constexpr std::array<std::array<unsigned char, 8>, 256> make_table() {
  std::array<std::array<unsigned char, 8>, 256> table{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    for (std::size_t bit = 0; bit < 8; ++bit) table[byte][bit] = byte >> (7 - bit) & 1;
  }
  return table;
}
constexpr auto kBits = make_table();

class PackbitsCodec final : public ValueCodec {
 public:
  PackbitsCodec() : ValueCodec({Number::kUint8}, {Number::kBool}) {}
  std::string_view name() const noexcept override { return "packbits"; }
  // Bytes have no byte order.
  std::unique_ptr<StreamCoder> make_big_endian_coder() const override { return std::make_unique<PackbitsCodec>(); }

  Status enter(Representation& elements) const override {
    const DataType dtype = elements.dtype();
    HEADRACE_TRY(ValueCodec::enter(elements));
    if (dtype.kind != TypeKind::kBool) {
      return corrupt("codec 'packbits' cannot pack elements of type '%s'", dtype.name.substr(0, 60).c_str());
    }
    std::uint64_t count = 1;
    for (const std::uint64_t extent : elements.shape()) {
      const auto product = base::checked_mul(count, extent);
      if (!product) return corrupt("codec 'packbits': one chunk has more than 2^64 elements");
      count = *product;
    }
    elements.change_axes({encoded_size(count).most});
    return {};
  }

  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    return {1 + decoded_bytes / 8 + (decoded_bytes % 8 != 0 ? 1 : 0), true};
  }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new PackbitsEncoder());
  }
  bool describe_for_device(device::DecodeStage& stage) const override {
    stage.codec = name();
    return true;
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    const auto padding = std::to_integer<std::size_t>(stream.src[0]);
    const std::size_t bytes = stream.src_bytes - 1;
    if (padding > 7 || (padding > 0 && bytes == 0)) {
      return corrupt("packbits: %zu bits of padding in %zu bytes", padding, bytes);
    }
    if (bytes > stream.dst_capacity / 8 + 1) return wrong_size("packbits", bytes * 8 - padding, stream);
    const std::size_t count = bytes * 8 - padding;
    HEADRACE_TRY(check_size("packbits", count, stream));
    const std::byte* const src = stream.src + 1;
    for (std::size_t i = 0; i < count / 8; ++i) {
      std::memcpy(stream.dst + 8 * i, kBits[std::to_integer<std::size_t>(src[i])].data(), 8);
    }
    if (count % 8 != 0) {
      std::memcpy(stream.dst + count / 8 * 8, kBits[std::to_integer<std::size_t>(src[count / 8])].data(), count % 8);
    }
    stream.dst_bytes = count;
    return {};
  }
};

}  // namespace

Result<Codec> make_packbits(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<PackbitsCodec>(), context.zarr_format);
}

}  // namespace headrace::codec

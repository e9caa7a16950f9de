// numcodecs' base64: RFC 4648 section 4, with padding, without line breaks.
//
// Python's decoder, which numcodecs uses, skips bytes outside the alphabet and ignores leftover bits. No encoder writes
// either, so both are errors here.
#include <algorithm>
#include <array>
#include <string_view>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned char kNone = 0xFF;

constexpr std::array<unsigned char, 256> make_table() {
  std::array<unsigned char, 256> table{};
  table.fill(kNone);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<unsigned char>(i);
  }
  return table;
}
constexpr auto kSextets = make_table();

class Base64Encoder final : public Encoder {
 public:
  std::size_t bound_bytes(std::size_t plain_bytes) const override { return (plain_bytes + 2) / 3 * 4; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    std::size_t bytes = 0;
    for (std::size_t at = 0; at < plain.size(); at += 3) {
      const std::size_t count = std::min<std::size_t>(3, plain.size() - at);
      unsigned group = 0;
      for (std::size_t i = 0; i < 3; ++i)
        group = group << 8 | (i < count ? std::to_integer<unsigned>(plain[at + i]) : 0);
      for (std::size_t i = 0; i < 4; ++i) {
        out[bytes++] = static_cast<std::byte>(i <= count ? kAlphabet[group >> (18 - 6 * i) & 63] : '=');
      }
    }
    return bytes;
  }
};

class Base64Codec final : public StreamCodec {
 public:
  std::string_view name() const noexcept override { return "base64"; }
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    const std::uint64_t groups = decoded_bytes / 3 + (decoded_bytes % 3 != 0 ? 1 : 0);
    return {groups > ~std::uint64_t{0} / 4 ? ~std::uint64_t{0} : groups * 4, true};
  }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new Base64Encoder());
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    const std::byte* const src = stream.src;
    if (stream.src_bytes % 4 != 0) {
      return corrupt("base64: %zu characters are not a multiple of 4", stream.src_bytes);
    }
    const std::size_t groups = stream.src_bytes / 4;
    std::size_t padding = 0;
    while (padding < 2 && src[stream.src_bytes - 1 - padding] == std::byte{'='}) ++padding;
    const std::size_t bytes = 3 * groups - padding;
    HEADRACE_TRY(check_size("base64", bytes, stream));
    std::byte* out = stream.dst;
    for (std::size_t i = 0; i < groups; ++i) {
      const std::size_t pads = i + 1 == groups ? padding : 0;
      unsigned group = 0, wrong = 0;
      for (std::size_t k = 0; k < 4 - pads; ++k) {
        const unsigned sextet = kSextets[std::to_integer<unsigned char>(src[4 * i + k])];
        wrong |= sextet;
        group |= sextet << (18 - 6 * k);
      }
      if (wrong > 63) return corrupt("base64: invalid character in the group at byte %zu", 4 * i);
      if (pads != 0 && (group & (pads == 1 ? 0xFFu : 0xFFFFu)) != 0) {
        return corrupt("base64: nonzero leftover bits after the last of %zu bytes", bytes);
      }
      for (std::size_t k = 0; k < 3 - pads; ++k) *out++ = static_cast<std::byte>(group >> (16 - 8 * k));
    }
    stream.dst_bytes = bytes;
    return {};
  }
};

}  // namespace

Result<Codec> make_base64(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<Base64Codec>());
}

}  // namespace headrace::codec

// crc32c: the bytes and their CRC-32C, four bytes little-endian, behind them (or before them, as numcodecs may have).
#include <cstring>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"
#include "crc32c.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kChecksumBytes = 4;

class Crc32cEncoder final : public Encoder {
 public:
  explicit Crc32cEncoder(bool at_start) : at_start_(at_start) {}

  std::size_t bound_bytes(std::size_t plain_bytes) const override { return plain_bytes + kChecksumBytes; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const std::uint32_t checksum = crc32c(plain.data(), plain.size());
    if (!plain.empty()) std::memcpy(out.data() + (at_start_ ? kChecksumBytes : 0), plain.data(), plain.size());
    std::byte* const word = out.data() + (at_start_ ? 0 : plain.size());
    for (std::size_t i = 0; i < kChecksumBytes; ++i) word[i] = static_cast<std::byte>(checksum >> (8 * i));
    return plain.size() + kChecksumBytes;
  }

 private:
  bool at_start_;
};

class Crc32cCodec final : public StreamCodec {
 public:
  explicit Crc32cCodec(bool at_start) : at_start_(at_start) {}
  std::string_view name() const noexcept override { return "crc32c"; }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes + kChecksumBytes; }
  bool fixed_size(std::uint64_t decoded_bytes, std::uint64_t& encoded_bytes) const override {
    encoded_bytes = decoded_bytes + kChecksumBytes;
    return true;
  }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new Crc32cEncoder(at_start_));
  }

 protected:
  Status decode_stream(Stream& stream, Scratch*) const override {
    if (stream.src_bytes < kChecksumBytes) {
      return corrupt("crc32c: %zu bytes are too few to hold a checksum", stream.src_bytes);
    }
    const std::size_t bytes = stream.src_bytes - kChecksumBytes;
    if (stream.exact ? bytes != stream.dst_capacity : bytes > stream.dst_capacity) {
      return wrong_size("crc32c", bytes, stream);
    }
    const std::byte* data = stream.src + (at_start_ ? kChecksumBytes : 0);
    const std::byte* checksum = at_start_ ? stream.src : stream.src + bytes;
    std::uint32_t stored = 0;
    for (std::size_t i = 0; i < kChecksumBytes; ++i) stored |= std::to_integer<std::uint32_t>(checksum[i]) << (8 * i);
    const std::uint32_t computed = crc32c(data, bytes);
    if (stored != computed) {
      return corrupt("crc32c: checksum mismatch: stored 0x%08x, computed 0x%08x over %zu bytes", stored, computed,
                     bytes);
    }
    if (bytes != 0) std::memcpy(stream.dst, data, bytes);
    stream.dst_bytes = bytes;
    return {};
  }

 private:
  bool at_start_;
};

}  // namespace

Result<std::unique_ptr<Codec>> make_crc32c(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  int location = 0;
  if (reader.numcodecs_form()) location = reader.choice("location", Need::kOptional, {"end", "start"});
  HEADRACE_TRY(reader.finish());
  return std::unique_ptr<Codec>(new Crc32cCodec(location == 1));
}

}  // namespace headrace::codec

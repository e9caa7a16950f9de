// numcodecs' lz4: the decoded size (4 bytes, little-endian), then one raw LZ4 block. Not the frame format.
#include <lz4.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kHeaderBytes = 4;

class Lz4Encoder final : public Encoder {
 public:
  explicit Lz4Encoder(int acceleration) : acceleration_(acceleration) {}

  std::size_t bound_bytes(std::size_t plain_bytes) const override {
    return kHeaderBytes + plain_bytes + plain_bytes / 255 + 16;
  }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    if (plain.size() > LZ4_MAX_INPUT_SIZE) {
      return Status(Code::kInvalidArgument, Layer::kCodec,
                    "lz4: a chunk of " + std::to_string(plain.size()) + " bytes is above the format's limit of " +
                        std::to_string(LZ4_MAX_INPUT_SIZE));
    }
    for (std::size_t i = 0; i < kHeaderBytes; ++i) out[i] = static_cast<std::byte>(plain.size() >> (8 * i));
    const std::size_t room = std::min<std::size_t>(out.size() - kHeaderBytes, INT_MAX);
    const int bytes = LZ4_compress_fast(reinterpret_cast<const char*>(plain.data()),
                                        reinterpret_cast<char*>(out.data() + kHeaderBytes),
                                        static_cast<int>(plain.size()), static_cast<int>(room), acceleration_);
    if (bytes <= 0) return Status(Code::kInternal, Layer::kCodec, "lz4: the encoder's own bound is too small");
    return kHeaderBytes + static_cast<std::size_t>(bytes);
  }

 private:
  int acceleration_;
};

class Lz4Codec final : public StreamCodec {
 public:
  explicit Lz4Codec(int acceleration) : acceleration_(acceleration) {}
  std::string_view name() const noexcept override { return "lz4"; }

  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    return {kHeaderBytes + decoded_bytes + decoded_bytes / 255 + 16};  // LZ4_COMPRESSBOUND
  }
  Prefix prefix(std::uint64_t) const noexcept override { return Prefix::kEndsEarly; }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new Lz4Encoder(acceleration_));
  }
  bool describe_for_device(device::DecodeStage& stage) const override {
    stage.codec = "lz4";
    return true;
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    if (stream.src_bytes <= kHeaderBytes)
      return corrupt("lz4: stream of %zu bytes is too short to hold a block", stream.src_bytes);
    std::uint64_t declared = 0;
    for (std::size_t i = 0; i < kHeaderBytes; ++i) declared |= std::to_integer<std::uint64_t>(stream.src[i]) << (8 * i);
    HEADRACE_TRY(check_size("lz4", declared, stream));
    const std::size_t block_bytes = stream.src_bytes - kHeaderBytes;
    if (block_bytes > INT_MAX || declared > INT_MAX) {
      return corrupt("lz4: sizes exceed the format's limits: %zu bytes of block, %llu decoded", block_bytes,
                     static_cast<unsigned long long>(declared));
    }
    const auto* const block = reinterpret_cast<const char*>(stream.src + kHeaderBytes);
    auto* const dst = reinterpret_cast<char*>(stream.dst);
    const std::uint64_t wanted = std::min<std::uint64_t>(declared, stream.dst_capacity);
    const int src_bytes = static_cast<int>(block_bytes), bytes = static_cast<int>(wanted);
    // If its last match has offset 0, which no encoder writes, liblz4 leaves these bytes uninitialised.
    if (wanted < declared) std::memset(dst, 0, static_cast<std::size_t>(wanted));
    const int got = wanted < declared ? LZ4_decompress_safe_partial(block, dst, src_bytes, bytes, bytes)
                                      : LZ4_decompress_safe(block, dst, src_bytes, bytes);
    if (got < 0) return corrupt("lz4: block is damaged near byte %d of %zu", -(got + 1), block_bytes);
    if (static_cast<std::uint64_t>(got) != wanted) return wrong_size("lz4", static_cast<std::uint64_t>(got), stream);
    stream.dst_bytes = static_cast<std::size_t>(got);
    return {};
  }

 private:
  int acceleration_;
};

}  // namespace

Result<Codec> make_lz4(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const std::int64_t acceleration = reader.integer("acceleration", Need::kOptional, INT_MIN, INT_MAX, 1);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<Lz4Codec>(static_cast<int>(acceleration)));
}

}  // namespace headrace::codec

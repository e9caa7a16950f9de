// lz4 as numcodecs writes it: the decoded size (4 bytes, little-endian), then one raw LZ4 block. Not the frame format.
#include <lz4.h>

#include <climits>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kHeaderBytes = 4;

class Lz4Codec final : public StreamCodec {
 public:
  std::string_view name() const noexcept override { return "lz4"; }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return kHeaderBytes + decoded_bytes + decoded_bytes / 255 + 16;  // LZ4_COMPRESSBOUND
  }

 protected:
  Status decode_stream(Stream& stream, Scratch*) const override {
    if (stream.src_bytes <= kHeaderBytes) return corrupt("lz4: stream of %zu bytes has no block", stream.src_bytes);
    std::uint64_t declared = 0;
    for (std::size_t i = 0; i < kHeaderBytes; ++i) declared |= std::to_integer<std::uint64_t>(stream.src[i]) << (8 * i);
    if (stream.exact ? declared != stream.dst_capacity : declared > stream.dst_capacity) {
      return wrong_size("lz4", declared, stream);
    }
    const std::size_t block_bytes = stream.src_bytes - kHeaderBytes;
    if (block_bytes > INT_MAX || declared > INT_MAX) {
      return corrupt("lz4: sizes beyond the format: %zu bytes of block, %llu decoded", block_bytes,
                     static_cast<unsigned long long>(declared));
    }
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(stream.src + kHeaderBytes),
                                        reinterpret_cast<char*>(stream.dst), static_cast<int>(block_bytes),
                                        static_cast<int>(declared));
    if (got < 0) return corrupt("lz4: block is damaged near byte %d of %zu", -(got + 1), block_bytes);
    if (static_cast<std::uint64_t>(got) != declared) return wrong_size("lz4", static_cast<std::uint64_t>(got), stream);
    stream.dst_bytes = static_cast<std::size_t>(got);
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Codec>> make_lz4(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  reader.integer("acceleration", Need::kOptional, INT_MIN, INT_MAX);
  HEADRACE_TRY(reader.finish());
  return std::unique_ptr<Codec>(new Lz4Codec);
}

}  // namespace headrace::codec

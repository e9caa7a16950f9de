// gzip: one or more concatenated RFC 1952 members. Nothing may follow the last one.
#include <libdeflate.h>

#include "codec/config_reader.h"
#include "codec/library_handle.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

struct GzipScratch final : Scratch {
  LibraryHandle<libdeflate_decompressor, &libdeflate_free_decompressor> inflater{libdeflate_alloc_decompressor()};
};

constexpr std::size_t kHeaderBytes = 10, kTrailerBytes = 8;
constexpr unsigned kMagic = 0x8B1F;
constexpr unsigned kFlagHeaderCrc = 0x02, kFlagExtra = 0x04, kFlagName = 0x08, kFlagComment = 0x10;

unsigned u16(const std::byte* at) { return std::to_integer<unsigned>(at[0]) | std::to_integer<unsigned>(at[1]) << 8; }

// libdeflate does not verify the header's own checksum, so a flipped bit in a name would go undetected. libdeflate
// detects all other header faults.
bool header_crc_holds(std::span<const std::byte> member) {
  if (member.size() < kHeaderBytes) return true;
  const unsigned flags = std::to_integer<unsigned>(member[3]);
  if ((flags & kFlagHeaderCrc) == 0) return true;
  std::size_t at = kHeaderBytes;
  if ((flags & kFlagExtra) != 0) {
    if (member.size() - at < 2) return true;
    at += 2 + u16(&member[at]);
  }
  for (const unsigned flag : {kFlagName, kFlagComment}) {
    if ((flags & flag) == 0) continue;
    while (at < member.size() && member[at] != std::byte{0}) ++at;
    ++at;
  }
  if (at > member.size() || member.size() - at < 2) return true;
  return u16(&member[at]) == (libdeflate_crc32(0, member.data(), at) & 0xFFFF);
}

// libdeflate compresses better than zlib at the same level; any inflater reads its output.
class GzipEncoder final : public Encoder {
 public:
  explicit GzipEncoder(int level) : deflater_(libdeflate_alloc_compressor(level)) {}

  std::size_t bound_bytes(std::size_t plain_bytes) const override {
    return libdeflate_gzip_compress_bound(deflater_.get(), plain_bytes);
  }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const std::size_t bytes =
        libdeflate_gzip_compress(deflater_.get(), plain.data(), plain.size(), out.data(), out.size());
    if (bytes == 0) return Status(Code::kInternal, Layer::kCodec, "gzip: the encoder's own bound is too small");
    return bytes;
  }

 private:
  LibraryHandle<libdeflate_compressor, &libdeflate_free_compressor> deflater_;
};

class GzipCodec final : public StreamCodec {
 public:
  explicit GzipCodec(int level) : level_(level) {}
  std::string_view name() const noexcept override { return "gzip"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<GzipScratch>(); }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new GzipEncoder(level_));
  }
  // parameters[0]: a DeflateKind.
  bool describe_for_device(device::DecodeStage& stage) const override {
    stage.codec = "gzip";
    stage.parameters[0] = 0;
    return true;
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override {
    libdeflate_decompressor* inflater = static_cast<GzipScratch*>(scratch)->inflater.get();
    for (std::size_t at = 0; at < stream.src_bytes;) {
      const std::span<const std::byte> member(stream.src + at, stream.src_bytes - at);
      const std::size_t room = stream.dst_capacity - stream.dst_bytes;
      std::size_t in = 0, out = 0;
      // libdeflate requires the size of the smallest possible member before it checks anything else.
      if (member.size() < kHeaderBytes + kTrailerBytes || u16(member.data()) != kMagic) {
        return corrupt("gzip: bytes from %zu of %zu are not a gzip member", at, stream.src_bytes);
      }
      if (!header_crc_holds(member)) return corrupt("gzip: header checksum mismatch in the member at byte %zu", at);
      switch (libdeflate_gzip_decompress_ex(inflater, member.data(), member.size(), stream.dst + stream.dst_bytes, room,
                                            &in, &out)) {
        case LIBDEFLATE_SUCCESS:
          break;
        case LIBDEFLATE_INSUFFICIENT_SPACE:
          needs_more_room(stream);
          return corrupt("gzip: stream decodes to more than the %zu bytes expected", stream.dst_capacity);
        default:
          return corrupt("gzip: member at byte %zu of %zu is damaged", at, stream.src_bytes);
      }
      at += in;
      stream.dst_bytes += out;
    }
    return {};
  }

 private:
  int level_;
};

}  // namespace

Result<Codec> make_gzip(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  // -1 is zlib's default, 6; numcodecs writes 1 by default.
  const std::int64_t level = reader.integer("level", Need::kOptional, reader.numcodecs_form() ? -1 : 0, 9, 1);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<GzipCodec>(level < 0 ? 6 : static_cast<int>(level)));
}

}  // namespace headrace::codec

// zstd: one or more Zstandard frames (RFC 8878), skippable frames among them.
#include <zstd.h>

#include <cstring>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

constexpr std::uint32_t kFrameMagic = 0xFD2FB528;
constexpr std::uint32_t kSkippableMagic = 0x184D2A50;  // the low four bits are free
constexpr std::size_t kMagicBytes = 4;

struct ZstdScratch final : Scratch {
  ZstdScratch() : context(ZSTD_createDCtx()) {
    if (context == nullptr) throw std::bad_alloc();
  }
  ~ZstdScratch() override { ZSTD_freeDCtx(context); }
  ZstdScratch(const ZstdScratch&) = delete;
  ZstdScratch& operator=(const ZstdScratch&) = delete;
  ZSTD_DCtx* context;
};

class ZstdCodec final : public StreamCodec {
 public:
  std::string_view name() const noexcept override { return "zstd"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<ZstdScratch>(); }

 protected:
  Status decode_stream(Stream& stream, Scratch* scratch) const override {
    ZSTD_DCtx* context = static_cast<ZstdScratch*>(scratch)->context;
    for (std::size_t at = 0; at < stream.src_bytes;) {
      const std::byte* frame = stream.src + at;
      const std::size_t left = stream.src_bytes - at;
      // Frame by frame: libzstd built with support for pre-1.0 formats would decode those too, with code nobody fuzzes.
      std::uint32_t magic = 0;
      if (left >= kMagicBytes) std::memcpy(&magic, frame, kMagicBytes);
      const bool skippable = (magic & 0xFFFFFFF0) == kSkippableMagic;
      if (magic != kFrameMagic && !skippable) {
        return corrupt("zstd: no frame at byte %zu of %zu", at, stream.src_bytes);
      }
      const std::size_t frame_bytes = ZSTD_findFrameCompressedSize(frame, left);
      if (ZSTD_isError(frame_bytes)) {
        return corrupt("zstd: frame at byte %zu of %zu: %s", at, stream.src_bytes, ZSTD_getErrorName(frame_bytes));
      }
      if (!skippable) HEADRACE_TRY(decode_frame(context, {frame, frame_bytes}, at, stream));
      at += frame_bytes;
    }
    return {};
  }

 private:
  static Status decode_frame(ZSTD_DCtx* context, std::span<const std::byte> frame, std::size_t at, Stream& stream) {
    const std::size_t room = stream.dst_capacity - stream.dst_bytes;
    if (const unsigned dictionary = ZSTD_getDictID_fromFrame(frame.data(), frame.size()); dictionary != 0) {
      return unsupported("zstd: frame at byte %zu needs dictionary %u", at, dictionary);
    }
    const unsigned long long declared = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (declared != ZSTD_CONTENTSIZE_UNKNOWN && declared != ZSTD_CONTENTSIZE_ERROR && declared > room) {
      return wrong_size("zstd", stream.dst_bytes + declared, stream);
    }
    const std::size_t got =
        ZSTD_decompressDCtx(context, stream.dst + stream.dst_bytes, room, frame.data(), frame.size());
    if (ZSTD_isError(got)) {
      return corrupt("zstd: frame at byte %zu: %s (%zu bytes expected in all)", at, ZSTD_getErrorName(got),
                     stream.dst_capacity);
    }
    stream.dst_bytes += got;
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Codec>> make_zstd(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  // numcodecs hands the level to the encoder, which clamps it; v3 says which levels there are.
  const bool bounded = context.zarr_format == 3;
  reader.integer("level", Need::kOptional, bounded ? -131072 : INT32_MIN, bounded ? 22 : INT32_MAX);
  reader.boolean("checksum", Need::kOptional);
  HEADRACE_TRY(reader.finish());
  return std::unique_ptr<Codec>(new ZstdCodec);
}

}  // namespace headrace::codec

// zstd: one or more Zstandard frames (RFC 8878), skippable frames among them.
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>

#include "codec/config_reader.h"
#include "codec/library_handle.h"
#include "codec/stream_codec.h"
#include "zstd_index.h"

namespace headrace::codec {
namespace {

constexpr std::uint32_t kFrameMagic = 0xFD2FB528;
constexpr std::uint32_t kSkippableMagic = 0x184D2A50;  // the low four bits are free
constexpr std::size_t kMagicBytes = 4;

struct ZstdScratch final : Scratch {
  LibraryHandle<ZSTD_DCtx, &ZSTD_freeDCtx> context{ZSTD_createDCtx()};
};

class ZstdEncoder final : public Encoder {
 public:
  ZstdEncoder(int level, bool checksum) : context_(ZSTD_createCCtx()) {
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel,
                           std::clamp(level, ZSTD_minCLevel(), ZSTD_maxCLevel()));
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, checksum ? 1 : 0);
  }

  std::size_t bound_bytes(std::size_t plain_bytes) const override { return ZSTD_compressBound(plain_bytes); }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const std::size_t bytes = ZSTD_compress2(context_.get(), out.data(), out.size(), plain.data(), plain.size());
    if (!ZSTD_isError(bytes)) return bytes;
    if (ZSTD_getErrorCode(bytes) == ZSTD_error_memory_allocation) return Status::out_of_memory();
    return Status(Code::kInternal, Layer::kCodec, "zstd: cannot encode").with_cause(ZSTD_getErrorName(bytes));
  }

 private:
  LibraryHandle<ZSTD_CCtx, &ZSTD_freeCCtx> context_;
};

class ZstdCodec final : public StreamCodec {
 public:
  ZstdCodec(int level, bool checksum) : level_(level), checksum_(checksum) {}
  std::string_view name() const noexcept override { return "zstd"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<ZstdScratch>(); }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new ZstdEncoder(level_, checksum_));
  }
  bool describe_for_device(device::DecodeStage& stage) const override {
    stage.codec = "zstd";
    return true;
  }
  bool has_decode_index() const noexcept override { return true; }
  Result<std::vector<std::byte>> make_decode_index(std::span<const std::byte> encoded) const override {
    return make_zstd_index(encoded);
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override {
    ZSTD_DCtx* context = static_cast<ZstdScratch*>(scratch)->context.get();
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
  static Status decode_frame(ZSTD_DCtx* context, std::span<const std::byte> frame, std::size_t at,
                             EncodedStream& stream) {
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
      if (ZSTD_getErrorCode(got) == ZSTD_error_dstSize_tooSmall) needs_more_room(stream);
      return corrupt("zstd: frame at byte %zu: %s (%zu bytes expected in all)", at, ZSTD_getErrorName(got),
                     stream.dst_capacity);
    }
    stream.dst_bytes += got;
    return {};
  }

  int level_;
  bool checksum_;
};

}  // namespace

Result<Codec> make_zstd(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  // numcodecs hands the level to the encoder, which clamps it; v3 says which levels there are.
  const bool bounded = context.zarr_format == 3;
  const std::int64_t level =
      reader.integer("level", Need::kOptional, bounded ? -131072 : INT32_MIN, bounded ? 22 : INT32_MAX);
  const bool checksum = reader.boolean("checksum", Need::kOptional);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ZstdCodec>(static_cast<int>(level), checksum));
}

}  // namespace headrace::codec

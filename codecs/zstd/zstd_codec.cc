// zstd: one or more concatenated Zstandard frames (RFC 8878), including skippable frames.
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "codec/config_reader.h"
#include "codec/library_handle.h"
#include "codec/stream_codec.h"
#include "zstd_index.h"

namespace headrace::codec {
namespace {

constexpr std::uint32_t kFrameMagic = 0xFD2FB528;
constexpr std::uint32_t kSkippableMagic = 0x184D2A50;  // the low four bits vary
constexpr std::size_t kMagicBytes = 4;

// Decoding that stops early uses libzstd's streaming API, which holds another copy of the frame's window. For longer
// chunks that would take too much memory per worker.
constexpr std::uint64_t kMaxPrefixOf = std::uint64_t{32} << 20;

// Window size that is always accepted, however short the chunk: what encoders declare when they don't know the input
// size.
constexpr std::uint64_t kUsualWindow = std::uint64_t{8} << 20;

struct ZstdScratch final : Scratch {
  LibraryHandle<ZSTD_DCtx, &ZSTD_freeDCtx> context{ZSTD_createDCtx()};
  std::vector<std::byte> frame;  // for frames that are decoded whole although only their beginning is needed
};

// The window size that a frame's header declares. REQUIRES: ZSTD_findFrameCompressedSize() has accepted the frame.
std::uint64_t window_bytes(std::span<const std::byte> frame, unsigned long long content) {
  constexpr unsigned kSingleSegment = 0x20;
  if ((std::to_integer<unsigned>(frame[kMagicBytes]) & kSingleSegment) != 0) return content;
  const unsigned window = std::to_integer<unsigned>(frame[kMagicBytes + 1]);
  const std::uint64_t base = std::uint64_t{1} << (10 + (window >> 3));
  return std::min<std::uint64_t>(base + base / 8 * (window & 7), content);
}

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
  Prefix prefix(std::uint64_t decoded_bytes) const noexcept override {
    return decoded_bytes <= kMaxPrefixOf ? Prefix::kEndsEarly : Prefix::kNone;
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
    std::uint64_t promised = 0;  // by the headers of all frames
    for (std::size_t at = 0; at < stream.src_bytes;) {
      const std::byte* frame = stream.src + at;
      const std::size_t left = stream.src_bytes - at;
      // Frame by frame: a libzstd built with support for pre-1.0 formats would decode those too, with code that is not
      // fuzzed.
      std::uint32_t magic = 0;
      if (left >= kMagicBytes) std::memcpy(&magic, frame, kMagicBytes);
      const bool skippable = (magic & 0xFFFFFFF0) == kSkippableMagic;
      if (magic != kFrameMagic && !skippable) {
        return corrupt("zstd: bytes from %zu of %zu are not a zstd frame", at, stream.src_bytes);
      }
      const std::size_t frame_bytes = ZSTD_findFrameCompressedSize(frame, left);
      if (ZSTD_isError(frame_bytes)) {
        return corrupt("zstd: frame at byte %zu of %zu: %s", at, stream.src_bytes, ZSTD_getErrorName(frame_bytes));
      }
      // Headers of frames beyond the requested prefix are still checked.
      const bool wanted = stream.prefix_of == 0 || stream.dst_bytes < stream.dst_capacity;
      if (!skippable) promised = add_content(promised, ZSTD_getFrameContentSize(frame, frame_bytes));
      if (!skippable && wanted) {
        HEADRACE_TRY(decode_frame(*static_cast<ZstdScratch*>(scratch), {frame, frame_bytes}, at, stream));
      }
      at += frame_bytes;
    }
    if (stream.prefix_of == 0 || promised == ZSTD_CONTENTSIZE_UNKNOWN) return {};
    return check_size("zstd", promised, stream);
  }

 private:
  // Becomes ZSTD_CONTENTSIZE_UNKNOWN as soon as one size is unknown.
  static std::uint64_t add_content(std::uint64_t sum, unsigned long long content) {
    const bool known = sum != ZSTD_CONTENTSIZE_UNKNOWN && content < ZSTD_CONTENTSIZE_ERROR;
    return known && content <= ZSTD_CONTENTSIZE_ERROR - sum - 1 ? sum + content : ZSTD_CONTENTSIZE_UNKNOWN;
  }

  static Status decode_frame(ZstdScratch& scratch, std::span<const std::byte> frame, std::size_t at,
                             EncodedStream& stream) {
    const std::size_t room = stream.dst_capacity - stream.dst_bytes;
    const std::size_t most = stream.prefix_of == 0 ? room : stream.prefix_of - stream.dst_bytes;
    if (const unsigned dictionary = ZSTD_getDictID_fromFrame(frame.data(), frame.size()); dictionary != 0) {
      return unsupported("zstd: frame at byte %zu needs dictionary %u", at, dictionary);
    }
    const unsigned long long declared = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (declared != ZSTD_CONTENTSIZE_UNKNOWN && declared != ZSTD_CONTENTSIZE_ERROR && declared > most) {
      return wrong_size("zstd", stream.dst_bytes + declared, stream);
    }
    if (stream.prefix_of != 0 && declared > room) return decode_beginning(scratch, frame, at, declared, stream);
    std::size_t got = 0;
    HEADRACE_TRY(decode_whole(scratch, frame, at, {stream.dst + stream.dst_bytes, room}, got, stream));
    stream.dst_bytes += got;
    return {};
  }

  static Status decode_whole(ZstdScratch& scratch, std::span<const std::byte> frame, std::size_t at,
                             std::span<std::byte> room, std::size_t& got, EncodedStream& stream) {
    got = ZSTD_decompressDCtx(scratch.context.get(), room.data(), room.size(), frame.data(), frame.size());
    if (!ZSTD_isError(got)) return {};
    if (ZSTD_getErrorCode(got) == ZSTD_error_dstSize_tooSmall) needs_more_room(stream);
    return corrupt("zstd: frame at byte %zu: %s (%zu bytes expected in all)", at, ZSTD_getErrorName(got),
                   stream.prefix_of != 0 ? stream.prefix_of : stream.dst_capacity);
  }

  // Decodes as much of a frame as there is room for; a frame of unknown size may have less.
  static Status decode_beginning(ZstdScratch& scratch, std::span<const std::byte> frame, std::size_t at,
                                 unsigned long long content, EncodedStream& stream) {
    ZSTD_DCtx* const context = scratch.context.get();
    const std::size_t most = stream.prefix_of - stream.dst_bytes, room = stream.dst_capacity - stream.dst_bytes;
    // libzstd allocates the window before it looks at a block, so no header may ask for more than a chunk's size.
    if (window_bytes(frame, content) > std::max<std::uint64_t>(most, kUsualWindow)) {
      scratch.frame.resize(most);
      std::size_t got = 0;
      HEADRACE_TRY(decode_whole(scratch, frame, at, scratch.frame, got, stream));
      got = std::min(got, room);
      std::memcpy(stream.dst + stream.dst_bytes, scratch.frame.data(), got);
      stream.dst_bytes += got;
      return {};
    }
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    ZSTD_inBuffer in{frame.data(), frame.size(), 0};
    ZSTD_outBuffer out{stream.dst + stream.dst_bytes, room, 0};
    for (std::size_t left = 1; left != 0 && out.pos < out.size;) {
      const std::size_t before = in.pos + out.pos;
      left = ZSTD_decompressStream(context, &out, &in);
      if (ZSTD_isError(left)) {
        return corrupt("zstd: frame at byte %zu: %s (%zu bytes expected at least)", at, ZSTD_getErrorName(left),
                       stream.dst_capacity);
      }
      if (left != 0 && in.pos + out.pos == before) return corrupt("zstd: frame at byte %zu is truncated", at);
    }
    stream.dst_bytes += out.pos;
    return {};
  }

  int level_;
  bool checksum_;
};

}  // namespace

Result<Codec> make_zstd(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  // numcodecs passes the level to the encoder, which clamps it; v3 specifies the valid levels.
  const bool bounded = context.zarr_format == 3;
  const std::int64_t level =
      reader.integer("level", Need::kOptional, bounded ? -131072 : INT32_MIN, bounded ? 22 : INT32_MAX);
  const bool checksum = reader.boolean("checksum", Need::kOptional);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ZstdCodec>(static_cast<int>(level), checksum));
}

}  // namespace headrace::codec

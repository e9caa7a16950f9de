// blosc: Blosc1 containers, decoded block by block without c-blosc.
//
// Iterating over the blocks here saves c-blosc's allocation per container, keeps one zstd and one deflate context for
// all blocks, and reads planes that did not compress directly from the container; c-blosc copies them to its scratch
// block before un-shuffling. Type size and inner codec come from the container, never from metadata.
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>

#include "base/json.h"
#include "blosc_encoder.h"
#include "blosc_header.h"
#include "blosc_inner.h"
#include "blosc_part.h"
#include "codec/config_reader.h"
#include "codec/stream_codec.h"
#include "codec/unshuffle.h"

namespace headrace::codec {
namespace {

using Filter = BloscHeader::Filter;
using Inner = BloscHeader::Inner;

constexpr std::uint32_t kZstdMagic = 0xFD2FB528;
constexpr std::size_t kSizeBytes = 4;
constexpr std::int64_t kMaxItemBytes = 255;

// Grows and never shrinks. A block is at most as large as the chunk's decoded size in the metadata.
class Buffer {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (bytes > capacity_) {
      bytes_.reset();
      capacity_ = 0;
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      capacity_ = bytes;
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
};

struct BloscScratch final : Scratch {
  BloscScratch() = default;
  ~BloscScratch() override {
    ZSTD_freeDCtx(zstd);
    libdeflate_free_decompressor(inflater);
  }
  BloscScratch(const BloscScratch&) = delete;
  BloscScratch& operator=(const BloscScratch&) = delete;

  Buffer block;               // filtered bytes of one block
  Buffer tile;                // for bit_unshuffle
  ZSTD_DCtx* zstd = nullptr;  // both created on first use
  libdeflate_decompressor* inflater = nullptr;
};

bool decode_zstd(BloscScratch& scratch, const std::byte* src, std::size_t src_bytes, std::byte* dst,
                 std::size_t dst_bytes) {
  if (scratch.zstd == nullptr) scratch.zstd = ZSTD_createDCtx();
  if (scratch.zstd == nullptr) throw std::bad_alloc();
  // Exactly one frame: no Blosc writes pre-1.0 formats or trailing bytes.
  if (src_bytes < kSizeBytes || blosc_u32(src) != kZstdMagic) return false;
  if (ZSTD_findFrameCompressedSize(src, src_bytes) != src_bytes) return false;
  return ZSTD_decompressDCtx(scratch.zstd, dst, dst_bytes, src, src_bytes) == dst_bytes;
}

bool decode_zlib(BloscScratch& scratch, const std::byte* src, std::size_t src_bytes, std::byte* dst,
                 std::size_t dst_bytes) {
  if (scratch.inflater == nullptr) scratch.inflater = libdeflate_alloc_decompressor();
  if (scratch.inflater == nullptr) throw std::bad_alloc();
  std::size_t in = 0, out = 0;
  const libdeflate_result result =
      libdeflate_zlib_decompress_ex(scratch.inflater, src, src_bytes, dst, dst_bytes, &in, &out);
  return result == LIBDEFLATE_SUCCESS && in == src_bytes && out == dst_bytes;
}

// Sizes are those of one split; the header check guarantees that they fit an int.
bool decode_inner(Inner inner, BloscScratch& scratch, const std::byte* src, std::size_t src_bytes, std::byte* dst,
                  std::size_t dst_bytes) {
  switch (inner) {
    case Inner::kBlosclz:
      return decode_blosclz(src, src_bytes, dst, dst_bytes);
    case Inner::kSnappy:
      return decode_snappy(src, src_bytes, dst, dst_bytes);
    case Inner::kZlib:
      return decode_zlib(scratch, src, src_bytes, dst, dst_bytes);
    case Inner::kZstd:
      return decode_zstd(scratch, src, src_bytes, dst, dst_bytes);
    case Inner::kLz4:
      break;
  }
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(src), reinterpret_cast<char*>(dst),
                                      static_cast<int>(src_bytes), static_cast<int>(dst_bytes));
  return got >= 0 && static_cast<std::size_t>(got) == dst_bytes;
}

class BloscCodec final : public StreamCodec {
 public:
  explicit BloscCodec(const BloscSettings& settings) : settings_(settings) {}
  std::string_view name() const noexcept override { return "blosc"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<BloscScratch>(); }
  Result<std::unique_ptr<Encoder>> make_encoder() const override { return make_blosc_encoder(settings_); }
  // c-blosc stores incompressible data, which adds 16 bytes. The default allowance for small chunks would dominate the
  // memory that reads pin.
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    return {decoded_bytes + decoded_bytes / 4 + 4096};
  }
  // A container says which inner codec it uses. The configuration only says what most containers use, and the device
  // reserves memory for that one.
  bool describe_for_device(device::DecodeStage& stage) const override {
    stage.codec = name();
    stage.parameters[0] = settings_.inner == Inner::kZstd ? 1 : settings_.inner == Inner::kZlib ? 2 : 0;
    return true;
  }
  bool has_decode_index() const noexcept override { return settings_.inner == Inner::kZstd; }
  std::size_t part_table_bytes() const noexcept override { return kBloscPartTableBytes; }
  bool cut(std::span<const std::byte> table, std::uint64_t stream_bytes, std::uint64_t begin, std::uint64_t end,
           std::span<std::byte> head, StreamPart& part) const noexcept override {
    return cut_blosc(table, stream_bytes, begin, end, head, part);
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override {
    const std::span<const std::byte> container(stream.src, stream.src_bytes);
    BloscHeader header;
    HEADRACE_TRY(parse_blosc_header(container, header));
    HEADRACE_TRY(check_size("blosc", header.decoded_bytes, stream));
    if (header.stored && header.decoded_bytes != 0) {
      std::memcpy(stream.dst, stream.src + BloscHeader::kBytes, header.decoded_bytes);
    }
    for (std::uint32_t i = 0; i < header.block_count; ++i) {
      HEADRACE_TRY(decode_block(header, container, i, stream.dst, *static_cast<BloscScratch*>(scratch)));
    }
    stream.dst_bytes = header.decoded_bytes;
    return {};
  }

 private:
  static Status decode_block(const BloscHeader& header, std::span<const std::byte> container, std::uint32_t index,
                             std::byte* dst, BloscScratch& scratch) {
    const std::uint32_t first = index * header.block_bytes;
    const std::uint32_t bytes = std::min(header.block_bytes, header.decoded_bytes - first);
    const std::uint32_t splits = header.splits(bytes);
    const std::uint32_t split_bytes = bytes / splits;
    if (bytes % splits != 0) {
      return corrupt("blosc: block %u of %u bytes cannot be split into %u", index, bytes, splits);
    }
    dst += first;
    // Less than one element: the filters do nothing.
    const Filter filter = bytes < header.item_bytes ? Filter::kNone : header.filter;
    std::byte* const decoded = filter == Filter::kNone ? dst : scratch.block.at_least(header.block_bytes);
    const std::byte* planes[BloscHeader::kMaxSplits];
    std::size_t at = blosc_u32(&container[BloscHeader::kBytes + kSizeBytes * std::size_t{index}]);
    for (std::uint32_t j = 0; j < splits; ++j) {
      if (container.size() - at < kSizeBytes) {
        return corrupt("blosc: split %u of block %u is beyond the container's end", j, index);
      }
      const std::uint32_t encoded_bytes = blosc_u32(&container[at]);
      at += kSizeBytes;
      if (encoded_bytes == 0 || encoded_bytes > container.size() - at) {
        return corrupt("blosc: split %u of block %u has %u bytes, %zu are left", j, index, encoded_bytes,
                       container.size() - at);
      }
      const std::byte* const encoded = container.data() + at;
      at += encoded_bytes;
      std::byte* const out = decoded + std::size_t{j} * split_bytes;
      planes[j] = out;
      if (encoded_bytes == split_bytes) {  // did not compress
        planes[j] = encoded;
        const bool read_in_place = filter == Filter::kShuffle || (filter == Filter::kBitShuffle && splits == 1);
        if (!read_in_place) std::memcpy(out, encoded, split_bytes);
      } else if (!decode_inner(header.inner, scratch, encoded, encoded_bytes, out, split_bytes)) {
        return corrupt("blosc: split %u of block %u is damaged", j, index);
      }
    }
    if (filter == Filter::kShuffle) {
      if (splits > 1) {
        unshuffle_planes(planes, header.item_bytes, split_bytes, dst);
      } else {
        unshuffle(planes[0], header.item_bytes, bytes, dst);
      }
    } else if (filter == Filter::kBitShuffle) {
      bit_unshuffle(splits > 1 ? decoded : planes[0], header.item_bytes, bytes, dst,
                    scratch.tile.at_least(bit_tile_bytes(header.item_bytes)));
    }
    return {};
  }

  BloscSettings settings_;  // not used for decoding on the CPU
};

int read_inner(ConfigReader& reader, Need need) {
  return reader.choice("cname", need, {"lz4", "zstd", "lz4hc", "blosclz", "zlib", "snappy"});
}

// `inner` comes from read_inner(); `shuffle` is numcodecs' number.
void set_inner_and_filter(int inner, std::int64_t shuffle, BloscSettings& settings) {
  settings.inner = inner == 1 ? Inner::kZstd : inner == 4 ? Inner::kZlib : Inner::kLz4;
  settings.filter = shuffle == 0 ? Filter::kNone : Filter::kShuffle;
  if (inner > 1) settings.refusal = "inner codecs other than lz4 and zstd";
  if (shuffle == 2) settings.refusal = "bitshuffle";
}

BloscSettings read_v3_form(ConfigReader& reader) {
  BloscSettings settings;
  const int inner = read_inner(reader, Need::kRequired);
  settings.level = static_cast<int>(reader.integer("clevel", Need::kRequired, 0, 9));
  const int shuffle = reader.choice("shuffle", Need::kRequired, {"noshuffle", "shuffle", "bitshuffle"});
  set_inner_and_filter(inner, shuffle, settings);
  // May exceed 255: writers give the element's width even if it is larger, and Blosc itself then stores 1.
  const std::int64_t item =
      reader.integer("typesize", shuffle == 0 ? Need::kOptional : Need::kRequired, 1, INT32_MAX, 1);
  settings.item_bytes = item > kMaxItemBytes ? 1 : static_cast<std::uint32_t>(item);
  settings.block_bytes = static_cast<std::uint32_t>(reader.integer("blocksize", Need::kOptional, 0, INT32_MAX));
  return settings;
}

// numcodecs omits settings that have their default value, and takes the type size from the array.
BloscSettings read_numcodecs_form(ConfigReader& reader, const CodecArgs& context) {
  BloscSettings settings;
  const int inner = read_inner(reader, Need::kOptional);
  settings.level = static_cast<int>(reader.integer("clevel", Need::kOptional, 0, 9, 5));
  set_inner_and_filter(inner, reader.integer("shuffle", Need::kOptional, -1, 2, 1), settings);
  settings.block_bytes = static_cast<std::uint32_t>(reader.integer("blocksize", Need::kOptional, 0, INT32_MAX));
  std::int64_t item = context.dtype != nullptr ? context.dtype->item_bytes : 1;
  const base::Json* typesize = reader.any("typesize", Need::kOptional);
  if (typesize != nullptr && !typesize->is_null()) {
    item = reader.integer("typesize", Need::kOptional, 1, INT32_MAX, item);
  }
  settings.item_bytes = item > kMaxItemBytes ? 1 : static_cast<std::uint32_t>(item);
  return settings;
}

}  // namespace

Result<Codec> make_blosc(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const BloscSettings settings = reader.numcodecs_form() ? read_numcodecs_form(reader, context) : read_v3_form(reader);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<BloscCodec>(settings));
}

}  // namespace headrace::codec

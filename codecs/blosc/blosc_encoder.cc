#include "blosc_encoder.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>
#include <span>
#include <string>

#include "codec/shuffle.h"

namespace headrace::codec {
namespace {

constexpr unsigned kVersion = 2, kInnerVersion = 1;
constexpr unsigned kFlagShuffle = 0x01, kFlagStored = 0x02, kFlagNoSplit = 0x10;
constexpr unsigned kInnerShift = 5;
constexpr std::size_t kWordBytes = 4;
constexpr std::size_t kMaxPlainBytes = INT_MAX - BloscHeader::kBytes;
// Blocks are decoded in parallel, and a plane of a split block of four-byte elements is one full LZ4 window. c-blosc's
// own choice for level 5 is between this and twice as much.
constexpr std::uint32_t kBlockBytes = 256 << 10;

void put_word(std::byte* at, std::size_t value) {
  for (std::size_t i = 0; i < kWordBytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

class BloscEncoder final : public Encoder {
 public:
  explicit BloscEncoder(const BloscSettings& settings) : settings_(settings) {
    if (settings.inner == BloscHeader::Inner::kZstd) {
      zstd_ = ZSTD_createCCtx();
      if (zstd_ == nullptr) throw std::bad_alloc();
      // Uses c-blosc's mapping of levels.
      const int level = settings.level == 9   ? ZSTD_maxCLevel()
                        : settings.level == 8 ? ZSTD_maxCLevel() - 2
                                              : 2 * settings.level - 1;
      ZSTD_CCtx_setParameter(zstd_, ZSTD_c_compressionLevel, level);
    }
  }
  ~BloscEncoder() override { ZSTD_freeCCtx(zstd_); }
  BloscEncoder(const BloscEncoder&) = delete;
  BloscEncoder& operator=(const BloscEncoder&) = delete;

  std::size_t bound_bytes(std::size_t plain_bytes) const override {
    // Incompressible data is stored. While compression is attempted, each block has a start and each split a length.
    const std::size_t blocks = plain_bytes / std::max<std::size_t>(block_bytes(plain_bytes), 1) + 1;
    return BloscHeader::kBytes + plain_bytes + blocks * kWordBytes * (1 + BloscHeader::kMaxSplits);
  }

  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    if (plain.size() > kMaxPlainBytes) {
      return Status(Code::kInvalidArgument, Layer::kCodec,
                    "blosc: a chunk of " + std::to_string(plain.size()) + " bytes is above the format's limit of " +
                        std::to_string(kMaxPlainBytes));
    }
    BloscHeader header = header_of(plain.size());
    std::size_t bytes = header.stored ? 0 : encode_blocks(header, plain, out);
    if (header.stored || bytes >= BloscHeader::kBytes + plain.size()) {
      header.stored = !plain.empty();
      bytes = BloscHeader::kBytes + plain.size();
      if (!plain.empty()) std::memcpy(out.data() + BloscHeader::kBytes, plain.data(), plain.size());
    }
    write_header(header, bytes, out.data());
    return bytes;
  }

 private:
  // A multiple of the element size, so that a block can be split into planes; the rest is a short block.
  std::size_t block_bytes(std::size_t plain_bytes) const {
    const std::size_t item = settings_.item_bytes;
    const std::size_t wanted = settings_.block_bytes != 0 ? settings_.block_bytes : kBlockBytes;
    const std::size_t block = std::min(std::max(wanted, item), plain_bytes);
    return block > item ? block / item * item : block;
  }

  BloscHeader header_of(std::size_t plain_bytes) const {
    BloscHeader header;
    header.inner = settings_.inner;
    header.filter = settings_.item_bytes > 1 ? settings_.filter : BloscHeader::Filter::kNone;
    header.item_bytes = settings_.item_bytes;
    header.decoded_bytes = static_cast<std::uint32_t>(plain_bytes);
    header.block_bytes = static_cast<std::uint32_t>(block_bytes(plain_bytes));
    header.stored = settings_.level == 0 || plain_bytes == 0;
    // lz4 benefits from separate planes because of its short window; zstd gains from seeing all of them.
    header.may_split = settings_.inner == BloscHeader::Inner::kLz4;
    return header;
  }

  std::size_t encode_blocks(const BloscHeader& header, std::span<const std::byte> plain, std::span<std::byte> out) {
    if (header.filter == BloscHeader::Filter::kShuffle && filtered_bytes_ < header.block_bytes) {
      filtered_ = std::make_unique_for_overwrite<std::byte[]>(header.block_bytes);
      filtered_bytes_ = header.block_bytes;
    }
    const std::size_t blocks = (plain.size() - 1) / header.block_bytes + 1;
    std::size_t at = BloscHeader::kBytes + kWordBytes * blocks;
    for (std::size_t i = 0; i < blocks; ++i) {
      put_word(&out[BloscHeader::kBytes + kWordBytes * i], at);
      const std::size_t first = i * header.block_bytes;
      const std::size_t bytes = std::min<std::size_t>(header.block_bytes, plain.size() - first);
      const std::byte* block = plain.data() + first;
      if (header.filter == BloscHeader::Filter::kShuffle && bytes >= header.item_bytes) {
        shuffle(block, header.item_bytes, bytes, filtered_.get());
        block = filtered_.get();
      }
      const std::size_t splits = header.splits(static_cast<std::uint32_t>(bytes));
      const std::size_t split_bytes = bytes / splits;
      for (std::size_t j = 0; j < splits; ++j) {
        const std::byte* const split = block + j * split_bytes;
        std::byte* const stream = &out[at + kWordBytes];
        std::size_t stream_bytes = encode_split(split, split_bytes, stream);
        if (stream_bytes == 0) {  // an encoded size equal to the plain size marks an unencoded split
          std::memcpy(stream, split, split_bytes);
          stream_bytes = split_bytes;
        }
        put_word(&out[at], stream_bytes);
        at += kWordBytes + stream_bytes;
      }
    }
    return at;
  }

  // Returns 0 if the result would not be shorter.
  std::size_t encode_split(const std::byte* plain, std::size_t plain_bytes, std::byte* out) {
    if (plain_bytes < 2) return 0;
    if (zstd_ != nullptr) {
      const std::size_t bytes = ZSTD_compress2(zstd_, out, plain_bytes - 1, plain, plain_bytes);
      return ZSTD_isError(bytes) ? 0 : bytes;
    }
    const int bytes =
        LZ4_compress_fast(reinterpret_cast<const char*>(plain), reinterpret_cast<char*>(out),
                          static_cast<int>(plain_bytes), static_cast<int>(plain_bytes - 1), 10 - settings_.level);
    return static_cast<std::size_t>(std::max(bytes, 0));
  }

  static void write_header(const BloscHeader& header, std::size_t bytes, std::byte* out) {
    const unsigned flags = (header.filter == BloscHeader::Filter::kShuffle ? kFlagShuffle : 0) |
                           (header.stored ? kFlagStored : 0) | (header.may_split ? 0 : kFlagNoSplit) |
                           static_cast<unsigned>(header.inner) << kInnerShift;
    out[0] = std::byte{kVersion};
    out[1] = std::byte{kInnerVersion};
    out[2] = static_cast<std::byte>(flags);
    out[3] = static_cast<std::byte>(header.item_bytes);
    put_word(out + 4, header.decoded_bytes);
    put_word(out + 8, header.block_bytes);
    put_word(out + 12, bytes);
  }

  BloscSettings settings_;
  ZSTD_CCtx* zstd_ = nullptr;
  std::unique_ptr<std::byte[]> filtered_;  // one block, shuffled
  std::size_t filtered_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_blosc_encoder(const BloscSettings& settings) {
  if (settings.refusal != nullptr) {
    return Status(Code::kUnsupported, Layer::kCodec,
                  std::string("codec 'blosc' has no encoder for ") + settings.refusal);
  }
  return std::unique_ptr<Encoder>(new BloscEncoder(settings));
}

}  // namespace headrace::codec

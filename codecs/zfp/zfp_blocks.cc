#include "zfp_blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>

#include "base/checked.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

constexpr unsigned kSide = 4;  // elements of a block along each axis
constexpr std::uint64_t kWordBytes = 8;
// Exceeds ZFP_MAX_BITS, the 2^15 that a header can declare, and the words that libzfp reads ahead.
constexpr std::uint64_t kMaxBlockBits = std::uint64_t{1} << 16;
constexpr std::size_t kPaddingWords = kMaxBlockBits / 64 + 8;

std::size_t decode_block(zfp_stream* zfp, std::int32_t* block, unsigned rank) {
  constexpr decltype(&zfp_decode_block_int32_1) kDecode[] = {&zfp_decode_block_int32_1, &zfp_decode_block_int32_2,
                                                             &zfp_decode_block_int32_3, &zfp_decode_block_int32_4};
  return kDecode[rank - 1](zfp, block);
}
std::size_t decode_block(zfp_stream* zfp, std::int64_t* block, unsigned rank) {
  constexpr decltype(&zfp_decode_block_int64_1) kDecode[] = {&zfp_decode_block_int64_1, &zfp_decode_block_int64_2,
                                                             &zfp_decode_block_int64_3, &zfp_decode_block_int64_4};
  return kDecode[rank - 1](zfp, block);
}
std::size_t decode_block(zfp_stream* zfp, float* block, unsigned rank) {
  constexpr decltype(&zfp_decode_block_float_1) kDecode[] = {&zfp_decode_block_float_1, &zfp_decode_block_float_2,
                                                             &zfp_decode_block_float_3, &zfp_decode_block_float_4};
  return kDecode[rank - 1](zfp, block);
}
std::size_t decode_block(zfp_stream* zfp, double* block, unsigned rank) {
  constexpr decltype(&zfp_decode_block_double_1) kDecode[] = {&zfp_decode_block_double_1, &zfp_decode_block_double_2,
                                                              &zfp_decode_block_double_3, &zfp_decode_block_double_4};
  return kDecode[rank - 1](zfp, block);
}

// Converts what libzfp decodes to the original element type. ["zfp codec", "Decompression"]
template <class To, class From>
To demote(From value) noexcept {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (sizeof(To) == sizeof(From)) {
    // Unsigned ones are stored unchanged, up to the largest signed value.
    return static_cast<To>(std::max<From>(value, 0));
  } else {
    constexpr int kBits = 8 * sizeof(To);
    const int shifted = (value >> (31 - kBits)) + (std::is_unsigned_v<To> ? 1 << (kBits - 1) : 0);
    return static_cast<To>(std::clamp<int>(shifted, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
  }
}

template <class From, class To>
Status decode_all(zfp_stream* zfp, std::uint64_t stream_bytes, const ZfpShape& shape, std::byte* out) {
  // Zeroed, so that elements missing from a block do not depend on the previous block.
  From block[kSide * kSide * kSide * kSide] = {};
  const auto& extent = shape.extent;
  const auto taken = [&](std::uint64_t begin, std::uint64_t size) {
    return std::min<std::uint64_t>(kSide, size - begin);
  };
  for (std::uint64_t w = 0; w < extent[3]; w += kSide) {
    for (std::uint64_t z = 0; z < extent[2]; z += kSide) {
      for (std::uint64_t y = 0; y < extent[1]; y += kSide) {
        for (std::uint64_t x = 0; x < extent[0]; x += kSide) {
          decode_block(zfp, block, shape.rank);
          const std::uint64_t position = stream_rtell(zfp_stream_bit_stream(zfp));
          if (position > 8 * stream_bytes) {
            return corrupt("zfp: stream of %llu bytes ends before its last block",
                           static_cast<unsigned long long>(stream_bytes));
          }
          const From* from = block;
          for (std::uint64_t l = 0; l < taken(w, extent[3]); ++l) {
            for (std::uint64_t k = 0; k < taken(z, extent[2]); ++k) {
              for (std::uint64_t j = 0; j < taken(y, extent[1]); ++j) {
                from = block + ((l * kSide + k) * kSide + j) * kSide;
                const std::uint64_t at = (((w + l) * extent[2] + z + k) * extent[1] + y + j) * extent[0] + x;
                for (std::uint64_t i = 0; i < taken(x, extent[0]); ++i) {
                  const To value = demote<To>(from[i]);
                  std::memcpy(out + (at + i) * sizeof(To), &value, sizeof value);
                }
              }
            }
          }
        }
      }
    }
  }
  const std::uint64_t position = stream_rtell(zfp_stream_bit_stream(zfp));
  const std::uint64_t used = base::ceil_div<std::uint64_t>(position, 8 * kWordBytes) * kWordBytes;
  if (used == stream_bytes) return {};
  return corrupt("zfp: %llu of the stream's %llu bytes are blocks; the rest is trailing data",
                 static_cast<unsigned long long>(used), static_cast<unsigned long long>(stream_bytes));
}

}  // namespace

unsigned width_bytes(ZfpNumber number) noexcept {
  switch (number) {
    case ZfpNumber::kInt8:
    case ZfpNumber::kUint8:
      return 1;
    case ZfpNumber::kInt16:
    case ZfpNumber::kUint16:
      return 2;
    case ZfpNumber::kInt32:
    case ZfpNumber::kUint32:
    case ZfpNumber::kFloat:
      return 4;
    default:
      return 8;
  }
}

zfp_type zfp_type_of(ZfpNumber number) noexcept {
  if (number == ZfpNumber::kFloat) return zfp_type_float;
  if (number == ZfpNumber::kDouble) return zfp_type_double;
  return width_bytes(number) == 8 ? zfp_type_int64 : zfp_type_int32;
}

bool zfp_parameters_bounded(const zfp_stream& zfp) noexcept {
  return zfp.minbits <= kMaxBlockBits && zfp.minbits <= zfp.maxbits && zfp.maxprec >= 1 && zfp.maxprec <= ZFP_MAX_PREC;
}

std::uint64_t zfp_most_bytes(const ZfpShape& shape, ZfpNumber number, std::uint64_t min_block_bits) noexcept {
  std::uint64_t blocks = 1, values = 1;
  for (unsigned i = 0; i < shape.rank; ++i) {
    blocks = base::checked_mul(blocks, base::ceil_div<std::uint64_t>(shape.extent[i], kSide)).value_or(1ull << 48);
    values *= kSide;
  }
  // The bits of each number plus one, then the header of each block.
  const std::uint64_t bytes = values * (width_bytes(number) == 8 ? 9 : 5) + 16;
  const auto total = base::checked_mul(blocks, std::max(bytes, min_block_bits / 8 + 1));
  return std::min<std::uint64_t>(total.value_or(1ull << 60), 1ull << 60) + 64;
}

ZfpScratch::ZfpScratch() : zfp(zfp_stream_open(nullptr)), field(zfp_field_alloc()) {
  if (zfp == nullptr || field == nullptr) {
    zfp_stream_close(zfp);
    zfp_field_free(field);
    throw std::bad_alloc();
  }
}

ZfpScratch::~ZfpScratch() {
  if (bits_ != nullptr) stream_close(bits_);
  zfp_field_free(field);
  zfp_stream_close(zfp);
}

void ZfpScratch::load(std::span<const std::byte> stream) {
  const std::size_t words = (stream.size() + kWordBytes - 1) / kWordBytes + kPaddingWords;
  if (words > words_.size()) {
    words_.resize(words);
    if (bits_ != nullptr) stream_close(bits_);
    bits_ = stream_open(words_.data(), words_.size() * kWordBytes);
    if (bits_ == nullptr) {
      words_.clear();
      throw std::bad_alloc();
    }
    zfp_stream_set_bit_stream(zfp, bits_);
  }
  std::memcpy(words_.data(), stream.data(), stream.size());
  auto* const bytes = reinterpret_cast<std::byte*>(words_.data());
  std::fill(bytes + stream.size(), bytes + words * kWordBytes, std::byte{0});
  zfp_stream_rewind(zfp);
}

Status decode_zfp_blocks(ZfpScratch& scratch, std::size_t stream_bytes, ZfpNumber number, const ZfpShape& shape,
                         std::byte* out) {
  zfp_stream* const zfp = scratch.zfp;
  switch (number) {
    case ZfpNumber::kInt8:
      return decode_all<std::int32_t, std::int8_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kUint8:
      return decode_all<std::int32_t, std::uint8_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kInt16:
      return decode_all<std::int32_t, std::int16_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kUint16:
      return decode_all<std::int32_t, std::uint16_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kInt32:
      return decode_all<std::int32_t, std::int32_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kUint32:
      return decode_all<std::int32_t, std::uint32_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kInt64:
      return decode_all<std::int64_t, std::int64_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kUint64:
      return decode_all<std::int64_t, std::uint64_t>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kFloat:
      return decode_all<float, float>(zfp, stream_bytes, shape, out);
    case ZfpNumber::kDouble:
      break;
  }
  return decode_all<double, double>(zfp, stream_bytes, shape, out);
}

}  // namespace headrace::codec

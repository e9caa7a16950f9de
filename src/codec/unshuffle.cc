#include "codec/unshuffle.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Loops over arrays of vectors must be unrolled to keep the arrays in registers: 7 times slower otherwise at -O2.
#if defined(__clang__)
#define HEADRACE_UNROLL _Pragma("unroll")
#else
#define HEADRACE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace headrace::codec {
namespace {

std::atomic<bool> g_portable{false};

void unshuffle_scalar(const std::byte* const* planes, std::size_t item_bytes, std::size_t first, std::size_t items,
                      std::byte* dst) {
  for (std::size_t i = first; i < items; ++i) {
    for (std::size_t j = 0; j < item_bytes; ++j) dst[i * item_bytes + j] = planes[j][i];
  }
}

// Transposes the 8 x 8 bits of a word whose byte r, bit c is the bit at row r, column c.
constexpr std::uint64_t transpose_8x8(std::uint64_t x) {
  std::uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAULL;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCULL;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ULL;
  return x ^ t ^ (t << 28);
}

// Assembles one byte plane of 8 * columns elements from its 8 rows of bits.
void gather_bits_scalar(const std::byte* rows, std::size_t row_bytes, std::size_t columns, std::byte* plane) {
  for (std::size_t c = 0; c < columns; ++c) {
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      word |= static_cast<std::uint64_t>(rows[k * row_bytes + c]) << (8 * k);
    }
    word = transpose_8x8(word);
    for (std::size_t e = 0; e < 8; ++e) plane[8 * c + e] = static_cast<std::byte>(word >> (8 * e));
  }
}

#if defined(__x86_64__)

bool have_avx2() {
  static const bool yes = __builtin_cpu_supports("avx2");
  return yes;
}

__m128i load128(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void store128(std::byte* to, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value); }

// out[i] byte j = in[j] byte i.
inline void transpose_16x16(__m128i (&v)[16]) {
  __m128i w[16];
  // Four rounds, each interleaving row i with row i + 8: a perfect shuffle of the 8 index bits, one bit per round.
  HEADRACE_UNROLL
  for (int round = 0; round < 4; ++round) {
    HEADRACE_UNROLL
    for (int i = 0; i < 8; ++i) {
      w[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 8]);
      w[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 8]);
    }
    HEADRACE_UNROLL
    for (int i = 0; i < 16; ++i) v[i] = w[i];
  }
}

// Elements of up to 16 bytes. Each is stored as 16 bytes, whose excess the next one overwrites, so the loop stops while
// there is still room for the excess. Returns the number of elements done.
std::size_t unshuffle_narrow_sse2(const std::byte* const* planes, std::size_t item_bytes, std::size_t items,
                                  std::byte* dst) {
  const std::size_t total = item_bytes * items;
  std::size_t i = 0;
  for (; i + 16 <= items && (i + 15) * item_bytes + 16 <= total; i += 16) {
    __m128i v[16];
    HEADRACE_UNROLL
    for (std::size_t j = 0; j < 16; ++j) v[j] = j < item_bytes ? load128(planes[j] + i) : _mm_setzero_si128();
    transpose_16x16(v);
    HEADRACE_UNROLL
    for (std::size_t e = 0; e < 16; ++e) store128(dst + (i + e) * item_bytes, v[e]);
  }
  return i;
}

// Elements wider than 16 bytes: tiles of 16 planes, the last one overlapping its neighbour.
std::size_t unshuffle_wide_sse2(const std::byte* const* planes, std::size_t item_bytes, std::size_t items,
                                std::byte* dst) {
  std::size_t i = 0;
  for (; i + 16 <= items; i += 16) {
    for (std::size_t j = 0; j < item_bytes; j += 16) {
      const std::size_t first = j + 16 <= item_bytes ? j : item_bytes - 16;
      __m128i v[16];
      HEADRACE_UNROLL
      for (std::size_t k = 0; k < 16; ++k) v[k] = load128(planes[first + k] + i);
      transpose_16x16(v);
      HEADRACE_UNROLL
      for (std::size_t e = 0; e < 16; ++e) store128(dst + (i + e) * item_bytes + first, v[e]);
    }
  }
  return i;
}

std::size_t unshuffle2_sse2(const std::byte* const* planes, std::size_t items, std::byte* dst) {
  std::size_t i = 0;
  for (; i + 16 <= items; i += 16) {
    const __m128i a = load128(planes[0] + i), b = load128(planes[1] + i);
    store128(dst + 2 * i, _mm_unpacklo_epi8(a, b));
    store128(dst + 2 * i + 16, _mm_unpackhi_epi8(a, b));
  }
  return i;
}

std::size_t unshuffle4_sse2(const std::byte* const* planes, std::size_t items, std::byte* dst) {
  std::size_t i = 0;
  for (; i + 16 <= items; i += 16) {
    const __m128i a = load128(planes[0] + i), b = load128(planes[1] + i);
    const __m128i c = load128(planes[2] + i), d = load128(planes[3] + i);
    const __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
    const __m128i cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
    store128(dst + 4 * i, _mm_unpacklo_epi16(ab0, cd0));
    store128(dst + 4 * i + 16, _mm_unpackhi_epi16(ab0, cd0));
    store128(dst + 4 * i + 32, _mm_unpacklo_epi16(ab1, cd1));
    store128(dst + 4 * i + 48, _mm_unpackhi_epi16(ab1, cd1));
  }
  return i;
}

#define HEADRACE_AVX2 [[gnu::target("avx2")]]

HEADRACE_AVX2 inline __m256i load256(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
HEADRACE_AVX2 inline void store256(std::byte* to, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}

HEADRACE_AVX2 std::size_t unshuffle2_avx2(const std::byte* const* planes, std::size_t items, std::byte* dst) {
  std::size_t i = 0;
  for (; i + 32 <= items; i += 32) {
    const __m256i a = _mm256_permute4x64_epi64(load256(planes[0] + i), 0xd8);
    const __m256i b = _mm256_permute4x64_epi64(load256(planes[1] + i), 0xd8);
    store256(dst + 2 * i, _mm256_unpacklo_epi8(a, b));
    store256(dst + 2 * i + 32, _mm256_unpackhi_epi8(a, b));
  }
  return i;
}

HEADRACE_AVX2 std::size_t unshuffle4_avx2(const std::byte* const* planes, std::size_t items, std::byte* dst) {
  std::size_t i = 0;
  for (; i + 32 <= items; i += 32) {
    const __m256i a = load256(planes[0] + i), b = load256(planes[1] + i);
    const __m256i c = load256(planes[2] + i), d = load256(planes[3] + i);
    const __m256i ab0 = _mm256_unpacklo_epi8(a, b), ab1 = _mm256_unpackhi_epi8(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi8(c, d), cd1 = _mm256_unpackhi_epi8(c, d);
    const __m256i w0 = _mm256_unpacklo_epi16(ab0, cd0), w1 = _mm256_unpackhi_epi16(ab0, cd0);
    const __m256i w2 = _mm256_unpacklo_epi16(ab1, cd1), w3 = _mm256_unpackhi_epi16(ab1, cd1);
    store256(dst + 4 * i, _mm256_permute2x128_si256(w0, w1, 0x20));
    store256(dst + 4 * i + 32, _mm256_permute2x128_si256(w2, w3, 0x20));
    store256(dst + 4 * i + 64, _mm256_permute2x128_si256(w0, w1, 0x31));
    store256(dst + 4 * i + 96, _mm256_permute2x128_si256(w2, w3, 0x31));
  }
  return i;
}

// Interleaves byte j of eight rows into eight adjacent bytes, within each half.
HEADRACE_AVX2 inline void interleave_8_avx2(__m256i* v) {
  __m256i w[8];
  HEADRACE_UNROLL
  for (int round = 0; round < 3; ++round) {
    HEADRACE_UNROLL
    for (int j = 0; j < 4; ++j) {
      w[2 * j] = _mm256_unpacklo_epi8(v[j], v[j + 4]);
      w[2 * j + 1] = _mm256_unpackhi_epi8(v[j], v[j + 4]);
    }
    HEADRACE_UNROLL
    for (int j = 0; j < 8; ++j) v[j] = w[j];
  }
}

HEADRACE_AVX2 std::size_t unshuffle8_avx2(const std::byte* const* planes, std::size_t items, std::byte* dst) {
  std::size_t i = 0;
  for (; i + 32 <= items; i += 32) {
    __m256i v[8];
    HEADRACE_UNROLL
    for (int j = 0; j < 8; ++j) v[j] = load256(planes[j] + i);
    interleave_8_avx2(v);
    // v[m] holds elements 2 m, 2 m + 1 in its low half and 16 + those in its high half.
    HEADRACE_UNROLL
    for (int m = 0; m < 4; ++m) {
      store256(dst + 8 * i + 32 * m, _mm256_permute2x128_si256(v[2 * m], v[2 * m + 1], 0x20));
      store256(dst + 8 * i + 128 + 32 * m, _mm256_permute2x128_si256(v[2 * m], v[2 * m + 1], 0x31));
    }
  }
  return i;
}

HEADRACE_AVX2 inline __m256i transpose_8x8_avx2(__m256i x) {
  __m256i t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 7)), _mm256_set1_epi64x(0x00AA00AA00AA00AALL));
  x = _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi64(t, 7));
  t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 14)), _mm256_set1_epi64x(0x0000CCCC0000CCCCLL));
  x = _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi64(t, 14));
  t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 28)), _mm256_set1_epi64x(0x00000000F0F0F0F0LL));
  return _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi64(t, 28));
}

// 256 elements: 32 columns of 8 rows.
HEADRACE_AVX2 void gather_bits_avx2(const std::byte* rows, std::size_t row_bytes, std::byte* plane) {
  __m256i v[8];
  HEADRACE_UNROLL
  for (std::size_t k = 0; k < 8; ++k) v[k] = load256(rows + k * row_bytes);
  interleave_8_avx2(v);
  HEADRACE_UNROLL
  for (int j = 0; j < 8; ++j) v[j] = transpose_8x8_avx2(v[j]);
  HEADRACE_UNROLL
  for (int m = 0; m < 4; ++m) {
    store256(plane + 32 * m, _mm256_permute2x128_si256(v[2 * m], v[2 * m + 1], 0x20));
    store256(plane + 128 + 32 * m, _mm256_permute2x128_si256(v[2 * m], v[2 * m + 1], 0x31));
  }
}

std::size_t unshuffle_vector(const std::byte* const* planes, std::size_t item_bytes, std::size_t items,
                             std::byte* dst) {
  const bool avx2 = have_avx2();
  switch (item_bytes) {
    case 2:
      return avx2 ? unshuffle2_avx2(planes, items, dst) : unshuffle2_sse2(planes, items, dst);
    case 4:
      return avx2 ? unshuffle4_avx2(planes, items, dst) : unshuffle4_sse2(planes, items, dst);
    case 8:
      if (avx2) return unshuffle8_avx2(planes, items, dst);
      [[fallthrough]];
    default:
      return item_bytes <= 16 ? unshuffle_narrow_sse2(planes, item_bytes, items, dst)
                              : unshuffle_wide_sse2(planes, item_bytes, items, dst);
  }
}

#endif  // __x86_64__

}  // namespace

void internal::force_portable_unshuffle(bool portable) noexcept { g_portable.store(portable); }

void unshuffle_planes(const std::byte* const* planes, std::size_t item_bytes, std::size_t items, std::byte* dst) {
  if (item_bytes == 1) {
    if (items != 0) std::memcpy(dst, planes[0], items);
    return;
  }
  std::size_t done = 0;
#if defined(__x86_64__)
  if (!g_portable.load(std::memory_order_relaxed)) done = unshuffle_vector(planes, item_bytes, items, dst);
#endif
  unshuffle_scalar(planes, item_bytes, done, items, dst);
}

void unshuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst) {
  const std::size_t items = bytes / item_bytes;
  const std::size_t whole = items * item_bytes;
  if (item_bytes <= 256) {
    const std::byte* planes[256];
    for (std::size_t j = 0; j < item_bytes; ++j) planes[j] = src + j * items;
    unshuffle_planes(planes, item_bytes, items, dst);
  } else {
    for (std::size_t i = 0; i < items; ++i) {
      for (std::size_t j = 0; j < item_bytes; ++j) dst[i * item_bytes + j] = src[j * items + i];
    }
  }
  if (whole < bytes) std::memcpy(dst + whole, src + whole, bytes - whole);
}

void bit_unshuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst, std::byte* tile) {
  const std::size_t items = bytes / item_bytes;
  const std::size_t whole = items * item_bytes;
  if (items % 8 != 0) {
    std::memcpy(dst, src, bytes);
    return;
  }
  const std::size_t row_bytes = items / 8;
  const std::byte* planes[256];
  for (std::size_t j = 0; j < item_bytes; ++j) planes[j] = tile + j * kBitTileItems;
#if defined(__x86_64__)
  const bool vector = !g_portable.load(std::memory_order_relaxed) && have_avx2();
#endif
  for (std::size_t first = 0; first < items; first += kBitTileItems) {
    const std::size_t count = items - first < kBitTileItems ? items - first : kBitTileItems;
    for (std::size_t j = 0; j < item_bytes; ++j) {
      const std::byte* rows = src + 8 * j * row_bytes + first / 8;
      std::byte* plane = tile + j * kBitTileItems;
#if defined(__x86_64__)
      if (vector && count == kBitTileItems) {
        gather_bits_avx2(rows, row_bytes, plane);
        continue;
      }
#endif
      gather_bits_scalar(rows, row_bytes, count / 8, plane);
    }
    unshuffle_planes(planes, item_bytes, count, dst + first * item_bytes);
  }
  if (whole < bytes) std::memcpy(dst + whole, src + whole, bytes - whole);
}

}  // namespace headrace::codec

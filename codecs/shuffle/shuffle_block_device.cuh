// Shared by all the un-shuffles: a block, the positions of its planes, and loads that stay inside of them. Device code
// without a CUDA header.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define HEADRACE_SHUFFLE_UNROLL _Pragma("unroll")
#else
#define HEADRACE_SHUFFLE_UNROLL
#endif

namespace headrace::codec::gpu::shuffle {

using Byte = unsigned char;
using U64 = unsigned long long;

enum class Filter : std::uint32_t { kNone, kBytes, kBits };

constexpr unsigned kTileBytes = 16384;
constexpr unsigned kMaxWidth = 255;
constexpr unsigned kThreads = 256;      // per thread block
constexpr unsigned kPlanePadWords = 1;  // see Tile

// Elements in a tile: a multiple of 32, so that tiles of bits consist of whole words.
__host__ __device__ constexpr unsigned tile_items(unsigned width) { return kTileBytes / width / 32 * 32; }
__host__ __device__ constexpr unsigned tile_bytes(unsigned width) { return tile_items(width) * width; }

// The unit that was filtered: a Blosc block, or a chunk.
struct Block {
  const Byte* src = nullptr;            // the planes one after the other, then the bytes of an incomplete last element
  const Byte* const* planes = nullptr;  // or a pointer per plane, in shared memory; bytes is then width * plane length
  const bool* skip = nullptr;           // with planes and no filter: those that are already in dst
  Byte* dst = nullptr;
  U64 bytes = 0;
  unsigned width = 1;  // 1..255
  Filter filter = Filter::kNone;
};

__device__ inline const Byte* plane_of(const Block& block, U64 plane_bytes, unsigned j) {
  return block.planes != nullptr ? block.planes[j] : block.src + j * plane_bytes;
}

template <class T>
__device__ inline unsigned skew(const T* at) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at));
}

// Loads four bytes of any alignment. REQUIRES: these, and up to 3 bytes before and 7 after `at`, are readable.
__device__ inline unsigned load4_inside(const Byte* at) {
  const unsigned shift = skew(at) % 4;
  const unsigned* words = reinterpret_cast<const unsigned*>(at - shift);
  return shift == 0 ? words[0] : __funnelshift_r(words[0], words[1], shift * 8);
}

// The bytes in [at, at + 4) that lie before `end`; the others are 0. REQUIRES: begin <= at < end.
__device__ inline unsigned load4(const Byte* at, const Byte* begin, const Byte* end) {
  const unsigned shift = skew(at) % 4;
  if (at - begin >= shift && end - at >= 8 - static_cast<int>(shift)) return load4_inside(at);
  unsigned word = 0;
  for (unsigned k = 0; k < 4 && at + k < end; ++k) word |= static_cast<unsigned>(at[k]) << (8 * k);
  return word;
}

}  // namespace headrace::codec::gpu::shuffle

// Device code of the un-shuffles: bytes, Blosc's bits, and the plain copy of unfiltered data.
//
// Included by shuffle_stage.cu, by Blosc's stage, and by tests that run it on the CPU. src/codec/unshuffle.h defines
// the filters: plane j holds byte j of every element; rows 8 j .. 8 j + 7 hold its bits.
//
// A thread block processes a tile of at most 16 KiB. Elements of 2, 4 and 8 bytes are joined in registers, from the
// planes to 16-byte stores. Everything else goes through shared memory: planes are loaded in words, bits are transposed
// eight rows at a time, and the elements are assembled from there. Each way is a separate kernel: in a single one, all
// would need the registers of the largest, and spill.
//
// Planes and dst may have any alignment. No load crosses the edge of a plane, not even within a word, as the next page
// may be unmapped.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/gpu_stage.h"
#include "shuffle_shared_device.cuh"

namespace headrace::codec::gpu::shuffle {

// ---- copy ----

// Copies units of 16 bytes that begin 4 * kWords + shift bytes after an aligned address.
template <unsigned kWords>
__device__ inline void copy_shifted(uint4* to, const uint4* from, U64 units, unsigned shift, unsigned thread,
                                    unsigned threads) {
  constexpr unsigned kBatch = 2;
  for (U64 i = thread; i < units; i += kBatch * threads) {
    uint4 low[kBatch], high[kBatch];
    HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < kBatch; ++k) {
      // No branch, so that the loads are issued together.
      const U64 at = i + k * threads < units ? i + k * threads : units - 1;
      low[k] = from[at];
      high[k] = from[at + 1];
    }
    HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < kBatch; ++k) {
      const U64 at = i + k * threads;
      if (at >= units) break;
      const unsigned w[8] = {low[k].x, low[k].y, low[k].z, low[k].w, high[k].x, high[k].y, high[k].z, high[k].w};
      to[at] = make_uint4(__funnelshift_r(w[kWords], w[kWords + 1], shift * 8),
                          __funnelshift_r(w[kWords + 1], w[kWords + 2], shift * 8),
                          __funnelshift_r(w[kWords + 2], w[kWords + 3], shift * 8),
                          __funnelshift_r(w[kWords + 3], w[kWords + 4], shift * 8));
    }
  }
}

// Copies bytes of any alignment, by a thread block.
__device__ inline void block_copy(Byte* dst, const Byte* src, U64 bytes, unsigned thread, unsigned threads) {
  // Copies single bytes until dst is aligned and the aligned 16 bytes that contain src are inside the source.
  unsigned head = (16 - skew(dst) % 16) % 16;
  const unsigned off = (skew(src) + head) % 16;
  if (head < off) head += 16;
  if (bytes < head + 32) {
    for (U64 i = thread; i < bytes; i += threads) dst[i] = src[i];
    return;
  }
  for (unsigned i = thread; i < head; i += threads) dst[i] = src[i];
  uint4* to = reinterpret_cast<uint4*>(dst + head);
  const uint4* from = reinterpret_cast<const uint4*>(src + head - off);
  U64 units = (bytes - head) / 16;
  if (off == 0) {
    U64 i = thread;
    for (; i + 3 * threads < units; i += 4 * threads) {
      const uint4 a = from[i], b = from[i + threads], c = from[i + 2 * threads], d = from[i + 3 * threads];
      to[i] = a;
      to[i + threads] = b;
      to[i + 2 * threads] = c;
      to[i + 3 * threads] = d;
    }
    for (; i < units; i += threads) to[i] = from[i];
  } else {
    --units;  // its second aligned 16 bytes may reach past the end
    const unsigned shift = off % 4;
    switch (off / 4) {
      case 0:
        copy_shifted<0>(to, from, units, shift, thread, threads);
        break;
      case 1:
        copy_shifted<1>(to, from, units, shift, thread, threads);
        break;
      case 2:
        copy_shifted<2>(to, from, units, shift, thread, threads);
        break;
      default:
        copy_shifted<3>(to, from, units, shift, thread, threads);
    }
  }
  for (U64 i = head + units * 16 + thread; i < bytes; i += threads) dst[i] = src[i];
}

// Copies bytes [first, last) of a block, whose planes may be separate.
__device__ inline void copy_parts(const Block& block, U64 first, U64 last, unsigned thread, unsigned threads) {
  if (block.planes == nullptr) {
    block_copy(block.dst + first, block.src + first, last - first, thread, threads);
    return;
  }
  const U64 part = block.bytes / block.width;
  for (unsigned j = 0; j < block.width; ++j) {
    const U64 begin = j * part > first ? j * part : first, end = (j + 1) * part < last ? (j + 1) * part : last;
    if (begin >= end || (block.skip != nullptr && block.skip[j])) continue;
    block_copy(block.dst + begin, block.planes[j] + (begin - j * part), end - begin, thread, threads);
  }
}

// ---- a tile ----

// The kernels that undo a filter.
enum class UnshuffleWay : std::uint32_t { kCopy, kTwo, kFour, kEight, kBits, kAny };
constexpr unsigned kPaths = 6;

// The fastest way that can process every block of block_bytes, with the blocks adjacent in dst.
__host__ __device__ inline UnshuffleWay path_of(Filter filter, unsigned width, const Byte* dst, U64 block_bytes) {
  if (filter == Filter::kNone || (filter == Filter::kBytes && width == 1)) return UnshuffleWay::kCopy;
  if (filter == Filter::kBits) return UnshuffleWay::kBits;
  if ((reinterpret_cast<std::uintptr_t>(dst) | block_bytes) % width != 0) return UnshuffleWay::kAny;
  return width == 2   ? UnshuffleWay::kTwo
         : width == 4 ? UnshuffleWay::kFour
         : width == 8 ? UnshuffleWay::kEight
                      : UnshuffleWay::kAny;
}
template <UnshuffleWay kPath>
constexpr unsigned kSharedWords =
    kPath == UnshuffleWay::kBits || kPath == UnshuffleWay::kAny ? kTileBytes / 4 + kMaxWidth* kPlanePadWords : 1;
// Calls work(std::integral_constant<UnshuffleWay, path>()).
template <class Work>
void with_path(UnshuffleWay path, const Work& work) {
  switch (path) {
    case UnshuffleWay::kCopy:
      return work(std::integral_constant<UnshuffleWay, UnshuffleWay::kCopy>());
    case UnshuffleWay::kTwo:
      return work(std::integral_constant<UnshuffleWay, UnshuffleWay::kTwo>());
    case UnshuffleWay::kFour:
      return work(std::integral_constant<UnshuffleWay, UnshuffleWay::kFour>());
    case UnshuffleWay::kEight:
      return work(std::integral_constant<UnshuffleWay, UnshuffleWay::kEight>());
    case UnshuffleWay::kBits:
      return work(std::integral_constant<UnshuffleWay, UnshuffleWay::kBits>());
    case UnshuffleWay::kAny:
      return work(std::integral_constant<UnshuffleWay, UnshuffleWay::kAny>());
  }
}
// Resident thread blocks per multiprocessor, given the registers that a path needs.
constexpr unsigned blocks_per_unit(UnshuffleWay path) {
  return path == UnshuffleWay::kTwo || path == UnshuffleWay::kFour ? 6 : 5;
}

// Un-filters bytes [tile * tile_bytes(width), ...) of the block, by a whole thread block. `shared` has
// kSharedWords<kPath>. REQUIRES: path_of() returned this path, possibly for an aligned dst; every thread of the block
// calls this with the same arguments.
template <UnshuffleWay kPath>
__device__ inline void unfilter_tile(const Block& block, U64 tile, unsigned* shared, unsigned thread,
                                     unsigned threads) {
  const unsigned width = block.width, most = tile_items(width);
  const U64 first_byte = tile * tile_bytes(width);
  if (first_byte >= block.bytes) return;
  const U64 last_byte = block.bytes - first_byte < tile_bytes(width) ? block.bytes : first_byte + tile_bytes(width);
  if constexpr (kPath == UnshuffleWay::kCopy) {
    copy_parts(block, first_byte, last_byte, thread, threads);
    return;
  }
  const U64 items = block.bytes <= 0xffffffffu ? static_cast<unsigned>(block.bytes) / width : block.bytes / width;
  if (kPath == UnshuffleWay::kBits && items % 8 != 0) {  // Blosc leaves such a block unfiltered
    copy_parts(block, first_byte, last_byte, thread, threads);
    return;
  }
  const U64 first = tile * most;
  const U64 last = items - first < most ? items : first + most;
  const U64 whole = items * width;
  if (last_byte > whole) {  // bytes after the last whole element; a block in planes has none
    const U64 from = first_byte > whole ? first_byte : whole;
    for (U64 i = from + thread; i < last_byte; i += threads) block.dst[i] = block.src[i];
  }
  if (first >= items) return;
  if constexpr (kPath == UnshuffleWay::kTwo) {
    register_tile<2>(block, items, first, last, thread, threads);
  } else if constexpr (kPath == UnshuffleWay::kFour) {
    register_tile<4>(block, items, first, last, thread, threads);
  } else if constexpr (kPath == UnshuffleWay::kEight) {
    register_tile<8>(block, items, first, last, thread, threads);
  } else {
    const unsigned count = static_cast<unsigned>(last - first);
    const Tile<kPath == UnshuffleWay::kBits> shared_tile{shared, most / 4 + kPlanePadWords};
    __syncthreads();  // all threads have read the previous tile
    if constexpr (kPath == UnshuffleWay::kBits) {
      fetch_bits(block, items, first, count, shared_tile, thread, threads);
    } else {
      fetch_bytes(block, items, first, count, shared_tile, thread, threads);
    }
    __syncthreads();
    store_items(shared_tile, width, count, block.dst + first * width, thread, threads);
  }
}

// ---- outcomes ----

constexpr U64 kFine = ~U64{0};

// DecodeOutcome::pack() on the device.
__device__ inline U64 outcome_word(unsigned stage, U64 position, device::DecodeReason reason) {
  constexpr U64 kMax = (U64{1} << 44) - 1;
  return static_cast<U64>(stage & 15) << 52 | (position < kMax ? position : kMax) << 8 | static_cast<U64>(reason);
}
// The lowest outcome of a chunk wins, which is its first error.
__device__ inline void lower_outcome(std::uint64_t* outcomes, unsigned chunk, U64 word) {
  atomicMin(reinterpret_cast<U64*>(outcomes + chunk), word);
}

// This thread block's share [first, last) of `total` tiles. Its tiles are adjacent, so that one lookup serves many.
struct Share {
  U64 first, last;
};
__device__ inline Share share_of(U64 total, unsigned index, unsigned count) {
  const U64 each = total / count, more = total % count;
  const U64 first = index * each + (index < more ? index : more);
  return {first, first + each + (index < more ? 1 : 0)};
}

// ---- numcodecs' shuffle: each chunk is one block ----

struct ChunksJob {
  device::gpu::Chunk* chunks = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned count = 0;
  U64 tiles_per_chunk = 1;
  unsigned width = 1;
  bool exact = true;
  unsigned stage = 0;
};

template <UnshuffleWay kPath>
__device__ inline void unshuffle_chunks_body(const ChunksJob& job, unsigned* shared) {
  using device::DecodeReason;
  const Share share = share_of(job.count * job.tiles_per_chunk, blockIdx.x, gridDim.x);
  for (U64 t = share.first; t < share.last; ++t) {
    const unsigned i = static_cast<unsigned>(t / job.tiles_per_chunk);
    const U64 tile = t - i * job.tiles_per_chunk;
    const device::gpu::Chunk chunk = job.chunks[i];
    // Each tile computes the verdict itself, from values that no other tile changes.
    const DecodeReason wrong = chunk.src_bytes == 0 ? DecodeReason::kTruncated
                               : (job.exact ? chunk.src_bytes != chunk.dst_bytes : chunk.src_bytes > chunk.dst_bytes)
                                   ? DecodeReason::kWrongSize
                               : job.width > 1 && chunk.src_bytes % job.width != 0 ? DecodeReason::kLength
                                                                                   : DecodeReason::kNone;
    if (wrong != DecodeReason::kNone) {
      if (tile == 0 && threadIdx.x == 0) lower_outcome(job.outcomes, i, outcome_word(job.stage, 0, wrong));
      continue;
    }
    if (job.outcomes[i] != kFine) continue;
    if (tile == 0 && threadIdx.x == 0 && !job.exact) job.chunks[i].dst_bytes = chunk.src_bytes;
    Block block;
    block.src = chunk.src;
    block.dst = chunk.dst;
    block.bytes = chunk.src_bytes;
    block.width = job.width;
    block.filter = Filter::kBytes;
    unfilter_tile<kPath>(block, tile, shared, threadIdx.x, blockDim.x);
  }
}

}  // namespace headrace::codec::gpu::shuffle

// Running sums over a list, by one thread block or by all of a launch. Device code without a CUDA header.
#pragma once

#include <cstdint>
#include <cstring>

namespace headrace::codec::gpu::lz77 {

// `value` after each of its words went through `exchange`, a shuffle. T is trivially copyable, a whole number of words.
template <class T, class Exchange>
__device__ inline T exchange_words(const T& value, const Exchange& exchange) {
  static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
  std::uint32_t words[sizeof(T) / sizeof(std::uint32_t)];
  std::memcpy(words, &value, sizeof(T));
  for (std::uint32_t& word : words) word = exchange(word);
  T out;
  std::memcpy(&out, words, sizeof(T));
  return out;
}
template <class T>
__device__ inline T from_lane_below(const T& value, unsigned delta) {
  return exchange_words(value, [delta](std::uint32_t word) { return __shfl_up_sync(0xFFFFFFFF, word, delta); });
}
template <class T>
__device__ inline T from_lane(const T& value, unsigned lane) {
  return exchange_words(value, [lane](std::uint32_t word) { return __shfl_sync(0xFFFFFFFF, word, lane); });
}

// One part of a running sum: what this thread's kEach neighbours, from `first` on, add up to is in `held`. Returns the
// sum before the thread's first one, without earlier parts; `all` is the part's sum. By all threads of a block of whole
// warps; `shared` has an entry for each warp.
template <unsigned kEach, class T, class Get>
__device__ inline T scan_part(std::uint32_t first, std::uint32_t count, T* shared, const Get& get, T (&held)[kEach],
                              T& all) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T upto{};
  for (unsigned k = 0; k < kEach; ++k) held[k] = first + k < count ? get(first + k) : T{};
  for (unsigned k = 0; k < kEach; ++k) upto += held[k];
  for (unsigned step = 1; step < 32; step *= 2) {
    const T below = from_lane_below(upto, step);
    if (lane >= step) upto += below;
  }
  __syncthreads();  // the warps' sums of the part before have been read
  if (lane == 31) shared[warp] = upto;
  __syncthreads();
  T at{};
  all = T{};
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    if (w == warp) at = all;
    all += shared[w];
  }
  const T below = from_lane_below(upto, 1);
  if (lane != 0) at += below;
  return at;
}

// put(i, sum of get(k) for all k < i) for each i < count; returns the sum of all. T{} is zero, and T has +=. Called by
// all threads of a block of whole warps; `shared` has an entry for each warp. A thread loads several neighbours before
// it uses the first, and calls get(i) before put(i) of the same i.
template <class T, class Get, class Put>
__device__ inline T scan_by_block(std::uint32_t count, T* shared, const Get& get, const Put& put) {
  constexpr unsigned kEach = 8;
  T before{};
  for (std::uint32_t base = 0; base < count; base += blockDim.x * kEach) {
    const std::uint32_t first = base + threadIdx.x * kEach;
    T held[kEach], all;
    T at = before;
    at += scan_part(first, count, shared, get, held, all);
    for (unsigned k = 0; k < kEach; ++k) {
      if (first + k < count) put(first + k, at);
      at += held[k];
    }
    before += all;
  }
  return before;
}

// How scan_by_blocks() divides a list.
inline constexpr unsigned kScanTileThreads = 256, kScanTileEach = 4, kScanTile = kScanTileThreads * kScanTileEach;
__host__ __device__ constexpr std::uint64_t scan_tiles(std::uint64_t count) { return count / kScanTile + 1; }

// What thread blocks that scan one list tell each other. In device memory, zeroed before the launch.
template <class T>
struct ScanTile {
  std::uint32_t done;    // `sum` is valid
  std::uint32_t ticket;  // of the first tile only: tiles that have been handed out
  T sum;                 // of this tile
};

template <class T>
struct ScanShared {
  T warps[kScanTileThreads / 32];
  T before;
  std::uint32_t tile;
};

// The sum of all tiles before `tile`. Waits for them: they have been handed out, so a block is summing each. By a warp,
// for all of its lanes.
template <class T>
__device__ inline T sum_tiles_before(const ScanTile<T>* tiles, std::uint32_t tile, unsigned lane) {
  T sum{};
  for (std::uint32_t i = lane; i < tile; i += 32) {
    while (*static_cast<const volatile std::uint32_t*>(&tiles[i].done) == 0) {
    }
    __threadfence();
    sum += tiles[i].sum;
  }
  __syncwarp();
  for (unsigned step = 1; step < 32; step *= 2) {
    const T below = from_lane_below(sum, step);
    if (lane >= step) sum += below;
  }
  return from_lane(sum, 31);
}

// scan_by_block() by all blocks of a launch, of kScanTileThreads threads each; `tiles` has scan_tiles(count) entries.
// A block takes tiles in their order and publishes each one's sum before it waits for those before. finish(sum of all)
// is called by one thread. Nothing is called for an empty list but finish().
template <class T, class Get, class Put, class Finish>
__device__ inline void scan_by_blocks(std::uint32_t count, ScanTile<T>* tiles, ScanShared<T>& shared, const Get& get,
                                      const Put& put, const Finish& finish) {
  const unsigned t = threadIdx.x;
  for (;;) {
    __syncthreads();  // the last tile's number and sum have been read
    if (t == 0) shared.tile = atomicAdd(&tiles[0].ticket, 1u);
    __syncthreads();
    const std::uint32_t tile = shared.tile;
    if (tile >= scan_tiles(count)) return;
    const std::uint32_t first = tile * kScanTile + t * kScanTileEach;
    T held[kScanTileEach], all;
    T at = scan_part(first, count, shared.warps, get, held, all);
    if (t == 0) {
      tiles[tile].sum = all;
      __threadfence();
      *static_cast<volatile std::uint32_t*>(&tiles[tile].done) = 1;
    }
    if (t < 32) {
      const T before = sum_tiles_before(tiles, tile, t);
      if (t == 0) shared.before = before;
    }
    __syncthreads();
    T upto = shared.before;
    upto += at;
    for (unsigned k = 0; k < kScanTileEach; ++k) {
      if (first + k < count) put(first + k, upto);
      upto += held[k];
    }
    if (t == 0 && tile + 1 == scan_tiles(count)) {
      T total = shared.before;
      total += all;
      finish(total);
    }
  }
}

// Sets `kBefore` of each stream's state to the sum of `kCount` over the streams before it; returns the sum of all. One
// thread block; `shared` has an entry for each warp.
template <auto kCount, auto kBefore, class Job, class T>
__device__ inline T scan_streams(const Job& job, T* shared) {
  return scan_by_block(
      job.stream_count(), shared, [&job](std::uint32_t i) { return job.states[i].*kCount; },
      [&job](std::uint32_t i, T before) { job.states[i].*kBefore = before; });
}

}  // namespace headrace::codec::gpu::lz77

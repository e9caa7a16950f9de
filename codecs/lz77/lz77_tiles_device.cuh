// Output of sequences where streams are few: thread blocks share all of it, tile by tile. Device code without a CUDA
// header.
//
// The tiles of all streams are one list, in order, and cut into slices of so many that the device has work. Of a slice,
// first all tiles are linked, side by side: as a window (lz77_cells_device.cuh), but a byte that comes from an earlier
// tile of the slice is open: it has a link to that byte's place in `links`, which hold all of the slice's bytes. What
// comes from before the slice is there. Then the open bytes are followed, from tile to tile, to bytes that are known,
// and the next slice begins.
//
// One launch does it all: each thread block takes the next step, linking or following one tile, and waits where that
// step needs others to be done. Those have lower numbers, so they have been taken by thread blocks that run.
//
// What other thread blocks of the launch wrote is read past the L1, which does not see it.
#pragma once

#include "lz77_cells_device.cuh"

namespace headrace::codec::gpu::lz77 {

template <std::uint32_t kBytes>
struct TileSpace {
  using Cell = std::uint32_t;
  // And the byte; and a place in `links`. Cells below both are links inside the tile.
  static constexpr Cell kDone = 0x80000000, kOpen = 0x40000000;
  static_assert(kBytes % 16 == 0);
  alignas(16) Cell cells[kBytes];
  std::uint32_t ticket;
};

// The output that a stream's pieces make.
struct Extent {
  std::uint32_t begin, bytes;
};
template <class Job>
__device__ inline Extent extent_of(const Job& job, const Part& part) {
  if (part.from == part.to) return {0, 0};
  const Piece last = job.piece(part.to - 1);
  const std::uint32_t begin = job.piece(part.from).out;
  return {begin, last.out + last.bytes - begin};
}

// ---- count_tiles: one warp or more, one thread block ----

template <std::uint32_t kBytes, class Job>
__device__ inline void count_tiles_body(const Job& job, const Choice& choice, const TileJob& tiles,
                                        Progress& progress) {
  const std::uint32_t count = job.stream_count();
  if (count > choice.most_by_tiles || threadIdx.x >= 32) return;
  const unsigned lane = lane_id();
  std::uint32_t before = 0;
  for (std::uint32_t base = 0; base < count; base += 32) {
    std::uint32_t own = 0;
    for (std::uint32_t k = 0; k < 32 && base + k < count; ++k) {
      const Extent extent = extent_of(job, job.part(base + k));
      if (k == lane) own = (extent.bytes + kBytes - 1) / kBytes;
    }
    const std::uint32_t upto = before + sum_upto(own, lane);
    if (base + lane < count) tiles.first_tile[base + lane] = upto - own;
    before = __shfl_sync(kAllLanes, upto, 31);
  }
  if (lane == 0) tiles.first_tile[count] = progress.tiles = before;
}

// ---- tiles ----

__device__ inline std::uint32_t load_past_l1(const std::uint32_t* at) { return __ldcg(at); }
__device__ inline Byte load_past_l1(const Byte* at) { return __ldcg(at); }
__device__ inline uint4 load_past_l1(const uint4* at) { return __ldcg(at); }

// Until the counter has come to `least`. By all threads of a block.
__device__ inline void wait_for(const std::uint32_t& counter, std::uint32_t least) {
  if (threadIdx.x == 0) {
    while (*static_cast<const volatile std::uint32_t*>(&counter) < least) __nanosleep(100);
    __threadfence();
  }
  __syncthreads();
}
__device__ inline void count_done(std::uint32_t& counter) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&counter, 1u);
}

struct Tile {
  std::uint32_t stream;
  Part part;
  std::uint32_t begin, bytes;  // of the stream's output
  std::uint32_t in_slice;      // tiles of the stream before it in the slice
};

template <std::uint32_t kBytes, class Job>
__device__ inline Tile find_tile(const Job& job, const TileJob& tiles, std::uint32_t t, std::uint32_t slice_begin) {
  const unsigned lane = lane_id();
  const std::uint32_t count = job.stream_count();
  // Streams without tiles begin where the next one does; the last of those is the one that has it.
  Tile tile{};
  tile.stream = count_while(count, lane, [&](std::uint32_t i) { return tiles.first_tile[i] <= t; }) - 1;
  tile.part = job.part(tile.stream);
  const Extent extent = extent_of(job, tile.part);
  const std::uint32_t first = tiles.first_tile[tile.stream], number = t - first;
  tile.begin = extent.begin + number * kBytes;
  const std::uint32_t left = extent.bytes - number * kBytes;
  tile.bytes = left < kBytes ? left : kBytes;
  tile.in_slice = t - (first > slice_begin ? first : slice_begin);
  return tile;
}

template <std::uint32_t kBytes, class Job>
__device__ inline void link_tile(const Job& job, const TileJob& tiles, const Tile& tile, std::uint32_t place,
                                 TileSpace<kBytes>& space) {
  using Space = TileSpace<kBytes>;
  using Cell = typename Space::Cell;
  Byte* const out = job.output(tile.stream) + tile.begin;
  const std::uint32_t x =
      tile.part.from +
      count_while(tile.part.to - tile.part.from, lane_id(),
                  [&](std::uint32_t k) { return job.piece(tile.part.from + k).out <= tile.begin; }) -
      1;
  const std::int32_t known_below = -static_cast<std::int32_t>(tile.in_slice * kBytes);
  const std::uint32_t link = place * kBytes;
  make_window(space.cells, job, x, tile.begin, tile.bytes, Space::kDone, [=](std::int32_t source) {
    if (source < known_below) return Space::kDone | load_past_l1(out + source);
    return Space::kOpen | static_cast<std::uint32_t>(static_cast<std::int32_t>(link) + source);
  });
  __syncthreads();
  std::uint32_t* const links = tiles.links + std::uint64_t{place} * kBytes;
  bool open = false;
  follow_links(space.cells, tile.bytes, Space::kOpen, [&](std::uint32_t at, const Cell* value, std::uint32_t four) {
    *reinterpret_cast<uint4*>(links + at) = make_uint4(value[0], value[1], value[2], value[3]);
    bool any = false;
    for (unsigned k = 0; k < four; ++k) any |= value[k] < Space::kDone;
    open |= any;
    if (!any) write_four(out + at, value, four);
  });
  const bool any_open = __syncthreads_or(open ? 1 : 0) != 0;
  if (threadIdx.x == 0) tiles.open[place] = any_open ? 1 : 0;
}

// Links lead to smaller places, and to another tile each.
template <std::uint32_t kBytes, class Job>
__device__ inline void follow_tile(const Job& job, const TileJob& tiles, const Tile& tile, std::uint32_t place) {
  using Space = TileSpace<kBytes>;
  Byte* const out = job.output(tile.stream) + tile.begin;
  std::uint32_t* const links = tiles.links + std::uint64_t{place} * kBytes;
  for (std::uint32_t at = threadIdx.x * 4; at < tile.bytes; at += blockDim.x * 4) {
    const uint4 four = load_past_l1(reinterpret_cast<const uint4*>(links + at));
    std::uint32_t value[4] = {four.x, four.y, four.z, four.w};
    const std::uint32_t count = tile.bytes - at < 4 ? tile.bytes - at : 4;
    const auto is_open = [&](unsigned k) { return k < count && value[k] < Space::kDone; };
    bool open = is_open(0) || is_open(1) || is_open(2) || is_open(3);
    if (!open) continue;
    while (open) {
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < 4; ++k) {
        if (is_open(k)) value[k] = load_past_l1(tiles.links + (value[k] & (Space::kOpen - 1)));
      }
      open = is_open(0) || is_open(1) || is_open(2) || is_open(3);
    }
    write_four(out + at, value, count);
    // Those that come this way later need not go on.
    *reinterpret_cast<uint4*>(links + at) = make_uint4(value[0], value[1], value[2], value[3]);
  }
}

template <std::uint32_t kBytes, class Job>
__device__ inline void tiles_body(const Job& job, const Choice& choice, const TileJob& tiles, Progress& progress,
                                  TileSpace<kBytes>& space) {
  if (job.stream_count() > choice.most_by_tiles) return;
  const std::uint32_t all = progress.tiles;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&progress.ticket, 1u);
    __syncthreads();
    const std::uint32_t step = space.ticket, slice = step / (2 * tiles.slice) * tiles.slice;
    if (slice >= all) return;
    const std::uint32_t in_slice = all - slice < tiles.slice ? all - slice : tiles.slice;
    const std::uint32_t which = step - 2 * slice;
    if (which >= 2 * in_slice) return;  // behind the last slice
    if (which < in_slice) {
      const Tile tile = find_tile<kBytes>(job, tiles, slice + which, slice);
      wait_for(progress.followed, slice);
      link_tile(job, tiles, tile, which, space);
      count_done(progress.linked);
    } else {
      const std::uint32_t place = which - in_slice;
      const Tile tile = find_tile<kBytes>(job, tiles, slice + place, slice);
      wait_for(progress.linked, slice + in_slice);
      if (load_past_l1(tiles.open + place) != 0) follow_tile<kBytes>(job, tiles, tile, place);
      count_done(progress.followed);
    }
  }
}

}  // namespace headrace::codec::gpu::lz77

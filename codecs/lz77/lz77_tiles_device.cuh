// Output of sequences where streams are few: thread blocks share all of it, tile by tile. Device code without a CUDA
// header.
//
// Slices are so many tiles that the device has work, the next few of each stream that has not ended, as fewer bytes
// then come from the same slice. Of a slice, first all tiles are linked, side by side: as a window
// (lz77_cells_device.cuh), but a byte that comes from an earlier tile of the slice is open: it has a link to that
// byte's place in `links`, which hold all of the slice's bytes. What comes from before the slice is there. Then the
// open bytes are followed, from tile to tile, to bytes that are known, and the next slice begins.
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
  static constexpr Cell kFollowed = 0x40000000;  // in those that are done: was open
  static_assert(kBytes % 16 == 0 && kBytes <= 65536);
  alignas(16) Cell cells[kBytes];
  std::uint16_t list[kBytes];  // of open bytes; as `follow_tile` shares them
  std::uint32_t ticket;
};

// ---- plan_tiles: one thread block ----

struct PlanSpace {
  std::uint32_t tiles[TileLayout::kMostStreams];
};

template <std::uint32_t kBytes, class Job>
__device__ inline void plan_tiles_body(const Job& job, const Choice& choice, const TileJob& tiles, Progress& progress,
                                       PlanSpace& space) {
  const std::uint32_t count = job.stream_count();
  if (count > choice.most_by_tiles || count == 0) return;
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const auto stream_of = [&](std::uint32_t i) {
    TileStream stream{i, job.part(i), 0, 0};
    if (stream.part.from != stream.part.to) {
      const Piece last = job.piece(stream.part.to - 1);
      stream.begin = job.piece(stream.part.from).out;
      stream.bytes = last.out + last.bytes - stream.begin;
    }
    return stream;
  };
  for (std::uint32_t i = warp; i < count; i += warps) {
    const TileStream stream = stream_of(i);
    if (lane == 0) space.tiles[i] = (stream.bytes + kBytes - 1) / kBytes;
  }
  __syncthreads();
  for (std::uint32_t i = warp; i < count; i += warps) {
    const TileStream stream = stream_of(i);
    const std::uint32_t own = space.tiles[i];
    std::uint32_t longer = 0;
    for (std::uint32_t k = lane; k < count; k += 32) {
      longer += space.tiles[k] > own || (space.tiles[k] == own && k < i) ? 1 : 0;
    }
    longer = __reduce_add_sync(kAllLanes, longer);
    if (lane == 0) tiles.streams[longer] = stream;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x != 0) return;
  const auto tiles_of = [&](std::uint32_t rank) { return (tiles.streams[rank].bytes + kBytes - 1) / kBytes; };
  Slice slice{0, 0, count, 0};
  std::uint32_t slices = 0;
  for (std::uint32_t shortest = tiles_of(count - 1);;) {
    while (slice.streams != 0 && shortest <= slice.first) {
      --slice.streams;
      if (slice.streams != 0) shortest = tiles_of(slice.streams - 1);
    }
    if (slice.streams == 0) break;
    slice.each = tiles.in_slice / slice.streams;
    const std::uint32_t left = tiles_of(0) - slice.first;
    if (slice.each > left) slice.each = left;
    tiles.slices[slices++] = slice;
    slice.first += slice.each;
    slice.before += slice.each * slice.streams;
  }
  progress.slices = slices;
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
  std::uint32_t begin, bytes;  // of the stream's output; none behind its end
  std::uint32_t in_slice;      // tiles of the stream before it in the slice
};

template <std::uint32_t kBytes>
__device__ inline Tile find_tile(const TileJob& tiles, const Slice& slice, std::uint32_t place) {
  const TileStream stream = tiles.streams[place / slice.each];
  Tile tile{stream.stream, stream.part, 0, 0, place % slice.each};
  const std::uint32_t before = (slice.first + tile.in_slice) * kBytes;
  if (before >= stream.bytes) return tile;
  tile.begin = stream.begin + before;
  tile.bytes = stream.bytes - before < kBytes ? stream.bytes - before : kBytes;
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

// Open bytes of [first, last) of a tile, whose cells are in shared memory: their positions, in order. By a warp.
template <std::uint32_t kBytes>
__device__ inline std::uint32_t list_open(TileSpace<kBytes>& space, std::uint32_t first, std::uint32_t last,
                                          unsigned lane) {
  std::uint32_t count = 0;
  for (std::uint32_t at = first; at < last; at += 32) {
    const std::uint32_t own = at + lane;
    const bool open = own < last && space.cells[own] < TileSpace<kBytes>::kDone;
    const unsigned all = __ballot_sync(kAllLanes, open);
    if (open) {
      space.list[first + count + static_cast<unsigned>(__popc(all & ((1u << lane) - 1)))] =
          static_cast<std::uint16_t>(own);
    }
    count += static_cast<unsigned>(__popc(all));
  }
  return count;
}

// Follows the listed bytes, to cells that are done. Links lead to smaller places, and to another tile each; some chains
// are many times as long as others. So a lane that is through with a byte takes the next of the list, and does not
// wait for its neighbours'. Those that are through together take neighbours, which most often lead to neighbours.
template <std::uint32_t kBytes>
__device__ inline void follow_listed(TileSpace<kBytes>& space, const std::uint32_t* links, const std::uint16_t* list,
                                     std::uint32_t count, unsigned lane) {
  using Space = TileSpace<kBytes>;
  std::uint32_t value[kFollowedAtOnce], at[kFollowedAtOnce], next = 0;
  HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kFollowedAtOnce; ++k) value[k] = Space::kDone, at[k] = 0;
  for (;;) {
    bool any = false;
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kFollowedAtOnce; ++k) {
      if (next < count) {
        const bool idle = value[k] >= Space::kDone;
        const unsigned all = __ballot_sync(kAllLanes, idle);
        const std::uint32_t mine = next + static_cast<unsigned>(__popc(all & ((1u << lane) - 1)));
        if (idle && mine < count) {
          at[k] = list[mine];
          value[k] = space.cells[at[k]];
        }
        next += static_cast<unsigned>(__popc(all));
      }
      any |= value[k] < Space::kDone;
    }
    if (!__any_sync(kAllLanes, any)) return;
    unsigned open = 0;
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kFollowedAtOnce; ++k) {
      if (value[k] >= Space::kDone) continue;
      open |= 1u << k;
      value[k] = load_past_l1(links + (value[k] & (Space::kOpen - 1)));
    }
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kFollowedAtOnce; ++k) {
      if ((open >> k & 1) != 0 && value[k] >= Space::kDone) space.cells[at[k]] = value[k] | Space::kFollowed;
    }
  }
}

// Each warp follows the open bytes of its share.
template <std::uint32_t kBytes, class Job>
__device__ inline void follow_tile(const Job& job, const TileJob& tiles, const Tile& tile, std::uint32_t place,
                                   TileSpace<kBytes>& space) {
  using Space = TileSpace<kBytes>;
  constexpr unsigned kRows = 3;  // of four bytes a lane, so that loads overlap
  Byte* const out = job.output(tile.stream) + tile.begin;
  std::uint32_t* const links = tiles.links + std::uint64_t{place} * kBytes;
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const std::uint32_t share = (kBytes / 4 + warps - 1) / warps * 4, first = warp * share;
  if (first >= tile.bytes) return;
  const std::uint32_t last = tile.bytes - first < share ? tile.bytes : first + share;
  for (std::uint32_t from = first + 4 * lane; from < last; from += 128 * kRows) {
    uint4 row[kRows] = {};
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kRows; ++k) {
      if (from + 128 * k < last) row[k] = load_past_l1(reinterpret_cast<const uint4*>(links + from + 128 * k));
    }
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kRows; ++k) {
      if (from + 128 * k < last) *reinterpret_cast<uint4*>(space.cells + from + 128 * k) = row[k];
    }
  }
  __syncwarp();
  const std::uint32_t count = list_open(space, first, last, lane);
  __syncwarp();
  follow_listed(space, tiles.links, space.list + first, count, lane);
  __syncwarp();
  // What was known has been written. Those that come this way later need not go on.
  for (std::uint32_t at = first + 4 * lane; at < last; at += 128) {
    const uint4 row = *reinterpret_cast<const uint4*>(space.cells + at);
    if (((row.x | row.y | row.z | row.w) & Space::kFollowed) == 0) continue;
    *reinterpret_cast<uint4*>(links + at) = row;
    const std::uint32_t value[4] = {row.x, row.y, row.z, row.w};
    write_four(out + at, value, last - at < 4 ? last - at : 4);
  }
}

template <std::uint32_t kBytes, class Job>
__device__ inline void tiles_body(const Job& job, const Choice& choice, const TileJob& tiles, Progress& progress,
                                  TileSpace<kBytes>& space) {
  if (job.stream_count() > choice.most_by_tiles || progress.slices == 0) return;
  const std::uint32_t slices = progress.slices;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&progress.ticket, 1u);
    __syncthreads();
    const std::uint32_t step = space.ticket;
    const Slice slice = tiles.slices[count_while(slices, lane_id(),
                                                 [&](std::uint32_t s) { return 2 * tiles.slices[s].before <= step; }) -
                                     1];
    const std::uint32_t in_slice = slice.each * slice.streams, which = step - 2 * slice.before;
    if (which >= 2 * in_slice) return;  // behind the last slice
    const bool link = which < in_slice;
    const std::uint32_t place = link ? which : which - in_slice;
    const Tile tile = find_tile<kBytes>(tiles, slice, place);
    if (link) {
      wait_for(progress.followed, slice.before);
      if (tile.bytes != 0) link_tile(job, tiles, tile, place, space);
      count_done(progress.linked);
    } else {
      wait_for(progress.linked, slice.before + in_slice);
      if (tile.bytes != 0 && load_past_l1(tiles.open + place) != 0) follow_tile(job, tiles, tile, place, space);
      count_done(progress.followed);
    }
  }
}

}  // namespace headrace::codec::gpu::lz77

// Writes the output of sequences for few streams: thread blocks share all of it, tile by tile. Device code without a
// CUDA header.
//
// A slice is the next few tiles of each stream that has not ended. First all tiles of a slice are linked, in parallel.
// This resembles making a window (lz77_cells_device.cuh), but a byte that comes from an earlier tile becomes open: it
// holds a link to that byte's place in `links`, a ring with the bytes of several slices. Bytes from before the slices
// that are not yet followed are known already. Then open bytes are followed, from tile to tile, to known bytes.
//
// A single launch does all of this: each thread block takes the next step, which links or follows one tile, and waits
// for the steps it depends on (lz77_steps_device.cuh).
//
// Data that other thread blocks of the launch wrote is read past the L1, which is not coherent.
#pragma once

#include "lz77_cells_device.cuh"
#include "lz77_steps_device.cuh"

namespace headrace::codec::gpu::lz77 {

struct TileCell {
  using Cell = std::uint32_t;
  // kDone: plus the byte; kOpen: plus a place in `links`. Cells below both are links inside the tile.
  static constexpr Cell kDone = 0x80000000, kOpen = 0x40000000;
  static constexpr Cell kFollowed = 0x40000000;  // flag of done cells: was open
};

template <std::uint32_t kBytes>
struct TileSpace : TileCell {
  static_assert(kBytes % 16 == 0 && kBytes <= 65536);
  alignas(16) Cell cells[kBytes];
  std::uint16_t list[kBytes];  // of open bytes; shared out by `follow_tile`
  std::uint32_t ticket, first_open_slice;
  Stretch stretches[TileLayout::kMaxStretches];
};

// ---- plan_tiles: one thread block ----

struct PlanSpace {
  std::uint32_t tiles[TileLayout::kMaxStreams], sorted[TileLayout::kMaxStreams];
  Stretch stretches[TileLayout::kMaxStretches];
  std::uint32_t count;  // of stretches
};

// Plans stretches from the numbers of tiles of `count` streams, in descending order. `steps` becomes the total number
// of steps. Returns the number of stretches.
__device__ inline std::uint32_t plan_stretches(const std::uint32_t* tiles, std::uint32_t count, std::uint32_t in_slice,
                                               Stretch* stretches, std::uint32_t& steps) {
  Stretch next{};
  std::uint32_t made = 0;
  for (next.streams = count;; stretches[made++] = next) {
    if (made != 0) {
      const Stretch& before = stretches[made - 1];
      next.tile += before.slices * before.each;
      next.slice += before.slices;
      next.step += 2 * before.slices * before.each * before.streams;
    }
    while (next.streams != 0 && tiles[next.streams - 1] <= next.tile) --next.streams;
    steps = next.step;
    if (next.streams == 0) return made;
    const std::uint32_t left = tiles[0] - next.tile;
    next.each = in_slice / next.streams;
    if (next.each > left) next.each = left;
    // Until at most half of its streams are left.
    next.slices = (tiles[next.streams / 2] - next.tile + next.each - 1) / next.each;
  }
}

template <std::uint32_t kBytes, class Job>
__device__ inline void plan_tiles_body(const Job& job, const Choice& choice, const TileJob& tiles, Progress& progress,
                                       PlanSpace& space) {
  const std::uint32_t count = job.stream_count();
  if (count > choice.max_by_tiles || count == 0) return;
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const auto stream_of = [&](std::uint32_t i) {
    TileStream stream{i, job.part(i), 0, 0};
    if (stream.part.from != stream.part.to) {
      const OutputRun last = job.piece(stream.part.to - 1);
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
    if (lane == 0) {
      tiles.streams[longer] = stream;
      space.sorted[longer] = own;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint32_t steps = 0;
    space.count = plan_stretches(space.sorted, count, tiles.in_slice, space.stretches, steps);
    progress.stretches = space.count;
    progress.steps = steps;
  }
  __syncthreads();
  for (std::uint32_t i = 0; i < space.count; ++i) {
    const Stretch stretch = space.stretches[i];
    if (threadIdx.x == 0) tiles.stretches[i] = stretch;
    for (std::uint32_t k = threadIdx.x; k < 2 * stretch.slices; k += blockDim.x) {
      tiles.left[2 * stretch.slice + k] = stretch.each * stretch.streams;
    }
  }
}

// ---- tiles ----

__device__ inline std::uint32_t load_past_l1(const std::uint32_t* at) { return __ldcg(at); }
__device__ inline Byte load_past_l1(const Byte* at) { return __ldcg(at); }
__device__ inline uint4 load_past_l1(const uint4* at) { return __ldcg(at); }

// Waits until the step can begin. By all threads of a block.
template <std::uint32_t kBytes>
__device__ inline void wait_for_slices(const TileStep& step, const TileJob& tiles, TileSpace<kBytes>& space) {
  if (threadIdx.x < 32) {
    const TileWait look = wait_of(step, threadIdx.x);
    const volatile std::uint32_t* const counter = tiles.left + look.counter;
    std::uint32_t left = look.any ? *counter : 0;
    while (__any_sync(kAllLanes, look.needed && left != 0)) {
      __nanosleep(100);
      left = look.any ? *counter : 0;
    }
    __threadfence();
    const unsigned zeros = __ballot_sync(kAllLanes, left == 0);
    if (threadIdx.x == 0 && step.link) space.first_open_slice = first_open_slice(step, zeros);
  }
  __syncthreads();
}
__device__ inline void count_done(std::uint32_t& left) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  atomicAdd(&left, ~std::uint32_t{0});
}

struct Tile {
  std::uint32_t stream;
  Part part;
  std::uint32_t begin, bytes;  // of the stream's output; bytes is 0 past its end
  std::uint32_t number;        // relative to the stretch's first tile
  std::uint32_t ring, turn;    // the ring's first tile for this stream, and the length of its part of the ring
};

template <std::uint32_t kBytes>
__device__ inline Tile find_tile(const TileJob& tiles, const Stretch& stretch, const TileStep& step) {
  const TileStream stream = tiles.streams[step.rank];
  const std::uint32_t slices = stretch.slices < TileOrder::kRing ? stretch.slices : TileOrder::kRing;
  const std::uint32_t turn = slices * stretch.each, before = step.tile * kBytes;
  Tile tile{stream.stream, stream.part, 0, 0, step.tile - stretch.tile, step.rank * turn, turn};
  if (before >= stream.bytes) return tile;
  tile.begin = stream.begin + before;
  tile.bytes = stream.bytes - before < kBytes ? stream.bytes - before : kBytes;
  return tile;
}
__device__ inline std::uint32_t place_of(const Tile& tile) { return tile.ring + tile.number % tile.turn; }

struct BeforeTile {
  static constexpr unsigned kAtOnce = kMadeAtOnceInTiles;
  static constexpr bool kOpen = true;
  const Byte* output;
  std::int32_t first, known_below;
  std::int32_t own;          // place of the tile's first byte in the stream's part of the ring
  std::uint32_t ring, turn;  // beginning of that part, and its bytes

  __device__ std::uint32_t open(std::int32_t s) const {
    const std::int32_t at = own + s;
    return TileCell::kOpen | (ring + (at < 0 ? turn : 0) + static_cast<std::uint32_t>(at));
  }
  template <class T>
  __device__ T load(const T* at) const {
    return load_past_l1(at);
  }
};

// `open_from`: the first tile that open bytes may come from, numbered like tile.number.
template <std::uint32_t kBytes, class Job>
__device__ inline void link_tile(const Job& job, const TileJob& tiles, const Tile& tile, std::uint32_t open_from,
                                 TileSpace<kBytes>& space) {
  using Space = TileSpace<kBytes>;
  using Cell = typename Space::Cell;
  Byte* const out = job.output(tile.stream) + tile.begin;
  const std::uint32_t x =
      tile.part.from +
      count_while(tile.part.to - tile.part.from, lane_id(),
                  [&](std::uint32_t k) { return job.piece(tile.part.from + k).out <= tile.begin; }) -
      1;
  const std::int32_t known_below = -static_cast<std::int32_t>((tile.number - open_from) * kBytes);
  const std::uint32_t place = place_of(tile), ring = tile.ring * kBytes, turn = tile.turn * kBytes;
  const auto own = static_cast<std::int32_t>(place * kBytes - ring);
  make_window(space.cells, job, x, tile.begin, tile.bytes, Space::kDone,
              BeforeTile{out, -static_cast<std::int32_t>(tile.begin), known_below, own, ring, turn});
  __syncthreads();
  std::uint32_t* const links = tiles.links + std::uint64_t{place} * kBytes;
  bool open = false;
  follow_links<4>(space.cells, tile.bytes, Space::kOpen, [&](std::uint32_t at, const Cell* value, std::uint32_t four) {
    *reinterpret_cast<uint4*>(links + at) = make_uint4(value[0], value[1], value[2], value[3]);
    Cell all = value[0];
    HEADRACE_LZ77_UNROLL for (unsigned k = 1; k < 4; ++k) {
      if (k < four) all &= value[k];
    }
    if ((all & Space::kDone) != 0) {
      write_four(out + at, value, four);
    } else {
      open = true;
    }
  });
  const bool any_open = __syncthreads_or(open ? 1 : 0) != 0;
  if (threadIdx.x == 0) tiles.open[place] = any_open ? 1 : 0;
}

// Lists the positions of the open bytes in [first, last) of a tile, whose cells are in shared memory, in order. By a
// warp.
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

// Follows the listed bytes to done cells. Each link leads to a smaller place in another tile, and some chains are many
// times longer than others. A lane that has finished a byte therefore takes the next from the list, without waiting for
// the others. Lanes that finish together take neighbouring bytes, which usually lead to neighbouring bytes.
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
    for (unsigned hop = 0; hop < kHopsAtOnce; ++hop) {
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
}

// Each warp follows the open bytes of its share.
template <std::uint32_t kBytes, class Job>
__device__ inline void follow_tile(const Job& job, const TileJob& tiles, const Tile& tile, TileSpace<kBytes>& space) {
  using Space = TileSpace<kBytes>;
  constexpr unsigned kRows = 3;  // of four bytes per lane, so that loads overlap
  Byte* const out = job.output(tile.stream) + tile.begin;
  std::uint32_t* const links = tiles.links + std::uint64_t{place_of(tile)} * kBytes;
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
  // Known bytes have been written. Storing the resolved ones as well shortens chains for later readers.
  for (std::uint32_t at = first + 4 * lane; at < last; at += 128) {
    const uint4 row = *reinterpret_cast<const uint4*>(space.cells + at);
    if (((row.x | row.y | row.z | row.w) & Space::kFollowed) == 0) continue;
    *reinterpret_cast<uint4*>(links + at) = row;
    const std::uint32_t value[4] = {row.x, row.y, row.z, row.w};
    write_four(out + at, value, last - at < 4 ? last - at : 4);
  }
}

// REQUIRES: space.stretches holds the `count` planned stretches, and the step belongs to one of them.
template <std::uint32_t kBytes, class Job>
__device__ inline void take_step(const Job& job, const TileJob& tiles, std::uint32_t count, std::uint32_t number,
                                 TileSpace<kBytes>& space) {
  std::uint32_t i = 0;
  while (i + 1 < count && space.stretches[i + 1].step <= number) ++i;
  const Stretch stretch = space.stretches[i];
  const TileStep step = step_of(stretch, number);
  const Tile tile = find_tile<kBytes>(tiles, stretch, step);
  wait_for_slices(step, tiles, space);
  if (tile.bytes != 0 && step.link) {
    link_tile(job, tiles, tile, (space.first_open_slice - stretch.slice) * stretch.each, space);
  } else if (tile.bytes != 0 && load_past_l1(tiles.open + place_of(tile)) != 0) {
    follow_tile(job, tiles, tile, space);
  }
  count_done(tiles.left[counter_of(step.slice, step.link)]);
}

template <std::uint32_t kBytes, class Job>
__device__ inline void tiles_body(const Job& job, const Choice& choice, const TileJob& tiles, Progress& progress,
                                  TileSpace<kBytes>& space) {
  if (job.stream_count() > choice.max_by_tiles || progress.stretches == 0) return;
  const std::uint32_t stretches = progress.stretches, steps = progress.steps;
  if (threadIdx.x < stretches) space.stretches[threadIdx.x] = tiles.stretches[threadIdx.x];
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&progress.ticket, 1u);
    __syncthreads();
    const std::uint32_t number = space.ticket;
    if (number >= steps) return;
    take_step(job, tiles, stretches, number, space);
  }
}

}  // namespace headrace::codec::gpu::lz77

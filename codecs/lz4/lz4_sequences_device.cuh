// Converts discovered tokens to sequences in the shared memory of a tile. See lz4_graph_device.cuh.
#pragma once

#include <type_traits>

#include "lz4_follow_device.cuh"

namespace headrace::codec::gpu::tiles {

template <class Shape>
struct ListShared {
  static constexpr U32 kPad = 4;
  alignas(16) U8 window[window_place(Shape::kBuffer, kPad)];
  U32 entry[Shape::kAllParts];
  U32 out[Shape::kAllParts];
  U32 lane_at[Shape::kLanes];  // of lanes walked before the first path was met
  U32 lane_out[Shape::kLanes];
  U8 path_entry[Shape::kPaths * Shape::kLanes];
  U32 met_lane, met_path, met_out;
};

// One block per segment that is entered: finds the first true token of each part of a lane, and the output before it. A
// part without tokens gets the output of the next one, so the last part whose output is at most x has the token at x.
template <class Shape>
__device__ inline void list_parts(ListShared<Shape>& shared, const GraphArrays& g, U32 segment,
                                  const std::uint64_t* outcomes) {
  const U32 t = threadIdx.x;
  const U32 entry = g.entry[segment];
  if (entry == kNoPosition) return;
  const TileStream s = g.streams[g.segment_stream[segment]];
  if (__syncthreads_or(is_bad(outcomes, s.chunk) ? 1 : 0) != 0) return;
  const U32 start = (segment - s.first_segment) * Shape::kSegment, stop = start + Shape::kSegment;
  const U32 low = start == 0 ? 0 : start - Shape::kWarm;
  fill_window(shared.window, low, Shape::kBuffer, s, t, Shape::kThreads, shared.kPad);
  for (U32 i = t; i < Shape::kAllParts; i += Shape::kThreads) shared.entry[i] = kNoPosition;
  if (t < Shape::kLanes) shared.lane_at[t] = kNoPosition;
  const U32 paths = g.path_count[segment];
  for (U32 i = t; i < paths * Shape::kLanes; i += Shape::kThreads) {
    shared.path_entry[i] = g.lane_entry[lane_index<Shape>(segment, 0, 0) + i];
  }
  __syncthreads();
  const U32 first_out = g.out[segment];
  const Lz4Bytes bytes =
      bytes_of(s, runs_of(g, s, Shape::kRun, Shape::kSegment), shared.window, low, Shape::kBuffer, shared.kPad);
  if (t == 0) {
    U32 p = entry;
    U64 out = first_out;
    shared.met_lane = Shape::kLanes;
    while (p < stop) {
      const U32 lane = (p - start) / Shape::kLaneBytes;
      const U32 at = p - start - lane * Shape::kLaneBytes;
      U32 path = 0;
      while (path < paths && shared.path_entry[path * Shape::kLanes + lane] != at) ++path;
      if (path < paths) {
        shared.met_lane = lane;
        shared.met_path = path;
        shared.met_out = static_cast<U32>(out) + g.lane_after[lane_index<Shape>(segment, path, lane)];
        break;
      }
      shared.lane_at[lane] = p;
      shared.lane_out[lane] = static_cast<U32>(out);
      p = walk<Shape>(bytes, p, start + (lane + 1) * Shape::kLaneBytes, out);
    }
  }
  __syncthreads();
  U32 p = kNoPosition, out = 0;
  if (t < Shape::kLanes) {
    p = shared.lane_at[t];
    out = shared.lane_out[t];
    if (t >= shared.met_lane) {
      const U64 lane = lane_index<Shape>(segment, shared.met_path, t);
      const U32 at = g.lane_entry[lane];
      if (at != kNoEntry) {
        p = start + t * Shape::kLaneBytes + at;
        out = shared.met_out - g.lane_after[lane];
      }
    }
  }
  const U32 lane_stop = start + (t + 1) * Shape::kLaneBytes;
  const bool fast = all_in_window(bytes, lane_stop - Shape::kLaneBytes, lane_stop);
  U32 seen = kNoPosition;
  while (__any_sync(kAllLanes, p < lane_stop)) {
    if (p >= lane_stop) continue;
    const U32 part = (p - start) / Shape::kPartBytes;
    if (part != seen) {
      seen = part;
      shared.entry[part] = p;
      shared.out[part] = out;
    }
    U32 length;
    p = step<Shape>(bytes, fast, p, length);
    out += length;
  }
  __syncthreads();
  for (U32 i = t; i < Shape::kAllParts; i += Shape::kThreads) {
    U32 next = i;
    while (next < Shape::kAllParts && shared.entry[next] == kNoPosition) ++next;
    const U64 part = static_cast<U64>(segment) * Shape::kAllParts + i;
    g.part_at[part] = shared.entry[i];
    g.part_out[part] = next < Shape::kAllParts ? shared.out[next] : static_cast<U32>(first_out + g.bytes[segment]);
  }
}

// The last of `count` ascending values that is at most x; values[0] must be. By a whole warp.
__device__ inline U32 warp_last_not_above(const U32* values, U32 count, U32 x) {
  const U32 lane = threadIdx.x % 32;
  U32 low = 0, high = count;  // values[low] <= x, and values[high] > x if there is one
  while (high - low > 1) {
    const U32 step = (high - low + 31) / 32, probe = low + lane * step;
    const U32 vote = __ballot_sync(kAllLanes, probe < high && values[probe] <= x);
    const U32 last = 31 - static_cast<U32>(__clz(static_cast<int>(vote)));
    low += last * step;
    if (low + step < high) high = low + step;
  }
  return low;
}

// One warp per tile: finds the part of the stream whose token produces its last byte, and estimates the tile's cost.
template <class Shape, U32 tile_bytes>
__device__ inline void index_tiles(const GraphArrays& g, const std::uint64_t* outcomes) {
  // Costs, in units of parts with tokens: a tile that is only copied, and the fixed cost of one that is not.
  constexpr U32 kCopied = 15, kLinked = 110;
  const TilePlan plan = *g.plan;
  const U32 lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  for (U32 tile = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; tile < plan.tiles; tile += warps) {
    const TileStream s = g.streams[g.tile_stream[tile]];
    if (lane == 0) g.tile_cost[tile] = kCopied;
    if (s.stored != 0 || is_bad(outcomes, s.chunk)) continue;
    const auto part_at_output = [&](U32 x) {
      const U32 segment = warp_last_not_above(g.out + s.first_segment, s.segments, x);
      const U32* const parts = g.part_out + static_cast<U64>(s.first_segment + segment) * Shape::kAllParts;
      return segment * Shape::kAllParts + warp_last_not_above(parts, Shape::kAllParts, x);
    };
    const U32 begin = (tile - s.first_tile) * tile_bytes;
    const U32 end = s.dst_bytes - begin < tile_bytes ? s.dst_bytes : begin + tile_bytes;
    const U32 last = part_at_output(end - 1);
    if (lane == 0) g.last_part[tile] = last;
    if (plan.whole != 0) continue;
    U32 with_tokens = 0;
    for (U32 part0 = begin == 0 ? 0 : part_at_output(begin); part0 <= last; part0 += 32) {
      const U32 part = part0 + lane;
      const bool has = part <= last && g.entry[s.first_segment + part / Shape::kAllParts] != kNoPosition &&
                       g.part_at[static_cast<U64>(s.first_segment) * Shape::kAllParts + part] != kNoPosition;
      const U32 vote = __ballot_sync(kAllLanes, has);
      with_tokens += static_cast<U32>(__popc(vote));
      if (vote == 0) break;  // a run of literals, which may be megabytes long
    }
    // A single part means one sequence that covers the whole tile.
    if (lane == 0 && with_tokens > 1) g.tile_cost[tile] = kLinked + with_tokens;
  }
}

struct BoundsShared {
  U64 sums[32];
};

// One block per slice: deals its slots to `blocks` blocks, so that each gets adjacent slots of equal total cost.
__device__ inline void bound_sections(BoundsShared& shared, const GraphArrays& g, const TileArrays& a, U32 slice,
                                      U32 blocks) {
  const TilePlan plan = *g.plan;
  if (slice >= plan.slices || plan.whole != 0) return;
  U32* const bounds = a.bounds + slice * (kMaxTileBlocks + 1);
  if (threadIdx.x == 0) a.open_threads[slice] = 0;
  // Fewer sections need fewer joins.
  const U32 used = plan.slots * 2 < blocks ? plan.slots * 2 : blocks;
  const U32 each = (plan.slots + blockDim.x - 1) / blockDim.x;
  const U32 first = threadIdx.x * each < plan.slots ? threadIdx.x * each : plan.slots;
  const U32 last = plan.slots - first < each ? plan.slots : first + each;
  const auto cost_of = [&](U32 slot) -> U32 {
    const TileStream& s = g.streams[a.slot_stream[slot]];
    const U32 tile = slice * s.share + slot - s.first_slot;
    return tile < s.tiles ? g.tile_cost[s.first_tile + tile] : 0;
  };
  U64 mine = 0, all;
  for (U32 slot = first; slot < last; ++slot) mine += cost_of(slot);
  U64 before = block_sum_before(mine, shared.sums, all);
  if (all == 0) all = 1;
  // A slot belongs to the block in whose share of the cost it begins.
  const auto block_of = [&](U64 cost) {
    const U64 block = cost * used / all;
    return static_cast<U32>(block < used ? block : used - 1);
  };
  U32 previous = 0;
  for (U32 slot = first; slot < last; ++slot) {
    const U32 cost = cost_of(slot), block = block_of(before);
    // Each slot begins where the previous one's cost ends; only a thread's first slot has to look that up.
    if (slot == first) previous = slot == 0 ? 0xffffffffu : block_of(before - cost_of(slot - 1));
    for (U32 k = previous + 1; k <= block; ++k) bounds[k] = slot;
    previous = block;
    before += cost;
  }
  // Blocks without slots get empty ranges.
  if (last == plan.slots && first < last) {
    for (U32 k = previous + 1; k <= blocks; ++k) bounds[k] = plan.slots;
  }
}

// Four bytes from p on. p is not in the first 4 or last 8 bytes of the stream.
__device__ inline U32 bytes_at(const TileStream& s, U32 p) {
  const auto* const words = reinterpret_cast<const U32*>(s.base + (p & ~3u));
  return __funnelshift_r(words[0], words[1], p % 4 * 8);
}
// parse_token() for a token far from both ends of the stream. Returns 0 if a length has more than one byte.
__device__ inline U32 parse_short(const TileStream& s, U32 p, Lz4Token& token) {
  const U32 first = bytes_at(s, p), c = first & 255, more_literals = first >> 8 & 255;
  U32 literals = c >> 4, match = c & 15, at = p + 1, tail = first >> 8;
  const bool longer = literals == 15, longer_match = match == 15;
  if (literals != 0) {
    at += longer ? 1 : 0;
    token.literals_at = at;
    literals += longer ? more_literals : 0;
    at += literals;
    tail = bytes_at(s, at);
  }
  const U32 more_match = tail >> 16 & 255;
  token.literals = literals;
  token.match = match + 4 + (longer_match ? more_match : 0);
  token.offset_at = at;
  token.offset = tail & 0xffff;
  if ((longer && more_literals == 255) || (longer_match && more_match == 255)) return 0;
  return at + (longer_match ? 3 : 2);
}

// Puts a tile's sequences into its shared memory. Called by whole blocks.
template <class Shape>
struct Lz4Sequences {
  GraphArrays g;
  std::uint64_t* outcomes;
  unsigned stage;

  // Called by all threads of a block. Returns false if the stream is bad.
  template <class Writer>
  __device__ bool put(const Writer& writer) const {
    const TileStream& s = writer.s;
    using Shared = std::remove_reference_t<decltype(writer.shared)>;
    // Upper bound on the parts whose tokens start in the tile, not counting parts inside a run of literals.
    constexpr U32 kMax = Shared::kTile / 128 * 129 / Shape::kPartBytes + 128 / Shape::kPartBytes + 8;
    const U32 t = threadIdx.x;
    const U32 tile = writer.position / Shared::kTile;
    const U32* const last_part = g.last_part + s.first_tile;
    const U32 first = tile == 0 ? 0 : last_part[tile - 1], last = last_part[tile];
    const U32 from = last - first <= kMax ? first : last - kMax;
    bool good = true;
    const U32 count = last - from + 2;
    for (U32 i0 = t / 32 * 32; i0 < count; i0 += Shared::kThreads) {
      // The part that contains the first byte, and those after `from`.
      const U32 i = i0 + t % 32, part = i == 0 ? first : from + i - 1;
      U32 p = kNoPosition, out = 0;
      if (i < count && (i == 0 || part != first) && g.entry[s.first_segment + part / Shape::kAllParts] != kNoPosition) {
        const U64 at = static_cast<U64>(s.first_segment) * Shape::kAllParts + part;
        p = g.part_at[at];
        out = g.part_out[at];
      }
      good &= put_part(writer, p, (part + 1) * Shape::kPartBytes, out);
    }
    return __syncthreads_or(good ? 0 : 1) == 0;
  }

  // liblz4 refuses a match that begins in the last 12 bytes of the output or ends in the last 5, and one with less than
  // 8 bytes of input after its literals. Its fast path, for short tokens far enough from both ends with an offset of at
  // least 8, skips these checks. An offset of 0 produces zeros.
  template <class Writer>
  __device__ bool put_part(const Writer& writer, U32 p, U32 stop, U32 out) const {
    const TileStream& s = writer.s;
    const U32 position = writer.position, end = position + writer.bytes;
    const Lz4Bytes source = bytes_of(s, runs_of(g, s, Shape::kRun, Shape::kSegment), nullptr, 0, 0);
    // No token that begins here can reach an end of the stream if no length has more than one byte.
    const bool far = stop + 320 < s.end && end + 600 < s.dst_bytes && (p >= s.begin + 4);
    Lz4Token token;
    bool good = true;
    while (__any_sync(kAllLanes, good && p < stop && out < end)) {
      if (!good || p >= stop || out >= end) continue;
      U32 next = far ? parse_short(s, p, token) : 0;
      U32 offset = token.offset;
      if (next == 0) {
        next = parse_token<Shape>(source, p, token);
        if (next == kBadToken) {  // cannot happen: discovery accepted this token
          good = false;
          continue;
        }
        offset = 0;
        if (token.match != 0 && out + token.literals + token.match > position) {
          offset = source.at(token.offset_at) | source.at(token.offset_at + 1) << 8;
          const U32 c = source.at(p), match_at = out + token.literals;
          const bool far_from_end =
              s.dst_bytes - match_at >= 12 && s.end - token.offset_at >= 8 && s.dst_bytes - match_at >= token.match + 5;
          const bool shortcut = c < 0xf0 && (c & 15) != 15 && s.dst_bytes - out >= 32 && s.end - p > 17 && offset >= 8;
          if (!far_from_end && !shortcut) {
            give_up(outcomes, s.chunk, stage, token.offset_at - s.begin,
                    offset > match_at ? device::DecodeReason::kOffset : device::DecodeReason::kLength);
            good = false;
            continue;
          }
        }
      }
      const U32 length = token.literals + token.match, match_at = out + token.literals;
      if (out + length > position) {
        if (offset > match_at) {
          give_up(outcomes, s.chunk, stage, token.offset_at - s.begin, device::DecodeReason::kOffset);
          good = false;
          continue;
        }
        writer.put(out, token.literals, token.literals_at, token.match, offset);
      }
      out += length;
      p = next;
    }
    return good;
  }
};

}  // namespace headrace::codec::gpu::tiles

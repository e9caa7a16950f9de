// What discovery found becomes sequences in the shared memory of a tile. See lz4_graph_device.cuh.
#pragma once

#include "lz4_follow_device.cuh"

namespace headrace::codec::gpu::tiles {

template <class Shape>
struct ListShared {
  alignas(16) U8 window[Shape::kBuffer];
  U32 entry[Shape::kAllParts];
  U32 out[Shape::kAllParts];
  U32 lane_at[Shape::kLanes];  // of lanes walked before the first path was met
  U32 lane_out[Shape::kLanes];
  U32 met_lane, met_path, met_out;
};

// A block takes a segment that is entered: where the first true token of each part of a lane is, and what output lies
// before it. A part without tokens has the output of the next one, so that the last part with no more than x has the
// token at x.
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
  fill_window(shared.window, low, Shape::kBuffer, s, t, Shape::kThreads);
  for (U32 i = t; i < Shape::kAllParts; i += Shape::kThreads) shared.entry[i] = kNoPosition;
  if (t < Shape::kLanes) shared.lane_at[t] = kNoPosition;
  __syncthreads();
  const U32 first_out = g.out[segment];
  const Lz4Bytes bytes = bytes_of(s, runs_of(g, s, Shape::kRun, Shape::kSegment), shared.window, low, Shape::kBuffer);
  if (t == 0) {
    U32 p = entry;
    U64 out = first_out;
    shared.met_lane = Shape::kLanes;
    while (p < stop) {
      const U32 lane = (p - start) / Shape::kLaneBytes;
      const U32 path = find_path<Shape>(g, segment, lane, p - start - lane * Shape::kLaneBytes);
      if (path != kUnknown) {
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

// The last of `count` ascending values that is not above x; values[0] is not. For a whole warp.
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

// Puts a tile's sequences into its shared memory. Threads of a whole block.
template <class Shape>
struct Lz4Sequences {
  GraphArrays g;
  std::uint64_t* outcomes;
  unsigned stage;

  // The part (of all of the stream's) that has the token at output position x.
  __device__ U32 part_at_output(const TileStream& s, U32 x) const {
    const U32 segment = warp_last_not_above(g.out + s.first_segment, s.segments, x);
    const U32* const parts = g.part_out + static_cast<U64>(s.first_segment + segment) * Shape::kAllParts;
    return segment * Shape::kAllParts + warp_last_not_above(parts, Shape::kAllParts, x);
  }

  // `first_part` is kept between a stream's tiles. False if the stream is bad.
  template <class Shared>
  __device__ bool put(Shared& shared, const TileStream& s, U32 position, U32 bytes, U32& first_part) const {
    // Tokens that start in the tile lie in as many parts, but for those that a run of literals leaves out.
    constexpr U32 kMost = Shared::kTile / 128 * 129 / Shape::kPartBytes + 128 / Shape::kPartBytes + 8;
    const U32 t = threadIdx.x;
    if (t < 32) {
      const U32 last = part_at_output(s, position + bytes - 1);
      const U32 first = first_part != kNoPosition ? first_part : part_at_output(s, position);
      if (t == 0) {
        shared.first_part = first;
        shared.last_part = last;
      }
    }
    __syncthreads();
    const U32 first = shared.first_part, last = shared.last_part;
    first_part = last;
    const U32 from = last - first <= kMost ? first : last - kMost;
    bool good = true;
    const U32 count = last - from + 2;
    for (U32 i0 = t / 32 * 32; i0 < count; i0 += Shared::kThreads) {
      // The part that has the first byte, and those behind `from`.
      const U32 i = i0 + t % 32, part = i == 0 ? first : from + i - 1;
      U32 p = kNoPosition, out = 0;
      if (i < count && (i == 0 || part != first) && g.entry[s.first_segment + part / Shape::kAllParts] != kNoPosition) {
        const U64 at = static_cast<U64>(s.first_segment) * Shape::kAllParts + part;
        p = g.part_at[at];
        out = g.part_out[at];
      }
      good &= put_part(shared, s, position, bytes, p, (part + 1) * Shape::kPartBytes, out);
    }
    return __syncthreads_or(good ? 0 : 1) == 0;
  }

  // liblz4 refuses a match that begins in the last 12 bytes of the output or ends in the last 5, and one with less than
  // 8 bytes of input behind its literals; but not where a short token far enough from both ends takes a short way, if
  // its offset is 8 or more. An offset of 0 gives zeros.
  template <class Shared>
  __device__ bool put_part(Shared& shared, const TileStream& s, U32 position, U32 bytes, U32 p, U32 stop,
                           U32 out) const {
    const Lz4Bytes source = bytes_of(s, runs_of(g, s, Shape::kRun, Shape::kSegment), nullptr, 0, 0);
    Lz4Token token;
    bool good = true;
    while (__any_sync(kAllLanes, good && p < stop && out < position + bytes)) {
      if (!good || p >= stop || out >= position + bytes) continue;
      const U32 next = parse_token<Shape>(source, p, token);
      if (next == kBadToken) {  // cannot be: this was walked before
        good = false;
        continue;
      }
      const U32 length = token.literals + token.match, match_at = out + token.literals;
      if (out + length > position) {
        U32 offset = 0;
        if (token.match != 0) {
          offset = source.at(token.offset_at) | source.at(token.offset_at + 1) << 8;
          const U32 c = source.at(p);
          const bool far_from_end =
              s.dst_bytes - match_at >= 12 && s.end - token.offset_at >= 8 && s.dst_bytes - match_at >= token.match + 5;
          const bool shortcut = c < 0xf0 && (c & 15) != 15 && s.dst_bytes - out >= 32 && s.end - p > 17 && offset >= 8;
          if (offset > match_at || !(far_from_end || shortcut)) {
            give_up(outcomes, s.chunk, stage, token.offset_at - s.begin,
                    offset > match_at ? device::DecodeReason::kOffset : device::DecodeReason::kLength);
            good = false;
            continue;
          }
        }
        put_sequence(shared, position, out, token.literals, token.literals_at, offset);
      }
      out += length;
      p = next;
    }
    return good;
  }
};

}  // namespace headrace::codec::gpu::tiles

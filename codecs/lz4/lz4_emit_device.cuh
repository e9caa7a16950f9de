// What discovery found becomes sequences for the tiles of one slice. See lz4_graph_device.cuh.
#pragma once

#include "lz4_graph_device.cuh"

namespace headrace::codec::gpu::tiles {

// ---- sequences out ----

template <class Shape>
struct EmitShared {
  alignas(16) U8 window[Shape::kBuffer];
  U32 entry[Shape::kLanes];  // of lanes walked before the first path was met
  U32 out[Shape::kLanes];
  U32 met_lane, met_path, met_out;
};

// A lane's sequences, from p on. Checks what the lengths alone could not tell.
//
// liblz4 refuses a match that begins in the last 12 bytes of the output or ends in the last 5, and one with less than 8
// bytes of input behind its literals; but not where a short token far enough from both ends takes a short way, if its
// offset is 8 or more. An offset of 0 gives zeros.
template <class Shape, U32 tile_bytes>
__device__ inline void emit_lane(const Lz4Bytes& bytes, const TileStream& s, const TileArrays& a,
                                 const SliceRange& range, U32 p, U32 stop, U32 out, std::uint64_t* outcomes,
                                 unsigned stage) {
  StartBits bits;
  Lz4Token token;
  while (p < stop) {
    const U32 next = parse_token<Shape>(bytes, p, token);
    if (next == kBadToken) break;  // cannot be: this was walked before
    const U32 length = token.literals + token.match, match_at = out + token.literals;
    U32 offset = 0;
    if (token.match != 0) {
      offset = bytes.at(token.offset_at) | bytes.at(token.offset_at + 1) << 8;
      const U32 c = bytes.at(p);
      const bool far_from_end = s.dst_bytes - match_at >= 12 && s.end - token.offset_at >= 8 &&
                                s.dst_bytes - match_at >= token.match + 5;
      const bool shortcut =
          c < 0xf0 && (c & 15) != 15 && s.dst_bytes - out >= 32 && s.end - p > 17 && offset >= 8;
      if (offset > match_at || !(far_from_end || shortcut)) {
        give_up(outcomes, s.chunk, stage, token.offset_at - s.begin,
                offset > match_at ? device::DecodeReason::kOffset : device::DecodeReason::kLength);
        break;
      }
    }
    put_sequence<tile_bytes>(a, range, bits, out, token.literals, token.literals_at, length, offset);
    out += length;
    p = next;
  }
  bits.flush(a);
}

// A block takes the segments whose output touches the slice, one after the other.
template <class Shape, U32 tile_bytes>
__device__ inline void emit_sequences(EmitShared<Shape>& shared, const GraphArrays& g, const TileArrays& a,
                                      std::uint64_t* outcomes, unsigned stage) {
  const U32 t = threadIdx.x;
  const TilePlan plan = *g.plan;
  for (U32 segment = blockIdx.x; segment < plan.segments; segment += gridDim.x) {
    const U32 entry = g.entry[segment];
    if (entry == kNoPosition) continue;
    const TileStream s = g.streams[g.segment_stream[segment]];
    const SliceRange range = slice_range<tile_bytes>(s, a);
    const U32 first_out = g.out[segment];
    if (first_out >= range.end || first_out + g.bytes[segment] <= range.begin) continue;
    if (__syncthreads_or(is_bad(outcomes, s.chunk) ? 1 : 0) != 0) continue;
    const U32 start = (segment - s.first_segment) * Shape::kSegment, stop = start + Shape::kSegment;
    const U32 low = start == 0 ? 0 : start - Shape::kWarm;
    const U64* const lanes = g.lanes + static_cast<U64>(segment) * Shape::kLanes;
    fill_window(shared.window, low, Shape::kBuffer, s, t, Shape::kThreads);
    if (t < Shape::kLanes) shared.entry[t] = kNoPosition;
    __syncthreads();
    const Lz4Bytes bytes = bytes_of(s, runs_of(g, s, Shape::kRun, Shape::kSegment), shared.window, low, Shape::kBuffer);
    if (t == 0) {
      U32 p = entry;
      U64 out = first_out;
      shared.met_lane = Shape::kLanes;
      while (p < stop) {
        const U32 own = (p - start) / Shape::kLaneBytes;
        const U64 word = lanes[own];
        if (word != kLaneNone && start + own * Shape::kLaneBytes + lane_entry(word) == p) {
          shared.met_lane = own;
          shared.met_path = lane_path(word);
          shared.met_out = static_cast<U32>(out) - static_cast<U32>(lane_before(word));  // may wrap
          break;
        }
        shared.entry[own] = p;
        shared.out[own] = static_cast<U32>(out);
        p = walk<Shape>(bytes, p, start + (own + 1) * Shape::kLaneBytes, out);
      }
    }
    __syncthreads();
    if (t < Shape::kLanes) {
      U32 p = shared.entry[t], out = shared.out[t];
      const U64 word = lanes[t];
      if (p == kNoPosition && t >= shared.met_lane && word != kLaneNone && lane_path(word) == shared.met_path) {
        p = start + t * Shape::kLaneBytes + lane_entry(word);
        out = shared.met_out + static_cast<U32>(lane_before(word));
      }
      if (p != kNoPosition) {
        emit_lane<Shape, tile_bytes>(bytes, s, a, range, p, start + (t + 1) * Shape::kLaneBytes, out, outcomes, stage);
      }
    }
    __syncthreads();  // the window is used again
  }
}

}  // namespace headrace::codec::gpu::tiles

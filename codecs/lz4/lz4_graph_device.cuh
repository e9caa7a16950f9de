// Token discovery inside one LZ4 block: finds which bytes are tokens, and the output position of each.
//
// Only the first token's position is known, and each token gives the position of the next. But two walks through the
// same bytes that start at different positions soon meet and stay together. Therefore:
//   1. begin_segments: lays out the work, notes where runs of 0xFF end (a length field may be 50,000 bytes of them).
//      skip_literals: marks segments that look like the inside of a long run of literals.
//   2. walk_segment (lz4_paths_device.cuh): one thread block per segment. Each thread walks a lane of the segment from
//      a few neighbouring positions, until it meets one of its earlier walks. Where a walk leaves its lane, the next
//      lane gets a new starting position. The results are paths: chains of walks through the segment that do not meet,
//      and their exits.
//   3. join_segments (lz4_follow_device.cuh): from a path's exit, a warp walks on until it meets a path of the segment
//      there.
//   4. follow_paths: everything reachable from the stream's first token is true; pointer doubling finds it. Where step
//      3 gave up, a warp walks token by token: slow, never wrong. The sums of lengths give output positions.
//   5. list_parts (lz4_sequences_device.cuh): the first true token of each part of a lane, and the output before it.
//      Tiles use this to find their parts, and walk them once more.
//   If a stream passes through a skipped segment, steps 2 to 4 are repeated for it with these segments.
// Correctness depends on no assumption about the bytes: a wrong guess costs only time, and only tokens connected to the
// first one count as true.
//
// Positions are relative to the 16-byte boundary before the stream's first byte, so that aligned loads need no
// adjustment. Included by lz4_tiles.cu, and by tests that run it on the CPU.
#pragma once

#include "lz4_tiles_device.cuh"

namespace headrace::codec::gpu::tiles {

// Positions are below 2^31; these are the special values of a position.
inline constexpr U32 kStreamEnd = 0xfffffffeu, kBadToken = 0xfffffffdu, kUnknown = 0xfffffffcu, kSkipped = 0xfffffffbu;
inline constexpr U32 kLargestLz4 = 0x7e000000u;  // LZ4_MAX_INPUT_SIZE
inline constexpr U32 kTooMuch = 0xffffffffu;     // saturated output size

inline constexpr U32 kNoEntry = 0xff;

// kLaneBytes: bytes that one walk covers. A segment has kLanes lanes; kWarmLanes before it improve the guess for the
// first.
template <U32 lane_bytes, U32 lanes, U32 warm_lanes, U32 run_bytes>
struct GraphShape {
  static constexpr U32 kLaneBytes = lane_bytes, kLanes = lanes, kWarmLanes = warm_lanes;
  static constexpr U32 kThreads = lanes + warm_lanes;
  static constexpr U32 kSegment = lane_bytes * lanes, kWarm = lane_bytes * warm_lanes;
  static constexpr U32 kRun = run_bytes;  // bytes per entry of the table of runs
  // Bytes read past the segment: a token with one byte of each length, and its literals.
  static constexpr U32 kHalo = 320;
  static constexpr U32 kBuffer = (kWarm + kSegment + kHalo + 15) / 16 * 16;
  static constexpr U32 kGuesses = 2;                // neighbouring positions at which each lane starts
  static constexpr U32 kNodes = 4;                  // walks that a lane keeps, at most 15
  static constexpr U32 kRounds = 3;                 // rounds of walking from positions found in the round before
  static constexpr U32 kCandidates = 5 * kGuesses;  // for paths
  static constexpr U32 kParts = 4;                  // per lane; one thread walks each when it is put into a tile
  static constexpr U32 kPartBytes = lane_bytes / kParts, kAllParts = lanes * kParts;
  static constexpr U32 kMeet = 16;     // lanes after which walks that have met count as one
  static constexpr U32 kPaths = 4;     // that a segment keeps
  static constexpr U32 kLandings = 8;  // segments that join_segments passes through before it gives up
  static_assert(kThreads % 32 == 0 && kSegment % run_bytes == 0 && run_bytes % 16 == 0 && kWarm % 16 == 0);
  static_assert(lane_bytes % 16 == 0 && lane_bytes < kNoEntry && lanes >= warm_lanes);
};

struct Landing {
  U64 bytes;  // output of this segment's tokens from here on
  U32 at, padding;
};

// Arrays in scratch; indexed by segment unless noted.
struct GraphArrays {
  TilePlan* plan;
  TileStream* streams;
  U32* segment_stream;
  U8* skip;            // whether it is probably literals
  U8* retry;           // by stream: it passes through skipped segments
  U32* tile_stream;    // by tile
  U32* last_part;      // by tile: the part of the stream that produces its last byte
  U32* tile_cost;      // by tile, unless streams are taken as a whole
  U16* runs;           // by kRun bytes: number of leading 0xFF bytes, or 0xffff if all are
  U8* lane_entry;      // kPaths * kLanes each: where the path enters the lane, relative to its start, or kNoEntry
  U32* lane_after;     // kPaths * kLanes each: output of the path from there on, or more than a stream can have
  U32* path_count;     //
  U32* path_exit;      // kPaths each: position, kStreamEnd or kBadToken
  U32* edge;           // kPaths each: path (of the stream) that the exit leads to, or kStreamEnd, kBadToken, kUnknown
  U32* landing_count;  // kPaths each
  U32* edge_at;        // kPaths each: where to continue walking if unknown
  Landing* landings;   // kPaths * kLandings each
  U32* entry;          // the first true token, or kNoPosition
  U64* bytes;          // output from there to the end of the segment
  U32* out;            // output before
  U32* part_at;        // kAllParts each, if entered: the first true token, or kNoPosition
  U32* part_out;       // kAllParts each, if entered: output before it
};

// Index of byte d in a window. Threads that walk lanes of 128 bytes in step would all access the same bank, unless
// `pad` is 4. If they soon fall out of step, padding costs more than it saves.
__device__ inline constexpr U32 window_place(U32 d, U32 pad) { return d + d / 128 * pad; }

// A stream's bytes, some of them in shared memory.
struct Lz4Bytes {
  const U8* window;
  U32 low, size;  // positions that the window covers
  const U8* base;
  U32 end;
  const U16* runs;
  U32 longest_run;  // a longer run of 0xFF would mean more bytes than the output has
  U32 pad;          // of the window

  __device__ U32 at(U32 p) const {
    if (p - low < size) return window[window_place(p - low, pad)];
    return p < end ? base[p] : 0;
  }
};

__device__ inline Lz4Bytes bytes_of(const TileStream& s, const U16* runs_of_stream, const U8* window, U32 low, U32 size,
                                    U32 pad = 0) {
  return {window, low, size, s.base, s.end, runs_of_stream, s.longest_run, pad};
}

// The first position at or after p whose byte is not 0xFF; s.end or more if there is none or the run is too long.
template <class Shape>
__device__ inline U32 after_run(const Lz4Bytes& s, U32 p) {
  const U32 start = p;
  for (U32 i = 0; i < 16; ++i, ++p) {
    if (p >= s.end || s.at(p) != 255) return p;
  }
  for (; p % 16 != 0; ++p) {
    if (p >= s.end || s.base[p] != 255) return p;
  }
  for (; p % Shape::kRun != 0; p += 16) {
    if (p + 16 > s.end) {
      while (p < s.end && s.base[p] == 255) ++p;
      return p;
    }
    const uint4 v = *reinterpret_cast<const uint4*>(s.base + p);
    if ((v.x & v.y & v.z & v.w) != 0xffffffffu) {
      for (U32 i = 0; i < 16 && s.base[p] == 255; ++i) ++p;
      return p;
    }
  }
  const U32 entries = (s.end + Shape::kRun - 1) / Shape::kRun;
  for (U32 e = p / Shape::kRun; e < entries && e * Shape::kRun - start <= s.longest_run; e += 8) {
    U32 run[8];
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 8; ++k) run[k] = e + k < entries ? s.runs[e + k] : 0;
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 8; ++k) {
      if (run[k] != 0xffff) return (e + k) * Shape::kRun + run[k];
    }
  }
  return s.end;
}

struct Lz4Token {
  U32 literals, literals_at, match, offset_at;  // match is 0 in the last token
  U32 offset;                                   // set by parse_short()
};

// Parses the bytes at p as a token. Returns the next token's position, kStreamEnd or kBadToken. Rules that depend on
// the output position are checked by Lz4Sequences. https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
template <class Shape>
__device__ inline U32 parse_token(const Lz4Bytes& s, U32 p, Lz4Token& token) {
  const U32 c = s.at(p);
  U32 literals = c >> 4, q = p + 1;
  if (literals == 15) {
    const U32 more = s.at(q);
    if (more != 255) {
      literals += more;
      ++q;
    } else {
      const U32 z = after_run<Shape>(s, q + 1);
      if (z >= s.end || z - q > s.longest_run) return kBadToken;
      literals = 15 + 255 * (z - q) + s.at(z);
      q = z + 1;
    }
  }
  if (q > s.end || literals > s.end - q) return kBadToken;
  token.literals = literals;
  token.literals_at = q;
  q += literals;
  token.match = 0;
  if (q == s.end) return kStreamEnd;
  if (s.end - q < 3) return kBadToken;  // an offset and another token
  token.offset_at = q;
  q += 2;
  U32 match = c & 15;
  if (match == 15) {
    const U32 more = s.at(q);
    if (more != 255) {
      match += more;
      ++q;
    } else {
      const U32 z = after_run<Shape>(s, q + 1);
      if (z >= s.end || z - q > s.longest_run) return kBadToken;
      match = 15 + 255 * (z - q) + s.at(z);
      q = z + 1;
    }
  }
  token.match = match + 4;
  return q < s.end ? q : kBadToken;
}

// The next token's position, if all relevant bytes are in the window and the stream, and no length has more than one
// byte; `length` is this token's output. Otherwise 0.
__device__ inline U32 next_in_window(const Lz4Bytes& s, U32 p, U32& length) {
  const U32 at = p - s.low, c = s.window[window_place(at, s.pad)];
  U32 literals = c >> 4, match = c & 15, next = at + 3;
  bool long_run = false;
  if (literals == 15) {
    const U32 more = s.window[window_place(at + 1, s.pad)];
    literals += more;
    ++next;
    long_run = more == 255;
  }
  next += literals;
  if (match == 15) {
    const U32 more = s.window[window_place(next++, s.pad)];
    match += more;
    long_run |= more == 255;
  }
  length = literals + match + 4;
  return long_run ? 0 : next + s.low;
}
inline constexpr U32 kLongestShort = 280;  // a token, 15 + 254 literals, their length byte, the offset, a length byte
// Whether next_in_window() may be used for tokens before `stop`.
__device__ inline bool all_in_window(const Lz4Bytes& s, U32 p, U32 stop) {
  return p >= s.low && stop + kLongestShort <= s.low + s.size && stop + kLongestShort < s.end;
}

// Advances past the token at p, which must be before `stop`. `fast`: the result of all_in_window().
template <class Shape>
__device__ inline U32 step(const Lz4Bytes& s, bool fast, U32 p, U32& length) {
  U32 next = fast ? next_in_window(s, p, length) : 0;
  if (next == 0) {
    Lz4Token token;
    next = parse_token<Shape>(s, p, token);
    length = next == kBadToken ? 0 : token.literals + token.match;
  }
  return next;
}

// Walks token by token until `stop` and adds their output to `sum`. By one thread.
template <class Shape>
__device__ inline U32 walk(const Lz4Bytes& s, U32 p, U32 stop, U64& sum) {
  const bool fast = all_in_window(s, p, stop);
  while (p < stop) {
    U32 length;
    p = step<Shape>(s, fast, p, length);
    sum += length;
  }
  return p;
}

// Loads positions [low, low + size) into shared memory, with zeros where the stream has no bytes. low, size: multiples
// of 16.
__device__ inline void fill_window(U8* window, U32 low, U32 size, const TileStream& s, U32 thread, U32 threads,
                                   U32 pad = 0) {
  for (U32 i = thread * 16; i < size; i += threads * 16) {
    const U32 p = low + i;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (p >= s.begin && p + 16 <= s.end) {
      v = *reinterpret_cast<const uint4*>(s.base + p);
    } else if (p < s.end) {
      U32 word[4] = {0, 0, 0, 0};
      HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 16; ++k) {
        if (p + k >= s.begin && p + k < s.end) word[k / 4] |= static_cast<U32>(s.base[p + k]) << (8 * (k % 4));
      }
      v = make_uint4(word[0], word[1], word[2], word[3]);
    }
    if (pad == 0) {
      *reinterpret_cast<uint4*>(window + i) = v;
    } else {
      auto* const to = reinterpret_cast<U32*>(window + window_place(i, pad));
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
  }
}

// ---- layout of the work ----

// Exclusive prefix sum over the lanes; `all` is the total.
__device__ inline U64 warp_sum_before(U64 value, U32 lane, U64& all) {
  U64 sum = value;
  for (U32 d = 1; d < 32; d *= 2) {
    const U32 low = __shfl_up_sync(kAllLanes, static_cast<U32>(sum), d);
    const U32 high = __shfl_up_sync(kAllLanes, static_cast<U32>(sum >> 32), d);
    if (lane >= d) sum += static_cast<U64>(high) << 32 | low;
  }
  const U32 low = __shfl_sync(kAllLanes, static_cast<U32>(sum), 31);
  const U32 high = __shfl_sync(kAllLanes, static_cast<U32>(sum >> 32), 31);
  all = static_cast<U64>(high) << 32 | low;
  return sum - value;
}
// The same over a block; `sums` has room for one value per warp.
__device__ inline U64 block_sum_before(U64 value, U64* sums, U64& all) {
  const U32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  U64 warp_all;
  U64 before = warp_sum_before(value, lane, warp_all);
  __syncthreads();  // sums may still be in use by the previous call
  if (lane == 0) sums[warp] = warp_all;
  __syncthreads();
  all = 0;
  for (U32 i = 0; i < warps; ++i) {
    if (i < warp) before += sums[i];
    all += sums[i];
  }
  return before;
}

// The sum of the values of the higher threads.
__device__ inline U64 block_sum_after(U64 value, U64* sums) {
  U64 all;
  const U64 before = block_sum_before(value, sums, all);
  return all - before - value;
}

struct PlanShared {
  U64 sums[32];
  U32 longest;  // maximum number of tiles of a stream
};

__device__ __forceinline__ bool goes_by_tiles(const Lz4Stream& s, const TileLeast& least) {
  return s.dst_bytes >= least.from && s.dst_bytes <= kLargestLz4 && s.src_bytes <= kLargestLz4 &&
         ((s.kind == Lz4Kind::kBlock && s.src_bytes >= least.src && s.dst_bytes >= least.dst) ||
          (s.kind == Lz4Kind::kStored && s.dst_bytes >= least.stored));
}

// By one block: selects the streams that go by tiles, and lays out their segments and tiles. `rest`, if given, becomes
// the list without them; it may be the same list. `blocks`: number of blocks that will decode tiles.
template <class Shape, U32 tile_bytes>
__device__ inline void plan_streams(PlanShared& shared, const Lz4Stream* streams, U32 count, const TileLeast& least,
                                    const TilePlan& most, const GraphArrays& g, U32 blocks, Lz4Stream* rest) {
  if (threadIdx.x == 0) shared.longest = 0;
  U32 streams_before = 0, segments_before = 0, tiles_before = 0;
  for (U32 i0 = 0; i0 < count; i0 += blockDim.x) {
    const U32 i = i0 + threadIdx.x;
    TileStream s{};
    bool ours = false;
    U32 segments = 0, tiles = 0;
    if (i < count) {
      const Lz4Stream in = streams[i];
      ours = goes_by_tiles(in, least);
      const U32 skew = static_cast<U32>(reinterpret_cast<std::uintptr_t>(in.src) % 16);
      s.base = in.src - skew;
      s.dst = in.dst;
      s.begin = skew;
      s.end = skew + in.src_bytes;
      s.dst_bytes = in.dst_bytes;
      s.chunk = in.chunk;
      s.stored = in.kind == Lz4Kind::kStored ? 1 : 0;
      s.longest_run = in.dst_bytes / 255 + 1;
      if (ours) {
        segments = s.stored != 0 ? 0 : (s.end + Shape::kSegment - 1) / Shape::kSegment;
        tiles = (in.dst_bytes + tile_bytes - 1) / tile_bytes;
      }
    }
    U64 all;
    const U64 packed = block_sum_before(static_cast<U64>(ours ? 1 : 0) << 32 | segments, shared.sums, all);
    U64 all_tiles;
    const U64 tiles_here = block_sum_before(tiles, shared.sums, all_tiles);
    if (ours) {
      const U32 slot = streams_before + static_cast<U32>(packed >> 32);
      s.first_segment = segments_before + static_cast<U32>(packed);
      s.segments = segments;
      s.first_tile = tiles_before + static_cast<U32>(tiles_here);
      s.tiles = tiles;
      atomicMax(&shared.longest, tiles);
      if (slot < most.streams) g.streams[slot] = s;
    }
    streams_before += static_cast<U32>(all >> 32);
    segments_before += static_cast<U32>(all);
    tiles_before += static_cast<U32>(all_tiles);
  }
  TilePlan plan{};
  plan.streams = streams_before;
  plan.segments = segments_before;
  plan.tiles = tiles_before;
  plan.slices = 1;
  if (plan.streams > most.streams || plan.segments > most.segments || plan.tiles > most.tiles) {
    // Exceeds the limits that the caller gave: no stream goes by tiles.
    plan = TilePlan{};
  }
  for (U32 i = threadIdx.x; i < count && rest != nullptr; i += blockDim.x) {
    Lz4Stream in = streams[i];
    if (in.dst_bytes < least.from) continue;  // another launch may be working on it
    if (plan.streams != 0 && goes_by_tiles(in, least)) in.kind = Lz4Kind::kNone;
    rest[i] = in;
  }
  __syncthreads();
  // Taking whole streams saves the rest of the work, so one block for the longest may take twice the time that all
  // blocks would take for everything.
  plan.whole = static_cast<U64>(shared.longest) * blocks <= U64{2} * plan.tiles ? 1 : 0;
  if (plan.whole == 0 && plan.tiles > most.slots) {
    const U32 slice = most.slots - plan.streams;  // each stream may round up its share
    plan.slices = (plan.tiles + slice - 1) / slice;
  }
  for (U32 i0 = 0; i0 < plan.streams; i0 += blockDim.x) {
    const U32 i = i0 + threadIdx.x;
    const U32 share = i < plan.streams ? (g.streams[i].tiles + plan.slices - 1) / plan.slices : 0;
    U64 all;
    const U64 before = block_sum_before(share, shared.sums, all);
    if (i < plan.streams) {
      g.streams[i].share = share;
      g.retry[i] = 0;
      g.streams[i].first_slot = plan.slots + static_cast<U32>(before);
    }
    plan.slots += static_cast<U32>(all);
  }
  if (threadIdx.x == 0) *g.plan = plan;
}

// The stream that contains `index`, by first segment or first tile. Skips streams without any.
template <class First>
__device__ inline U32 stream_of(const TilePlan& plan, U32 index, First first) {
  U32 low = 0, high = plan.streams;  // first(low) <= index < first(high)
  while (high - low > 1) {
    const U32 middle = low + (high - low) / 2;
    if (first(middle) <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// One warp per segment: sets its stream and its runs.
template <class Shape>
__device__ inline void begin_segments(const GraphArrays& g, U32* slot_stream) {
  const TilePlan plan = *g.plan;
  const U32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (U32 tile = thread; tile < plan.tiles; tile += threads) {
    g.tile_stream[tile] = stream_of(plan, tile, [&](U32 i) { return g.streams[i].first_tile; });
  }
  for (U32 slot = thread; slot < plan.slots && plan.whole == 0; slot += threads) {
    slot_stream[slot] = stream_of(plan, slot, [&](U32 i) { return g.streams[i].first_slot; });
  }
  const U32 lane = threadIdx.x % 32;
  const U32 warps = gridDim.x * (blockDim.x / 32);
  for (U32 segment = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; segment < plan.segments; segment += warps) {
    const U32 index = stream_of(plan, segment, [&](U32 i) { return g.streams[i].first_segment; });
    const TileStream s = g.streams[index];
    const U32 start = (segment - s.first_segment) * Shape::kSegment;
    if (lane == 0) {
      g.segment_stream[segment] = index;
      g.skip[segment] = 0;
      g.entry[segment] = kNoPosition;
    }
    U16* const runs = g.runs + static_cast<U64>(segment) * (Shape::kSegment / Shape::kRun);
    for (U32 r = 0; r < Shape::kSegment / Shape::kRun; ++r) {
      U32 first = 0xffff;
      for (U32 i = 0; i < Shape::kRun && first == 0xffff; i += 512) {
        const U32 at = i + lane * 16, p = start + r * Shape::kRun + at;
        U32 mine = 16;  // leading 0xFF bytes of these 16
        if (at < Shape::kRun) {
          if (p >= s.begin && p + 16 <= s.end) {
            const uint4 v = *reinterpret_cast<const uint4*>(s.base + p);
            if ((v.x & v.y & v.z & v.w) != 0xffffffffu) {
              const U32 word = v.x != 0xffffffffu ? 0 : v.y != 0xffffffffu ? 1 : v.z != 0xffffffffu ? 2 : 3;
              const U32 bits = word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
              mine = word * 4 + (__ffs(static_cast<int>(~bits)) - 1) / 8;
            }
          } else {
            for (mine = 0; mine < 16 && p + mine >= s.begin && p + mine < s.end && s.base[p + mine] == 255;) ++mine;
          }
        }
        const U32 vote = __ballot_sync(kAllLanes, mine < 16);
        if (vote != 0) {
          const U32 who = static_cast<U32>(__ffs(static_cast<int>(vote))) - 1;
          first = i + who * 16 + __shfl_sync(kAllLanes, mine, static_cast<int>(who));
        }
      }
      if (lane == 0) runs[r] = static_cast<U16>(first);
    }
  }
}

__device__ inline const U16* runs_of(const GraphArrays& g, const TileStream& s, U32 run_bytes, U32 segment_bytes) {
  return g.runs + static_cast<U64>(s.first_segment) * (segment_bytes / run_bytes);
}

__device__ inline bool all_ones(const TileStream& s, U32 p) {
  if (p < s.begin || p + 16 > s.end) return false;
  const uint4 v = *reinterpret_cast<const uint4*>(s.base + p);
  return (v.x & v.y & v.z & v.w) == 0xffffffffu;
}

// One warp per segment. A run of at least 257 bytes of 0xFF covers one of each 128 bytes. If the byte before it can be
// a token with literals, the run is probably their length, and segments inside the literals need not be walked: half of
// a shuffled field often consists of such literals. (If it were a match's length, that byte would be half of an offset
// above 61,439.)
template <class Shape>
__device__ inline void skip_literals(const GraphArrays& g) {
  constexpr U32 kApart = 128;
  const U32 segments = g.plan->segments, lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  for (U32 segment = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; segment < segments; segment += warps) {
    const TileStream s = g.streams[g.segment_stream[segment]];
    const U32 start = (segment - s.first_segment) * Shape::kSegment;
    for (U32 i = lane * kApart; i < Shape::kSegment; i += 32 * kApart) {
      const U32 p = (start + i + kApart - 1) / kApart * kApart;
      if (p >= start + Shape::kSegment || !all_ones(s, p) || (p >= kApart && all_ones(s, p - kApart))) continue;
      U32 first = p;
      while (first >= 16 && all_ones(s, first - 16)) first -= 16;
      while (first > s.begin && s.base[first - 1] == 255) --first;
      if (first == s.begin || s.base[first - 1] < 0xf0) continue;
      const Lz4Bytes bytes = bytes_of(s, runs_of(g, s, Shape::kRun, Shape::kSegment), nullptr, 0, 0);
      const U32 last = after_run<Shape>(bytes, p);
      if (last >= s.end) continue;
      const U64 end = static_cast<U64>(last) + 1 + 15 + U64{255} * (last - first) + s.base[last];
      const U32 stop = static_cast<U32>(end < s.end ? end : s.end) / Shape::kSegment;
      for (U32 k = last / Shape::kSegment + 1; k < stop; ++k) g.skip[s.first_segment + k] = 1;
    }
  }
}

}  // namespace headrace::codec::gpu::tiles

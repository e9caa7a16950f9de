// Small LZ4 streams: a thread block's shared memory, and token discovery. lz4_small_device.cuh gives the overview.
#pragma once

#include "lz4_walk_device.cuh"

namespace headrace::codec::gpu::small {

using U8 = unsigned char;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

inline constexpr U32 kSegment = 32;
// Bytes past a window: a token with one byte of each length, and its literals.
inline constexpr U32 kHalo = 320;
// Codes for a walk that reaches no other segment; kFar: its end is too far away for `leave` to encode, or known only
// after walking it.
inline constexpr U32 kEnd = 0xffff, kBad = 0xfffe, kFar = 0xfffd;
// The same codes, as positions.
inline constexpr U32 kAtEnd = 0xffffffff, kAtBad = 0xfffffffe, kAtFar = 0xfffffffd;
// A segment in which no token begins.
inline constexpr U32 kNoEntry = kSegment;
// A cell: how far back its byte comes from, or a literal. If other blocks decode the bytes before the window, also
// kOutside plus the output position of its source, which is before the window.
inline constexpr U32 kLiteral = 0xff00, kOutside = 0x10000;
// Cells of a stripe per thread, so that latencies overlap.
inline constexpr U32 kEach = 4;

// kMax: maximum output bytes of a stream; kMaxSource: maximum input, the most that LZ4 can make of that output. The
// window sizes are bytes of input and of output. Cells of 32 bits may refer outside of their window.
template <U32 most_bytes, U32 in_window, U32 out_window, U32 threads, class CellType = U16>
struct Shape {
  using Cell = CellType;
  static constexpr bool kLeadsOutside = sizeof(Cell) == 4;
  static constexpr U32 kStripe = kEach * threads;
  static constexpr U32 kMax = most_bytes, kIn = in_window, kOut = out_window, kThreads = threads;
  static constexpr U32 kMaxSource = most_bytes + most_bytes / 255 + 16;
  static constexpr U32 kSegments = (kMaxSource + 3 + kSegment - 1) / kSegment;  // 3: to the boundary before it
  static_assert(in_window <= 32768 && in_window % kSegment == 0 && in_window / kSegment <= threads);
  static_assert(out_window <= 32768 && out_window % 64 == 0 && out_window / 64 <= threads);
  static constexpr U32 kWays = threads < 128 ? threads / 32 : 4;  // walks through a range of segments
  static_assert(threads % 32 == 0 && threads <= 1024 && most_bytes <= 1u << 18);
};

// Cells that a token occupies, out of the at least four bytes that it produces, until these become cells: position of
// its literals, their number, the offset of its match, and the rest of the position.
inline constexpr U32 kTokenCells = 4;

// The token that begins before the window and reaches into it.
struct HeadToken {
  U32 literals, literals_at, offset;
  U32 done;  // bytes of it before the window
};

template <class S>
struct Shared {
  // One padding word per segment, so that threads that walk their segments in step access different banks.
  U32 in[(S::kIn + kHalo) / 32 * 9 + 9];
  U8 lead[S::kIn / kSegment];
  union {
    U16 leave[S::kIn / 32 * 34];
    typename S::Cell cell[S::kOut + kTokenCells];
  };
  typename S::Cell resolved[2][S::kStripe];  // cells of a stripe: how far back, or the literal
  U32 starts[S::kOut / 32];                  // a bit for each byte: whether a token's output begins there
  U16 last_start[S::kOut / 32];              // 1 + the last of them in earlier words; 0: none
  U32 before[S::kSegments + 1];  // output before each segment, times 64, plus the position of its first token in it
  U32 sums[S::kThreads / 32];
  U32 way_entry[S::kWays][32], way_exit[S::kWays][32];
  HeadToken head;
  U32 position;
};

__device__ __forceinline__ U32 padded(U32 p) { return p + (p >> 5) * 4; }        // index of a byte of `in`
__device__ __forceinline__ U32 padded_entry(U32 p) { return p + (p >> 5) * 2; }  // index of an entry of `leave`

// A stream's bytes, some of them in shared memory. Positions are relative to the 4-byte boundary before the first one.
struct Input {
  const U8* base;
  const U8* window;
  const U8* lead;  // for each segment of the window: how many leading bytes are 0xFF
  U32 low, size;   // positions that the window covers; low is a multiple of kSegment. Zeros past the stream's end
  U32 begin, end;
  U32 most;  // upper bound on runs and matches of a good stream

  __device__ __forceinline__ U32 in_window(U32 p) const { return window[padded(p - low)]; }
  __device__ __forceinline__ U32 at(U32 p) const { return p - low < size ? in_window(p) : base[p]; }
  // Whether parse_short() may be used for tokens that begin in the segment at `first`.
  __device__ __forceinline__ bool has_segment(U32 first) const {
    return first - low < size && first - low + kSegment + kHalo <= size;
  }
};

struct Token {
  U32 literals, literals_at, match;  // match is 0 in the last token
  U32 offset_at;
};

// The first byte at or after p that is not 0xFF. If the run is longer than any length of a good stream, that byte or
// another one. 0 if it is not in the window and `outside` does not permit reading beyond.
__device__ __forceinline__ U32 after_run(const Input& in, U32 p, bool outside = true) {
  const U32 longest = p + in.most / 255 + 2, stop = longest < in.end ? longest : in.end;
  while (p < stop) {
    if (p % kSegment == 0 && in.has_segment(p)) {
      const U32 lead = in.lead[(p - in.low) / kSegment];
      p += lead;
      if (lead < kSegment) break;
    } else if (!outside && !in.has_segment(p / kSegment * kSegment)) {
      return 0;
    } else if (p % 4 == 0 && p + 4 <= stop && *reinterpret_cast<const U32*>(in.base + p) == 0xffffffff) {
      p += 4;
    } else if (in.at(p) == 255) {
      ++p;
    } else {
      break;
    }
  }
  return p < stop ? p : stop;
}

// Reads a length's further bytes. Returns false if they do not end, or exceed any stream. `run_end`: after_run() of q,
// or 0.
__device__ __forceinline__ bool add_length(const Input& in, U32& q, U32& length, U32 run_end) {
  if (q >= in.end) return false;
  U32 last = in.at(q);
  if (last == 255) {
    const U32 z = run_end != 0 ? run_end : after_run(in, q);
    if (z >= in.end) return false;
    last = in.at(z);
    length += 255 * (z - q);
    q = z;
  }
  length += last;
  ++q;
  return length <= in.most;
}

// Parses the bytes at p as a token. Returns the next one's position, or kAtEnd or kAtBad. `run_end`: after_run() of p
// + 1, or 0. Without `outside`, returns kAtFar if that requires scanning a run of 0xFF outside the window.
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
__device__ __forceinline__ U32 parse(const Input& in, U32 p, Token& token, U32 run_end = 0, bool outside = true) {
  const U32 c = in.at(p);
  U32 literals = c >> 4, q = p + 1;
  token.literals = token.match = token.literals_at = token.offset_at = 0;
  if (literals == 15 && !add_length(in, q, literals, run_end)) return kAtBad;
  if (literals > in.end - q) return kAtBad;
  token.literals = literals;
  token.literals_at = q;
  q += literals;
  if (q == in.end) return kAtEnd;
  if (in.end - q < 3) return kAtBad;  // an offset and another token
  token.offset_at = q;
  q += 2;
  U32 match = c & 15;
  if (match == 15) {
    U32 match_run_end = 0;
    if (!outside && in.at(q) == 255) {
      match_run_end = after_run(in, q, false);
      if (match_run_end == 0) return kAtFar;
    }
    if (!add_length(in, q, match, match_run_end)) return kAtBad;
  }
  if (q >= in.end) return kAtBad;
  token.match = match + 4;
  return q;
}

// The same for tokens whose lengths have at most one byte each; otherwise 0. REQUIRES: has_segment() for p's segment.
__device__ __forceinline__ U32 parse_short(const Input& in, U32 p, Token& token) {
  const U32 c = in.in_window(p);
  U32 literals = c >> 4, match = c & 15, q = p + 1;
  bool longer = false;
  if (literals == 15) {
    const U32 more = in.in_window(q++);
    literals += more;
    longer = more == 255;
  }
  token.literals = literals;
  token.literals_at = q;
  q += literals;
  token.offset_at = q;
  q += 2;
  if (match == 15) {
    const U32 more = in.in_window(q++);
    match += more;
    longer |= more == 255;
  }
  token.match = match + 4;
  if (longer) return 0;
  if (q < in.end) return q;
  token.match = 0;
  return token.offset_at == in.end ? kAtEnd : kAtBad;
}
__device__ __forceinline__ U32 step(const Input& in, bool fast, U32 p, Token& token) {
  const U32 next = fast ? parse_short(in, p, token) : 0;
  return next != 0 ? next : parse(in, p, token);
}

// By all threads: loads a window from `low` on, reading only the stream's bytes.
template <class S>
__device__ __forceinline__ void load(Shared<S>& shared, Input& in, U32 low) {
  in.low = low;
  in.size = S::kIn + kHalo;
  for (U32 word = threadIdx.x; word < (S::kIn + kHalo) / 4; word += S::kThreads) {
    const U32 p = low + word * 4;
    U32 value = 0;
    if (p >= in.begin && p + 4 <= in.end) {
      value = *reinterpret_cast<const U32*>(in.base + p);
    } else {
      for (U32 k = 0; k < 4; ++k) {
        if (p + k >= in.begin && p + k < in.end) value |= static_cast<U32>(in.base[p + k]) << (8 * k);
      }
    }
    shared.in[word + word / 8] = value;
  }
  __syncthreads();
  if (threadIdx.x < S::kIn / kSegment) {
    const U32* const words = &shared.in[threadIdx.x * (kSegment / 4 + 1)];
    U32 lead = 0;
    while (lead < kSegment && words[lead / 4] == 0xffffffff) lead += 4;
    if (lead < kSegment) lead += static_cast<U32>(__ffs(~words[lead / 4]) - 1) / 8;
    shared.lead[threadIdx.x] = static_cast<U8>(lead);
  }
  __syncthreads();
}

// The code in `leave` for a walk that comes from inside a segment to `next`.
template <class S>
__device__ __forceinline__ U32 code_of(const Shared<S>& shared, const Input& in, U32 next, U32 stop) {
  if (next < stop) return shared.leave[padded_entry(next - in.low)];
  if (next - in.low < kFar) return next - in.low;
  return next == kAtEnd ? kEnd : next == kAtBad ? kBad : kFar;
}

// A token whose match length continues in a run of 0xFF outside the window becomes kFar, to be parsed only if it is
// reached: there may be hundreds of them, if literals lead there from a run inside.
template <class S>
__device__ __forceinline__ void map_segment_exits(Shared<S>& shared, const Input& in) {
  const U32 first = in.low + threadIdx.x * kSegment;
  if (threadIdx.x >= S::kIn / kSegment || first >= in.end) return;
  const U32 begin = first > in.begin ? first : in.begin, stop = first + kSegment < in.end ? first + kSegment : in.end;
  const bool fast = in.has_segment(first);
  Token token;
  // The end of the current run of 0xFF, so that its bytes need not search for it.
  U32 run_end = after_run(in, stop), p = stop;
  // Two at a time: a token has at least 3 bytes, so neither depends on the other.
  for (; fast && p >= begin + 2; p -= 2) {
    const U32 last = in.in_window(p - 1), other = in.in_window(p - 2);
    U32 next = parse_short(in, p - 1, token), before = parse_short(in, p - 2, token);
    if (next == 0) next = parse(in, p - 1, token, run_end, false);
    if (last != 255) run_end = p - 1;
    if (before == 0) before = parse(in, p - 2, token, run_end, false);
    if (other != 255) run_end = p - 2;
    const U32 code = code_of(shared, in, next, stop), code_before = code_of(shared, in, before, stop);
    shared.leave[padded_entry(p - 1 - in.low)] = static_cast<U16>(code);
    shared.leave[padded_entry(p - 2 - in.low)] = static_cast<U16>(code_before);
  }
  for (; p > begin; --p) {
    const U32 next = parse(in, p - 1, token, run_end, false);
    if (in.at(p - 1) != 255) run_end = p - 1;
    shared.leave[padded_entry(p - 1 - in.low)] = static_cast<U16>(code_of(shared, in, next, stop));
  }
}

// Where the walk from p leaves its segment.
template <class S>
__device__ __forceinline__ U32 leave(const Shared<S>& shared, const Input& in, U32 p) {
  const U32 code = shared.leave[padded_entry(p - in.low)];
  if (code < kFar) return in.low + code;
  if (code != kFar) return code == kEnd ? kAtEnd : kAtBad;
  const U32 behind = (p / kSegment + 1) * kSegment;
  Token token;
  while (p < behind) p = parse(in, p, token);
  return p;
}

// A range of a window's segments: [first, last).
struct Range {
  U32 first, last;
};
template <class S>
__device__ __forceinline__ Range range_of(const Input& in, U32 lane) {
  const U32 left = (in.end - in.low + kSegment - 1) / kSegment, low = in.low / kSegment;
  const U32 segments = left < S::kIn / kSegment ? left : S::kIn / kSegment, share = (segments + 31) / 32;
  const U32 first = lane * share < segments ? lane * share : segments;
  return {low + first, low + (first + share < segments ? first + share : segments)};
}

// By the threads of S::kWays warps: walks through the ranges, each warp from a guess of its own.
template <class S>
__device__ __forceinline__ void walk_guesses(Shared<S>& shared, const Input& in, U32 p) {
  constexpr U32 kEarly = 16;  // segments
  const U32 lane = threadIdx.x % 32, way = threadIdx.x / 32;
  const Range range = range_of<S>(in, lane);
  U32 at = range.first > in.low / kSegment + kEarly ? (range.first - kEarly) * kSegment + way : p;
  while (at < range.first * kSegment) at = leave(shared, in, at);
  shared.way_entry[way][lane] = at;
  while (at < range.last * kSegment) at = leave(shared, in, at);
  shared.way_exit[way][lane] = at;
}

// By the first warp: finds where the walk from `p`, in the window or after it, enters each lane's range. Returns where
// it leaves the window.
template <class S>
__device__ __forceinline__ U32 chain_ranges(const Shared<S>& shared, const Input& in, U32 p, U32& from) {
  const U32 lane = threadIdx.x;
  const Range range = range_of<S>(in, lane);
  U32 entry[S::kWays], exit[S::kWays], to = 0;
  from = p;
  for (U32 way = 0; way < S::kWays; ++way) {
    entry[way] = shared.way_entry[way][lane];
    exit[way] = shared.way_exit[way][lane];
  }
  for (U32 turn = 0; turn < 32; ++turn) {
    if (lane == turn) {
      bool known = false;
      for (U32 way = 0; way < S::kWays; ++way) {
        if (entry[way] != from) continue;
        to = exit[way];
        known = true;
      }
      if (!known) {
        to = from;
        while (to < range.last * kSegment) to = leave(shared, in, to);
      }
    }
    const U32 came = __shfl_sync(kAllLanes, to, turn);
    if (lane == turn + 1) from = came;
  }
  return __shfl_sync(kAllLanes, to, 31);
}

// By the first warp: records where that walk enters the segments of the lane's range.
template <class S>
__device__ __forceinline__ void enter_segments(Shared<S>& shared, const Input& in, U32 from) {
  const Range range = range_of<S>(in, threadIdx.x);
  for (U32 segment = range.first; segment < range.last;) {
    const U32 next = from / kSegment < range.last ? from / kSegment : range.last;
    for (; segment < next; ++segment) shared.before[segment] = kNoEntry;
    if (segment == range.last) break;
    shared.before[segment++] = from % kSegment;
    from = leave(shared, in, from);
  }
}

// Exclusive prefix sum over the threads; `all` is the total. By all threads.
template <class S>
__device__ __forceinline__ U32 sum_before(Shared<S>& shared, U32 value, U32& all) {
  const U32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  U32 sum = value;
  for (U32 d = 1; d < 32; d *= 2) {
    const U32 below = __shfl_up_sync(kAllLanes, sum, d);
    if (lane >= d) sum += below;
  }
  __syncthreads();  // all have read the previous sums
  if (lane == 31) shared.sums[warp] = sum;
  __syncthreads();
  const U32 of_warp = lane < S::kThreads / 32 ? shared.sums[lane] : 0;
  U32 warps = of_warp;
  for (U32 d = 1; d < 32; d *= 2) {
    const U32 below = __shfl_up_sync(kAllLanes, warps, d);
    if (lane >= d) warps += below;
  }
  all = __shfl_sync(kAllLanes, warps, 31);
  return __shfl_sync(kAllLanes, warps - of_warp, warp) + sum - value;
}

// Output bytes of the tokens from p on that begin before `behind`; saturates at one more than any stream has.
__device__ __forceinline__ U32 produced(const Input& in, U32 p, U32 behind) {
  const bool fast = in.has_segment(p / kSegment * kSegment);
  U32 bytes = 0;
  Token token;
  while (p < behind) {
    p = step(in, fast, p, token);
    bytes += token.literals + token.match;
    if (bytes > in.most) bytes = in.most + 1;
  }
  return bytes;
}

// The known part of a stream: the tokens that begin in its first segments, and their output bytes. `all`: this is the
// whole stream, and its output has the right size.
struct Known {
  U32 segments, bytes;
  bool all;
};

// An entry of Shared::before for a segment. Sizes beyond any stream are all equivalent.
template <class S>
__device__ __forceinline__ U32 before_entry(U32 bytes, U32 entry) {
  return (bytes > S::kMax ? S::kMax + 1 : bytes) << 6 | entry;
}

// For a stream whose walk fails in one of its first `segments`: the part before that one. By all threads; `before` is
// valid for all of them.
template <class S>
__device__ __forceinline__ Known known_before(Shared<S>& shared, U32 segments, U32 dst_bytes) {
  __syncthreads();
  if (threadIdx.x == 0) shared.position = 0;
  __syncthreads();
  U32 last = 0;  // a walk that reached a segment failed in it or later
  for (U32 i = threadIdx.x; i < segments; i += S::kThreads) {
    if ((shared.before[i] & 63) != kNoEntry && shared.before[i] >> 6 <= dst_bytes) last = i;
  }
  if (last != 0) atomicMax(&shared.position, last);
  __syncthreads();
  return {shared.position, shared.before[shared.position] >> 6, false};
}

// Finds the true tokens. By all threads.
template <class S>
__device__ __forceinline__ Known discover(Shared<S>& shared, Input& in, U32 dst_bytes) {
  U32 p = in.begin, out = 0;
  const U32 segments = (in.end + kSegment - 1) / kSegment;
  // No token begins in these segments.
  const auto leave_out = [&](U32 first, U32 last) {
    for (U32 i = first + threadIdx.x; i < last && i < segments; i += S::kThreads) {
      shared.before[i] = before_entry<S>(out, kNoEntry);
    }
  };
  for (U32 low = 0; low < in.end; low += S::kIn) {
    if (p >= low + S::kIn) {  // inside of a long run of literals
      leave_out(low / kSegment, (low + S::kIn) / kSegment);
      continue;
    }
    load(shared, in, low);
    map_segment_exits(shared, in);
    __syncthreads();
    if (threadIdx.x < 32 * S::kWays) walk_guesses(shared, in, p);
    __syncthreads();
    if (threadIdx.x < 32) {
      U32 from;
      const U32 to = chain_ranges(shared, in, p, from);
      enter_segments(shared, in, from);
      if (threadIdx.x == 0) shared.position = to;
    }
    __syncthreads();
    p = shared.position;
    const U32 segment = low / kSegment + threadIdx.x, first = segment * kSegment;
    const bool ours = threadIdx.x < S::kIn / kSegment && first < in.end;
    const U32 entry = ours ? shared.before[segment] : kNoEntry;
    U32 all;
    const U32 before = sum_before(shared, entry == kNoEntry ? 0 : produced(in, first + entry, first + kSegment), all);
    if (ours) shared.before[segment] = before_entry<S>(out + before, entry);
    out += all;
    if (p == kAtBad || out > dst_bytes) {
      const U32 looked_at = (low + S::kIn) / kSegment;
      return known_before(shared, looked_at < segments ? looked_at : segments, dst_bytes);
    }
    if (p == kAtEnd) {
      leave_out((low + S::kIn) / kSegment, segments);
      break;
    }
  }
  if (p != kAtEnd || out != dst_bytes) return known_before(shared, segments, dst_bytes);
  if (threadIdx.x == 0) shared.before[segments] = before_entry<S>(out, kNoEntry);
  return {segments, out, true};
}

}  // namespace headrace::codec::gpu::small

// Small LZ4 streams, one thread block each, in shared memory: device code without a CUDA header, run on the CPU by
// tests.
//
// In order, a stream's tokens are decoded serially. Here a block has one thread for each segment of 32 input bytes, and
// only a chain of short walks is serial. For each window of the input (lz4_small_tokens_device.cuh):
//   1. map_segment_exits: for every byte, from the last to the first, treats it as a token and finds where a walk from
//      there leaves its segment.
//   2. enter_segments: walks by that table from segment to segment, in 32 ranges at once. Each walk begins at a few
//      neighbouring positions before its range; the walk through the range before usually arrives at one of them.
//   3. produced: one thread per segment walks its true tokens and adds up their output.
// For each window of the output:
//   4. list_tokens: the same walk; records each token where its output begins, and sets a bit there.
//   5. make_cells: each byte finds its token by the last bit before it. Its cell is a literal, or the distance of the
//      byte that it copies.
//   6. follow: turns cells into bytes, one stripe at a time. Everything before the stripe is finished.
//
// This decodes only tokens that are clearly valid. From the first window with any other token, it leaves the stream to
// the in-order decoder, which decides what liblz4 accepts at the edges of the format. Data before the damage is thus
// not decoded again serially.
#pragma once

#include "lz4_small_tokens_device.cuh"

namespace headrace::codec::gpu::small {

// Bytes [begin, end) of the output. Those before are finished.
struct Window {
  U32 begin, end;
  const U8* dst;  // where the output begins
};

// Lists the tokens of a segment that have output in the window. Returns false if one is not clearly valid.
template <class S>
__device__ __forceinline__ bool list_tokens(Shared<S>& shared, const Input& in, const Window& window, U32 p, U32 behind,
                                            U32 out, U32 dst_bytes) {
  const bool fast = in.has_segment(p / kSegment * kSegment);
  Token token;
  while (p < behind && out < window.end) {
    p = step(in, fast, p, token);
    const U32 match_at = out + token.literals, stop = match_at + token.match;
    U32 offset = 0;
    if (token.match != 0) {
      offset = in.at(token.offset_at) | in.at(token.offset_at + 1) << 8;
      if (offset > match_at || dst_bytes - match_at < 12 || dst_bytes - stop < 5 || in.end - token.offset_at < 8) {
        return false;
      }
    }
    if (stop > window.begin) {
      if (out < window.begin) {
        shared.head = {token.literals, token.literals_at, offset, window.begin - out};
      } else {
        const U32 start = out - window.begin;
        using Cell = typename S::Cell;
        Cell* const cells = &shared.cell[start];
        cells[0] = static_cast<Cell>(token.literals_at & 0xffff);
        cells[1] = static_cast<Cell>(token.literals < S::kOut ? token.literals : S::kOut);
        cells[2] = static_cast<Cell>(offset);
        cells[3] = static_cast<Cell>(token.literals_at >> 16);
        atomicOr(&shared.starts[start / 32], 1u << start % 32);
      }
    }
    out = stop;
  }
  return true;
}

// The last start before each word of `starts`. By all threads.
template <class S>
__device__ __forceinline__ void find_starts(Shared<S>& shared) {
  const U32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  U32 last[2] = {0, 0};
  for (U32 k = 0; k < 2; ++k) {
    const U32 word = 2 * t + k, bits = word < S::kOut / 32 ? shared.starts[word] : 0;
    if (bits != 0) last[k] = word * 32 + 32 - static_cast<U32>(__clz(static_cast<int>(bits)));
  }
  U32 most = last[1] != 0 ? last[1] : last[0];
  for (U32 d = 1; d < 32; d *= 2) {
    const U32 below = __shfl_up_sync(kAllLanes, most, d);
    if (lane >= d && below > most) most = below;
  }
  if (lane == 31) shared.sums[warp] = most;
  most = __shfl_up_sync(kAllLanes, most, 1);
  if (lane == 0) most = 0;
  __syncthreads();
  for (U32 i = 0; i < warp; ++i) most = shared.sums[i] > most ? shared.sums[i] : most;
  if (2 * t < S::kOut / 32) shared.last_start[2 * t] = static_cast<U16>(most);
  if (2 * t + 1 < S::kOut / 32) shared.last_start[2 * t + 1] = static_cast<U16>(last[0] != 0 ? last[0] : most);
}

// k / period for k up to 2^18. The exact quotient's fraction is at least half a unit away from the next whole number,
// so an approximate division suffices.
__device__ __forceinline__ U32 periods(U32 k, U32 period) {
  return static_cast<U32>(__fdividef(static_cast<float>(k) + 0.5f, static_cast<float>(period)));
}

// The cell of byte i of the window. For a byte copied from before the window, returns a literal without its value, and
// `before_window` says how far before.
template <class S>
__device__ __forceinline__ U32 make_cell(const Shared<S>& shared, const Input& in, U32 i, U32& before_window) {
  const U32 bits = shared.starts[i / 32] & ((2u << i % 32) - 1);
  const U32 start =
      bits != 0 ? i / 32 * 32 + 32 - static_cast<U32>(__clz(static_cast<int>(bits))) : shared.last_start[i / 32];
  U32 literals, literals_at, offset, done;
  if (start == 0) {
    literals = shared.head.literals;
    literals_at = shared.head.literals_at;
    offset = shared.head.offset;
    done = shared.head.done + i;
  } else {
    const typename S::Cell* const cells = &shared.cell[start - 1];
    literals_at = cells[0] | static_cast<U32>(cells[3]) << 16;
    literals = cells[1];
    offset = cells[2];
    done = i + 1 - start;
  }
  if (done < literals) return kLiteral | in.at(literals_at + done);
  if (offset == 0) return kLiteral;  // like liblz4: zeros
  // The match overlaps itself: reads from what lies before it.
  const U32 k = done - literals, back = k < offset ? offset : offset * (periods(k, offset) + 1);
  if (back <= i) return back;
  before_window = back - i;
  return kLiteral;
}

// Runs from the last stripe to the first, because cells overwrite tokens that later bytes needed. A token may begin
// before a stripe and have some of its cells in it: those are written one turn later.
template <class S>
__device__ __forceinline__ void make_cells(Shared<S>& shared, const Input& in, const Window& window) {
  using Cell = typename S::Cell;
  constexpr U32 kStripe = S::kStripe;
  const U32 bytes = window.end - window.begin, t = threadIdx.x;
  U32 late = 0;
  for (U32 first = (bytes - 1) / kStripe * kStripe;; first -= kStripe) {
    U32 cell[kEach], before_window[kEach];
    for (U32 k = 0; k < kEach; ++k) {
      const U32 i = first + k * S::kThreads + t;
      before_window[k] = 0;
      cell[k] = i < bytes ? make_cell(shared, in, i, before_window[k]) : 0;
    }
    for (U32 k = 0; k < kEach; ++k) {
      if (before_window[k] == 0) continue;
      const U32 from = window.begin - before_window[k];
      if constexpr (S::kLeadsOutside) {
        cell[k] = kOutside + from;
      } else {
        cell[k] |= window.dst[from];
      }
    }
    __syncthreads();
    if (t < kTokenCells && first + kStripe + t < bytes) shared.cell[first + kStripe + t] = static_cast<Cell>(late);
    for (U32 k = 0; k < kEach; ++k) {
      const U32 i = first + k * S::kThreads + t;
      if (i < bytes && (k != 0 || t >= kTokenCells)) shared.cell[i] = static_cast<Cell>(cell[k]);
    }
    late = cell[0];
    if (first == 0) break;
  }
  if (t < kTokenCells && t < bytes) shared.cell[t] = static_cast<Cell>(late);
}

// Turns cells into literals, in stripes of a few cells per thread. In each round, a thread adopts the progress of the
// cell that its own points to (pointer doubling), so chains of any length take few rounds. Rounds read one copy of the
// stripe and write the other.
template <class S>
__device__ __forceinline__ void follow(Shared<S>& shared, const Window& window) {
  using Cell = typename S::Cell;
  const U32 bytes = window.end - window.begin;
  for (U32 stripe = 0; stripe < bytes; stripe += S::kStripe) {
    U32 at[kEach], cell[kEach];
    for (U32 k = 0; k < kEach; ++k) {
      at[k] = stripe + k * S::kThreads + threadIdx.x;
      cell[k] = at[k] < bytes ? shared.cell[at[k]] : kLiteral;
      shared.resolved[0][at[k] - stripe] = static_cast<Cell>(cell[k]);
    }
    for (U32 round = 0;; ++round) {
      bool open = false;
      for (U32 k = 0; k < kEach; ++k) open |= cell[k] < kLiteral;
      if (__syncthreads_or(open ? 1 : 0) == 0) break;
      for (U32 k = 0; k < kEach; ++k) {
        const U32 own = stripe + k * S::kThreads + threadIdx.x;
        if (cell[k] < kLiteral) {
          at[k] -= cell[k];
          cell[k] = at[k] < stripe ? shared.cell[at[k]] : shared.resolved[round % 2][at[k] - stripe];
        }
        const U32 all = cell[k] < kLiteral ? own - at[k] + cell[k] : cell[k];
        shared.resolved[1 - round % 2][own - stripe] = static_cast<Cell>(all);
      }
    }
    for (U32 k = 0; k < kEach; ++k) {
      const U32 own = stripe + k * S::kThreads + threadIdx.x;
      if (own < bytes) shared.cell[own] = static_cast<Cell>(cell[k]);
    }
    __syncthreads();
  }
}

template <class S>
__device__ __forceinline__ void store(const Shared<S>& shared, const Window& window, U8* dst) {
  const typename S::Cell* const cells = shared.cell;
  const U32 bytes = window.end - window.begin, t = threadIdx.x;
  dst += window.begin;
  U32 lead = static_cast<U32>(-reinterpret_cast<std::uintptr_t>(dst) % 4);
  if (lead > bytes) lead = bytes;
  const U32 words = (bytes - lead) / 4;
  if (t < lead) dst[t] = static_cast<U8>(cells[t]);
  auto* const to = reinterpret_cast<U32*>(dst + lead);
  for (U32 i = t; i < words; i += S::kThreads) {
    const typename S::Cell* const four = &cells[lead + 4 * i];
    to[i] = (four[0] & 255u) | (four[1] & 255u) << 8 | (four[2] & 255u) << 16 | (four[3] & 255u) << 24;
  }
  const U32 tail = lead + words * 4 + t;
  if (tail < bytes) dst[tail] = static_cast<U8>(cells[tail]);
}

// The segment that produces output byte x. REQUIRES: x is within the known output.
template <class S>
__device__ __forceinline__ U32 segment_of(const Shared<S>& shared, U32 segments, U32 x) {
  U32 low = 0, high = segments;  // output before low <= x < output before high
  while (high - low > 1) {
    const U32 middle = (low + high) / 2;
    (shared.before[middle] >> 6 <= x ? low : high) = middle;
  }
  return low;
}

// Fills the cells of a window with bytes or, where they refer outside, with positions. By all threads. Returns false if
// a token of the window is not clearly valid.
template <class S>
__device__ __forceinline__ bool fill_window(Shared<S>& shared, Input& in, const Window& window, U32 segments,
                                            U32 dst_bytes) {
  for (U32 i = threadIdx.x; i < S::kOut / 32; i += S::kThreads) shared.starts[i] = 0;
  __syncthreads();  // the previous window is stored
  const U32 first = segment_of(shared, segments, window.begin);
  // Usually the window's input is loaded already.
  if (in.size == 0 || first * kSegment < in.low ||
      segment_of(shared, segments, window.end - 1) * kSegment >= in.low + S::kIn) {
    load(shared, in, first * kSegment);
  }
  bool right = true;
  for (U32 i = first + threadIdx.x; i < segments; i += S::kThreads) {
    const U32 out = shared.before[i] >> 6, entry = shared.before[i] & 63, at = i * kSegment;
    if (out >= window.end) break;
    if (entry == kNoEntry) continue;
    right &= list_tokens(shared, in, window, at + entry, at + kSegment, out, dst_bytes);
  }
  if (__syncthreads_or(right ? 0 : 1) != 0) return false;
  find_starts(shared);
  __syncthreads();
  make_cells(shared, in, window);
  __syncthreads();
  follow(shared, window);
  return true;
}

__device__ __forceinline__ Input input_of(const Lz4Stream& stream, const void* window, const U8* lead, U32 most) {
  const U32 skew = static_cast<U32>(reinterpret_cast<std::uintptr_t>(stream.src) % 4);
  return {stream.src - skew, static_cast<const U8*>(window), lead, 0, 0, skew, skew + stream.src_bytes, most};
}

// Records what remains of a stream after `done` bytes of its output, which end a window or the known part: it continues
// at the token that produces the next byte.
template <class S>
__device__ __forceinline__ void leave_rest(const Shared<S>& shared, const Input& in, const Known& known, U32 done,
                                           Lz4Stream& stream) {
  const U32 segment = done < known.bytes ? segment_of(shared, known.segments, done) : known.segments;
  stream.kind = Lz4Kind::kBegun;
  stream.src_done = segment * kSegment + (shared.before[segment] & 63) - in.begin;
  stream.dst_done = shared.before[segment] >> 6;
}

// By all threads of a block. Records in the stream what has been decoded.
template <class S>
__device__ inline void decode(Shared<S>& shared, Lz4Stream& stream) {
  __syncthreads();  // the previous stream is stored
  Input in = input_of(stream, shared.in, shared.lead, S::kMax);
  const Known known = discover(shared, in, stream.dst_bytes);
  for (U32 done = 0; done < known.bytes; done += S::kOut) {
    const Window window{done, known.bytes - done < S::kOut ? known.bytes : done + S::kOut, stream.dst};
    if (!fill_window(shared, in, window, known.segments, stream.dst_bytes)) {
      return leave_rest(shared, in, known, done, stream);
    }
    store(shared, window, stream.dst);
  }
  if (!known.all) return leave_rest(shared, in, known, known.bytes, stream);
  stream.kind = Lz4Kind::kNone;
}

// For a stream that did not shrink: whether its first token seems to cover nearly all of it with literals, which the
// in-order decoder copies six times as fast. Such a length is a run of 0xFF, of which a few bytes are sampled.
__device__ __forceinline__ bool seems_one_run(const Lz4Stream& stream) {
  const U32 full = (stream.src_bytes - stream.src_bytes / 64) / 255;
  const U8* const src = stream.src;
  return src[0] >= 0xf0 && full != 0 && src[1] == 255 && src[1 + full / 2] == 255 && src[full] == 255;
}

// Whether blocks of this shape take the stream.
template <class S>
__device__ __forceinline__ bool takes(const Lz4Stream& stream) {
  return stream.kind == Lz4Kind::kBlock && stream.src_bytes != 0 && stream.dst_bytes != 0 &&
         stream.src_bytes <= S::kMaxSource && stream.dst_bytes <= S::kMax &&
         (stream.src_bytes <= S::kMax - 4 || !seems_one_run(stream));
}

// Numbers the streams that blocks of this shape take, as they were when listed: streams that others finish meanwhile
// are included. Calls take(number, index) in one of the threads. Returns their number, or more than `most` if it
// stopped early. By all threads.
template <class S, class Take>
__device__ __forceinline__ U32 number_streams(Shared<S>& shared, const Lz4Stream* streams, U32 count, U32 most,
                                              const Take& take) {
  U32 found = count / 4 > most ? most + 1 : 0;  // scanning this many takes too long
  for (U32 first = 0; first < count && found <= most; first += S::kThreads) {
    const U32 i = first + threadIdx.x;
    bool takes_it = false;
    if (i < count) {
      Lz4Stream stream = streams[i];
      stream.kind = Lz4Kind::kBlock;
      takes_it = takes<S>(stream);
    }
    U32 all;
    const U32 number = found + sum_before(shared, takes_it ? 1 : 0, all);
    if (takes_it) take(number, i);
    found += all;
  }
  __syncthreads();
  return found;
}

// The same, but if each thread has at most one stream, the longer half of those taken comes first.
template <class S, class Take>
__device__ __forceinline__ U32 number_longest_first(Shared<S>& shared, const Lz4Stream* streams, U32 count, U32 most,
                                                    const Take& take) {
  constexpr U32 kLongShift = 16;  // the sum packs both counts
  static_assert(S::kThreads < 1u << kLongShift);
  if (count / 4 > most || count > S::kThreads) return number_streams(shared, streams, count, most, take);
  bool takes_it = false, is_long = false;
  if (threadIdx.x < count) {
    Lz4Stream stream = streams[threadIdx.x];
    stream.kind = Lz4Kind::kBlock;
    takes_it = takes<S>(stream);
    is_long = stream.dst_bytes > S::kMax / 2;
  }
  U32 all;
  const U32 before = sum_before(shared, !takes_it ? 0 : is_long ? 1u << kLongShift : 1u, all);
  const U32 longs = all >> kLongShift, short_mask = (1u << kLongShift) - 1;
  if (takes_it) take(is_long ? before >> kLongShift : longs + (before & short_mask), threadIdx.x);
  __syncthreads();
  return longs + (all & short_mask);
}

// Kernel body: streams that it decodes become kNone in the list, or kBegun. Does nothing for batches of more than `few`
// streams of its kind. Each block that finishes a stream takes the next, because planes of a shuffled block take
// different times.
template <class S>
__device__ inline void decode_small_body(Lz4Stream* streams, U32 count, U32 few, U32* ticket,
                                         const std::uint64_t* outcomes, Shared<S>& shared) {
  if (count > few && number_streams(shared, streams, count, few, [](U32, U32) {}) > few) return;
  for (;;) {
    __syncthreads();  // all have read the previous turn's position
    if (threadIdx.x == 0) shared.position = atomicAdd(ticket, 1u);
    __syncthreads();
    const U32 i = shared.position;
    if (i >= count) return;
    Lz4Stream stream = streams[i];
    const bool good =
        *static_cast<const volatile std::uint64_t*>(&outcomes[stream.chunk]) == device::DecodeOutcome::kOk;
    // The outcome may change meanwhile because of another stream of the chunk, so all threads must agree.
    if (__syncthreads_or(good && takes<S>(stream) ? 0 : 1) != 0) continue;
    decode(shared, stream);
    if (threadIdx.x == 0) streams[i] = stream;
  }
}

}  // namespace headrace::codec::gpu::small

// Step of the DEFLATE decoder that looks for places where dynamic blocks may begin. Device code without a CUDA header.
//
// A dynamic block's header has so many rules that what keeps all of them is one, but for accidents. All bits of a
// segment are tried: 32 at a time for the fixed fields, then, of the fifth that is left, a lane each, whether the
// precode is complete (sums of four lengths from a table), and the few that are left then are read to their end.
// Stored and fixed blocks have no such headers; a run goes through them.
#pragma once

#include "deflate_headers_device.cuh"
#include "deflate_tables_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr unsigned kFindWarps = 6;
inline constexpr unsigned kFindWords = kSegmentBits / 32 + (kDescriptionBits + 31) / 32 + 6;
inline constexpr unsigned kFindTurnBits = 32 * 32;     // whose fixed fields are looked at by a warp
// Of a turn, whose fixed fields are good: no two neighbours. And fewer than a warp's that are left of the turn before.
inline constexpr unsigned kPossible = kFindTurnBits / 2 + 32;
inline constexpr unsigned kCandidates = 64;  // of a segment in hand, whose precode is complete
inline constexpr std::uint32_t kMostCandidates = 512;  // of a segment are read; what has more is not looked at further

struct FindSpace {
  Byte sums[4096];  // of four lengths of the precode: what their code words take up of 128; 255: more
  std::uint32_t words[kFindWarps][kFindWords];
  std::uint16_t possible[kFindWarps][kPossible], candidates[kFindWarps][kCandidates];
};

__device__ inline void fill_sums(FindSpace& space) {
  for (unsigned i = threadIdx.x; i < 4096; i += blockDim.x) {
    unsigned sum = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned length = i >> (3 * k) & 7;
      if (length != 0) sum += 128u >> length;
    }
    space.sums[i] = static_cast<Byte>(sum < 255 ? sum : 255);
  }
}

// Of the 32 bits from the first of `low` on, those at which the fixed fields of a dynamic block's header can be: its
// type, and how many lengths there are. `high`: the bits behind `low`.
__device__ inline std::uint32_t may_begin(std::uint32_t low, std::uint32_t high) {
  const auto ahead = [&](unsigned bits) { return __funnelshift_r(low, high, bits); };
  const std::uint32_t type = ~ahead(1) & ahead(2);
  const std::uint32_t literals = ahead(4) & ahead(5) & ahead(6) & ahead(7);      // 287 or 288
  const std::uint32_t distances = ahead(9) & ahead(10) & ahead(11) & ahead(12);  // 31 or 32
  return type & ~literals & ~distances;
}

// 57 bits of lengths, of which those behind `present` are 0.
__device__ inline std::uint64_t precode_lengths(const Window& window, std::uint32_t at, unsigned present) {
  Bits bits(window, at);
  std::uint64_t out = bits.take(28);
  bits.fill();
  out |= static_cast<std::uint64_t>(bits.low()) << 28;
  return out & ((std::uint64_t{1} << (3 * present)) - 1);
}

// Whether the precode of a header is complete that begins at a window's bit `at`.
__device__ inline bool precode_is_complete(const FindSpace& space, const std::uint32_t* words, std::uint32_t at) {
  const std::uint32_t w = at / 32, bit = at % 32;
  const std::uint32_t second = words[w + 1], third = words[w + 2];
  const std::uint32_t a = __funnelshift_r(words[w], second, bit), b = __funnelshift_r(second, third, bit),
                      c = __funnelshift_r(third, words[w + 3], bit);
  const unsigned bits = 3 * ((a >> 13 & 15) + 4);  // of lengths: 12 to 57
  std::uint32_t low = __funnelshift_r(a, b, 17), high = __funnelshift_r(b, c, 17);
  low &= bits < 32 ? (1u << bits) - 1 : ~0u;
  high &= bits > 32 ? (1u << (bits - 32)) - 1 : 0;
  const unsigned sum = space.sums[low & 4095] + space.sums[low >> 12 & 4095] +
                       space.sums[__funnelshift_r(low, high, 24) & 4095] + space.sums[high >> 4 & 4095] +
                       space.sums[high >> 16 & 4095];
  return sum == 1u << kPrecodeLog;
}

// Whether both codes of the header at `at` are there, and complete. REQUIRES: the precode is. By one lane.
__device__ inline bool codes_are_complete(const Window& window, std::uint32_t at) {
  Bits bits(window, at + 3);
  const unsigned literals = bits.take(5) + 257, distances = bits.take(5) + 1, present = bits.take(4) + 4;
  const std::uint64_t lengths = precode_lengths(window, at + 17, present);
  // How many code words there are of each length, a byte each; and the symbols in their order, five bits each.
  std::uint64_t counts = 0, sorted[2] = {0, 0};
  for (unsigned i = 0; i < present; ++i) {
    const unsigned length = static_cast<unsigned>(lengths >> (3 * i)) & 7;
    if (length != 0) counts += std::uint64_t{1} << (8 * length);
  }
  std::uint64_t next = (counts << 8) * 0x0101010101010101;  // a byte each: how many are shorter
  for (unsigned symbol = 0; symbol < kPrecodeSymbols; ++symbol) {
    // The place of each symbol's length, the inverse of precode_symbol().
    const unsigned i = symbol >= 16 ? symbol - 16 : symbol == 0 ? 3 : symbol >= 8 ? 2 * symbol - 12 : 19 - 2 * symbol;
    const unsigned length = static_cast<unsigned>(lengths >> (3 * i)) & 7;
    if (length == 0) continue;
    const unsigned place = static_cast<unsigned>(next >> (8 * length)) & 31;
    next += std::uint64_t{1} << (8 * length);
    const unsigned shift = 5 * (place < 12 ? place : place - 12);
    if (place < 12) {
      sorted[0] |= static_cast<std::uint64_t>(symbol) << shift;
    } else {
      sorted[1] |= static_cast<std::uint64_t>(symbol) << shift;
    }
  }
  bits = Bits(window, at + 17 + 3 * present);
  std::uint32_t literal_space = 0, distance_space = 0, distance_words = 0;
  unsigned before = 0;
  bool end_of_block = false;
  const unsigned total = literals + distances;
  for (unsigned i = 0; i < total;) {
    bits.fill();
    const std::uint32_t low = bits.low();
    unsigned word = 0, first = 0, index = 0, length = 1, symbol = 0;
    for (; length <= kPrecodeLog; ++length) {
      word |= low >> (length - 1) & 1;
      const unsigned count = static_cast<unsigned>(counts >> (8 * length)) & 255;
      if (word < first + count) {
        const unsigned place = index + word - first;
        symbol = static_cast<unsigned>(place < 12 ? sorted[0] >> (5 * place) : sorted[1] >> (5 * (place - 12))) & 31;
        break;
      }
      index += count;
      first = (first + count) * 2;
      word *= 2;
    }
    if (length > kPrecodeLog) return false;  // not reached: the precode is complete
    bits.skip(length);
    unsigned repeat = 1;
    if (symbol < 16) {
      before = symbol;
    } else {
      if (symbol == 16 && i == 0) return false;
      repeat = bits.take(symbol == 16 ? 2 : symbol == 17 ? 3 : 7) + (symbol == 18 ? 11 : 3);
      if (symbol != 16) before = 0;
    }
    if (repeat > total - i) return false;
    if (before != 0) {
      const std::uint32_t share = 1u << (kMaxLength - before);
      const unsigned of_literals = i >= literals ? 0 : i + repeat <= literals ? repeat : literals - i;
      literal_space += of_literals * share;
      distance_space += (repeat - of_literals) * share;
      distance_words += repeat - of_literals;
      end_of_block = end_of_block || (i <= kEndOfBlock && i + repeat > kEndOfBlock);
      if (literal_space > 1u << kMaxLength || distance_space > 1u << kMaxLength) return false;
    }
    i += repeat;
  }
  if (!end_of_block || literal_space != 1u << kMaxLength) return false;
  return distance_space == 1u << kMaxLength || distance_words == 0 ||
         (distance_words == 1 && distance_space == 1u << (kMaxLength - 1));
}

// The first bit in [from, to) at which a dynamic block may begin, or kNone. By a warp.
__device__ inline std::uint32_t find_block(FindSpace& space, const Input& input, std::uint32_t from, std::uint32_t to,
                                           unsigned lane) {
  const unsigned warp = threadIdx.x / 32;
  std::uint16_t *const possible = space.possible[warp], *const candidates = space.candidates[warp];
  const Window window = Window::load(input, from, space.words[warp], kFindWords, lane);
  std::uint32_t left = 0, waiting = 0, read = 0;
  const auto read_waiting = [&](std::uint32_t count) -> std::uint32_t {
    __syncwarp();
    const std::uint32_t at = window.first + candidates[lane < count ? lane : 0];
    const bool good = lane < count && codes_are_complete(window, at);
    const std::uint32_t best = __reduce_min_sync(kAllLanes, good ? at : kNone);
    __syncwarp();
    return best;
  };
  // Those from `base` on, `count` at most.
  const auto check_possible = [&](std::uint32_t base, std::uint32_t count) {
    const std::uint16_t at = possible[base + (lane < count ? lane : 0)];
    const bool found = lane < count && precode_is_complete(space, window.words, at);
    const unsigned votes = __ballot_sync(kAllLanes, found);
    if (found) candidates[waiting + static_cast<unsigned>(__popc(votes & lanes_below(lane)))] = at;
    waiting += static_cast<std::uint32_t>(__popc(votes));
  };
  const std::uint32_t bits = to - window.first;  // from where the first word begins
  for (std::uint32_t base = 0; base < bits; base += kFindTurnBits) {
    const std::uint32_t word = base / 32 + lane;
    std::uint32_t mask = 0;
    if (32 * word < bits) {
      mask = may_begin(window.words[word], window.words[word + 1]);
      if (bits - 32 * word < 32) mask &= (1u << (bits - 32 * word)) - 1;
      if (word == 0) mask &= kAllLanes << (from - window.first);
    }
    const auto own = static_cast<std::uint32_t>(__popc(mask));
    const std::uint32_t upto = sum_upto(own, lane), all = left + __shfl_sync(kAllLanes, upto, 31);
    for (std::uint32_t x = left + upto - own; mask != 0; mask &= mask - 1, ++x) {
      possible[x] = static_cast<std::uint16_t>(32 * word + lowest_bit(mask));
    }
    __syncwarp();
    std::uint32_t x = 0;
    const bool end = base + kFindTurnBits >= bits;
    for (; x + 32 <= all || (end && x < all); x += 32) {
      check_possible(x, all - x);
      if (waiting < 32) continue;
      const std::uint32_t best = read_waiting(32);
      if (best != kNone) return best;
      const std::uint16_t moved = candidates[32 + (lane + 32 < waiting ? lane : 0)];
      __syncwarp();
      candidates[lane] = moved;
      __syncwarp();
      waiting -= 32;
      read += 32;
      if (read >= kMostCandidates) return kNone;
    }
    // To the front, for the next turn.
    left = end ? 0 : all - x;
    const std::uint16_t moved = possible[lane < left ? x + lane : 0];
    __syncwarp();
    if (lane < left) possible[lane] = moved;
    __syncwarp();
  }
  return waiting == 0 ? kNone : read_waiting(waiting);
}

__device__ inline void note_start(const Job& job, std::uint32_t segment, std::uint32_t start) {
  job.starts[segment] = start;
  if (start == kNone) return;
  Run run{};
  run.at = start;
  job.runs[segment] = run;
  job.run_list[atomicAdd(&job.totals->runs, 1u)] = segment;
}

// Each segment's start, and a list of runs.
__device__ inline void find_body(const Job& job, FindSpace& space) {
  const unsigned lane = lane_id();
  const std::uint32_t count = job.totals->segments;
  if (job.stream_count() > job.most_searched) {
    for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x < count; x += gridDim.x * blockDim.x) {
      const StreamState& state = job.states[stream_of_segment(job, x)];
      note_start(job, x, x - state.first_segment == state.start / kSegmentBits ? state.start : kNone);
    }
    return;
  }
  fill_sums(space);
  __syncthreads();
  for (;;) {
    const std::uint32_t segment = take_ticket(job.totals->find_ticket, lane);
    if (segment >= count) return;
    const std::uint32_t i = stream_of_segment(job, segment);
    const StreamState& state = job.states[i];
    const DeflateStream& stream = job.streams[i];
    const std::uint32_t own = segment - state.first_segment, first = state.start / kSegmentBits;
    std::uint32_t start = kNone;
    if (own == first) {
      start = state.start;
    } else if (own > first && stream.src_bytes >= job.least_searched_bytes) {
      const Input input(stream.src, stream.src_bytes);
      const std::uint32_t from = own * kSegmentBits, end = input.bytes * 8;
      if (from < end) {
        start = find_block(space, input, from, end - from < kSegmentBits ? end : from + kSegmentBits, lane);
      }
    }
    if (lane == 0) note_start(job, segment, start);
  }
}

}  // namespace headrace::codec::gpu::deflate

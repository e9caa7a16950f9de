// Finds where the code words of a block's cells begin, and what they decode to. Device code without a CUDA header.
//
// The warps take as many cells of a block as they have lanes, and copy them to shared memory. Only lane 0 knows where
// the first code word of its cell begins; the others start at the cell's first bit. Decoders that start at different
// positions soon synchronise, so usually all lanes are right at the end of their cell, and each tells the next lane
// where it should have started. That lane starts again there, and is done when it synchronises with its earlier walk at
// the middle of the cell. The result is therefore exact for all inputs. Wrong guesses cost only time: at worst there
// are as many passes as cells.
//
// Some inputs make all guesses wrong: where all code words have 8 bits, decoders keep their initial misalignment, as
// they do where the same match is repeated. After a few walks, several warps then try all bits of all cells, from the
// last to the first, and record for each where it enters the next cell. With this map, a single serial pass over the
// lanes gives each its start, which is verified like any other guess.
#pragma once

#include "deflate_tables_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr std::uint32_t kMeetingBits = 256;  // bits of a cell after which its walks are compared
inline constexpr unsigned kWidth = 4;               // warps that share a run or a piece, if several do
inline constexpr unsigned kWalksUntilMapped = 3;

// A code word with its extra bits and the distance after it reaches at most this far into the next cell.
inline constexpr unsigned kMaxEntry = 15 + 5 + 15 + 13 - 1;
inline constexpr unsigned kMapSlots = 64;
inline constexpr Byte kNoExit = kMapSlots - 1;  // the block ends, or the code is invalid
static_assert(kMaxEntry < kNoExit && kCellBits % 4 == 0);

template <unsigned kWarps>
inline constexpr unsigned kWindowWords = 32 * kWarps* kCellWords + 7;
static_assert(kDescriptionBits / 32 + 7 < kWindowWords<1>);

// Shared memory for the cells that a group of warps processes at a time.
template <unsigned kWarps>
struct TraceSpace {
  static constexpr unsigned kCells = 32 * kWarps;
  Codes codes;
  std::uint32_t words[kWindowWords<kWarps>];
  std::uint32_t ends[kCells];  // of walks
  Cell cells[kCells];
  std::uint32_t stops[kWarps];
  std::uint32_t told[3];  // broadcast by one warp
  std::uint32_t ticket;
  Byte exits[kMapSlots * kCells];  // by bit of a cell, modulo kMapSlots, and cell
};
template <>
struct TraceSpace<1> {
  Codes codes;
  std::uint32_t words[kWindowWords<1>];
  std::uint32_t ticket;
};

// Result of a walk.
struct Walk {
  enum class Stop : std::uint8_t { kNot, kEnd, kBad };
  std::uint32_t at = 0;  // after the last code word
  std::uint32_t literals = 0, matches = 0, match_bytes = 0;
  Stop stop = Stop::kNot;
  bool stepped = false;  // passed an end of block or an invalid code; the counts are then wrong
};

// Walks from `at` until a code word ends at or after `until`. `guess`: steps over ends of blocks and invalid codes.
// Lengths and distances are separate steps, so that lanes stay in lockstep.
__device__ inline Walk walk(const Codes& codes, const BitSpan& window, std::uint32_t at, std::uint32_t until,
                            bool guess) {
  Walk out;
  Bits bits(window, at);
  std::uint32_t steps = 0;
  bool distance = false;  // the next code word is a distance
  while (at < until || distance) {
    bits.fill();
    const std::uint32_t low = bits.low();
    const std::uint32_t entry = next_entry(codes, distance, low);
    const unsigned take = Entry::total(entry);
    bits.skip(take);
    at += take;
    ++steps;
    distance = false;
    if ((entry & (Entry::kEnd | Entry::kBad)) != 0) {
      if (!guess) {
        out.stop = (entry & Entry::kEnd) != 0 ? Walk::Stop::kEnd : Walk::Stop::kBad;
        --steps;
        break;
      }
      out.stepped = true;
    }
    if ((entry & Entry::kMatch) != 0) {
      distance = true;
      ++out.matches;
      out.match_bytes += Entry::value_with_extra(entry, low);
    }
  }
  out.at = at;
  out.literals = steps - 2 * out.matches;
  return out;
}

// A cell that may be walked several times.
struct CellWalk {
  Walk walk, rest;
  std::uint32_t met = kNone;  // where the walk to the middle ended

  __device__ void from(const Codes& codes, const BitSpan& window, std::uint32_t entry, std::uint32_t begin,
                       bool guess) {
    Walk all = deflate::walk(codes, window, entry, begin + kMeetingBits, guess);
    if (all.stop == Walk::Stop::kNot) {
      if (all.at != met) {
        met = all.at;
        rest = deflate::walk(codes, window, met, begin + kCellBits, false);
      }
      all.at = rest.at;
      all.literals += rest.literals;
      all.matches += rest.matches;
      all.match_bytes += rest.match_bytes;
      all.stop = rest.stop;
    }
    walk = all;
  }
  __device__ Cell cell(std::uint32_t entry) const {
    return {entry | walk.literals << Cell::kLiteralShift | walk.matches << Cell::kMatchShift, walk.match_bytes};
  }
};

// Result of the walks over some cells.
struct WalkResult {
  unsigned last = 0;      // the last cell that belongs to the block
  unsigned walks = 0;     // rounds in which lanes were told where their cell begins
  std::uint32_t end = 0;  // of the last walk
  Walk::Stop stop = Walk::Stop::kNot;
};

// Walks the cells from `grid` on; the first code word begins at `entry`. By a warp; `cell` is its lane's.
__device__ inline WalkResult walk_cells(TraceSpace<1>& space, const BitSpan& window, std::uint32_t grid,
                                        std::uint32_t entry, std::uint32_t end_of_input, unsigned lane, Cell& cell) {
  const std::uint32_t begin = grid + lane * kCellBits;
  const bool active = begin < end_of_input;
  WalkResult turn;
  CellWalk own;
  std::uint32_t own_entry = lane == 0 ? entry : begin;
  bool again = active, guess = lane != 0;
  for (;;) {
    if (again) own.from(space.codes, window, own_entry, begin, guess);
    guess = false;
    const unsigned stops = __ballot_sync(kAllLanes, !active || own.walk.stop != Walk::Stop::kNot);
    turn.last = stops == 0 ? 31 : lowest_bit(stops);
    const std::uint32_t before = __shfl_up_sync(kAllLanes, own.walk.at, 1);
    again = active && lane != 0 && lane <= turn.last && (own_entry != before || own.walk.stepped);
    if (!__any_sync(kAllLanes, again)) break;
    ++turn.walks;
    if (again) own_entry = before;
  }
  turn.end = __shfl_sync(kAllLanes, own.walk.at, turn.last);
  turn.stop = static_cast<Walk::Stop>(__shfl_sync(kAllLanes, static_cast<std::uint32_t>(own.walk.stop), turn.last));
  cell = own.cell(own_entry - begin);
  return turn;
}

// Writes to space.exits where each of the first bits of a thread's cell enters the next cell. The cell begins at the
// window's bit `first`.
template <unsigned kWarps>
__device__ __noinline__ void map_cell(TraceSpace<kWarps>& space, std::uint32_t first, unsigned thread) {
  constexpr unsigned kCells = 32 * kWarps, kAtOnce = 8;  // so that loads overlap
  static_assert(kCellBits % kAtOnce == 0 && kAtOnce - 1 + 15 + 5 < 32);
  const Codes& codes = space.codes;
  Byte* const exits = space.exits + thread;
  for (unsigned k = 0; k <= kMaxEntry; ++k) exits[(kCellBits + k) % kMapSlots * kCells] = static_cast<Byte>(k);
  for (std::uint32_t base = kCellBits; base > 0;) {
    base -= kAtOnce;
    const std::uint32_t bit = first + base;
    const std::uint32_t* const words = space.words + bit / 32;
    const std::uint32_t low = __funnelshift_r(words[0], words[1], bit % 32),
                        high = __funnelshift_r(words[1], words[2], bit % 32);
    // Looks up the long code words of several entries together, because lanes have them at different positions.
    std::uint32_t entries[kAtOnce], distances[kAtOnce], flags = 0;
    HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) {
      entries[k] = codes.entries[__funnelshift_r(low, high, k) & (kDistances - 1)];
    }
    HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) flags |= entries[k];
    if ((flags & Entry::kLong) != 0) {
      unsigned longs = 0;
      HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) longs |= entries[k] >> 31 << k;
      for (; longs != 0; longs &= longs - 1) {
        const unsigned at = lowest_bit(longs);
        const std::uint32_t entry = long_entry<0>(codes, __funnelshift_r(low, high, at));
        HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) entries[k] = k == at ? entry : entries[k];
      }
    }
    flags = 0;
    HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) {
      const std::uint32_t far = __funnelshift_r(low, high, k + Entry::total(entries[k]));
      const std::uint32_t entry = codes.entries[kDistances + (far & ((1u << kDistanceLog) - 1))];
      distances[k] = (entries[k] & Entry::kMatch) != 0 ? entry : 0;
    }
    HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) flags |= distances[k];
    if ((flags & Entry::kLong) != 0) {
      unsigned longs = 0;
      HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) longs |= distances[k] >> 31 << k;
      for (; longs != 0; longs &= longs - 1) {
        const unsigned at = lowest_bit(longs);
        std::uint32_t length = 0;
        HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) length = k == at ? entries[k] : length;
        const std::uint32_t entry = long_entry<1>(codes, __funnelshift_r(low, high, at + Entry::total(length)));
        HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) distances[k] = k == at ? entry : distances[k];
      }
    }
    HEADRACE_DEFLATE_UNROLL for (unsigned k = kAtOnce; k-- > 0;) {
      const std::uint32_t next = base + k + Entry::total(entries[k]) + Entry::total(distances[k]);
      const Byte known = exits[next % kMapSlots * kCells];
      const bool none = ((entries[k] | distances[k]) & (Entry::kEnd | Entry::kBad)) != 0;
      exits[(base + k) % kMapSlots * kCells] = none ? kNoExit : known;
    }
  }
}

// The same for kWarps warps that form a thread block; the cells are stored in `space`.
template <unsigned kWarps>
__device__ inline WalkResult walk_cells(TraceSpace<kWarps>& space, const BitSpan& window, std::uint32_t grid,
                                        std::uint32_t entry, std::uint32_t end_of_input, unsigned thread, Cell&) {
  constexpr unsigned kCells = 32 * kWarps;
  const unsigned lane = thread % 32, warp = thread / 32;
  const std::uint32_t begin = grid + thread * kCellBits;
  const bool active = begin < end_of_input;
  WalkResult turn;
  CellWalk own;
  std::uint32_t own_entry = thread == 0 ? entry : begin;
  bool again = active, guess = thread != 0;
  // The lowest thread for which `mine` is true, or kCells.
  const auto lowest = [&](bool mine) {
    const unsigned votes = __ballot_sync(kAllLanes, mine);
    if (lane == 0) space.stops[warp] = votes;
    __syncthreads();
    unsigned out = kCells;
    HEADRACE_DEFLATE_UNROLL for (unsigned w = kWarps; w-- > 0;) {
      if (space.stops[w] != 0) out = 32 * w + lowest_bit(space.stops[w]);
    }
    return out;
  };
  for (;;) {
    if (again) own.from(space.codes, window, own_entry, begin, guess);
    guess = false;
    space.ends[thread] = own.walk.at;
    const unsigned stop = lowest(!active || own.walk.stop != Walk::Stop::kNot);
    turn.last = stop == kCells ? kCells - 1 : stop;
    const std::uint32_t before = space.ends[thread == 0 ? 0 : thread - 1];
    again = active && thread != 0 && thread <= turn.last && (own_entry != before || own.walk.stepped);
    if (__syncthreads_or(again ? 1 : 0) == 0) break;
    ++turn.walks;
    if (turn.walks != kWalksUntilMapped) {
      if (again) own_entry = before;
      continue;
    }
    const unsigned first = lowest(again);  // all cells before it are right
    if (active && thread >= first) map_cell<kWarps>(space, begin - window.first, thread);
    __syncthreads();
    if (thread == 0) {
      std::uint32_t at = space.ends[first - 1], x = first;
      while (x < kCells && at < end_of_input) {
        space.ends[x - 1] = at;
        const std::uint32_t into = at - (grid + x * kCellBits);
        ++x;
        if (into > kMaxEntry) break;  // unreachable
        const Byte exit = space.exits[into * kCells + x - 1];
        if (exit == kNoExit) break;
        at = grid + x * kCellBits + exit;
      }
      space.told[0] = x;
    }
    __syncthreads();
    again = false;
    if (active && thread >= first && thread < space.told[0]) {
      const std::uint32_t told = space.ends[thread - 1];
      again = own_entry != told || own.walk.stepped;
      own_entry = told;
    }
    __syncthreads();
  }
  if (thread == turn.last) {
    space.told[0] = own.walk.at;
    space.told[1] = static_cast<std::uint32_t>(own.walk.stop);
  }
  space.cells[thread] = own.cell(own_entry - begin);
  __syncthreads();
  turn.end = space.told[0];
  turn.stop = static_cast<Walk::Stop>(space.told[1]);
  return turn;
}

}  // namespace headrace::codec::gpu::deflate

// A window of the output in shared memory, as cells: each cell holds its byte or a link to the byte that it copies.
// Device code without a CUDA header.
//
// Each warp of a thread block makes the cells of an equal share of the window, whatever sequences it contains, so a
// long match delays no one. Then links that stay inside the window are followed, a few KiB at a time, so that most of
// them lead to a cell that is done.
#pragma once

#include "lz77_device.cuh"

namespace headrace::codec::gpu::lz77 {

// A type `Before` describes what lies before a window; it has
//   unsigned kAtOnce                   bytes of a long run that a lane loads at a time
//   bool kOpen                         whether bytes before the window may be open
//   const Byte* output                 the window's first byte
//   std::int32_t first                 the first byte of the stream's output, relative to `output`
//   std::int32_t known_below           bytes before this one have been written; at most 0
//   Cell open(std::int32_t s) const    the cell that links to a byte before the window
//   T load(const T* at) const          bytes or aligned words before known_below, or of a piece's content

// Longer runs of literals and longer matches than these are done by a whole warp.
inline constexpr std::uint32_t kMaxOwnLiterals = 32, kMaxOwnMatch = 32;

// Makes `count` cells of raw bytes, from `to` on. By a warp.
template <class Cell, class Before>
__device__ inline void make_literals(Cell* to, const Byte* content, std::uint32_t each, std::uint32_t count, Cell done,
                                     const Before& before, unsigned lane) {
  constexpr unsigned kSteps = Before::kAtOnce;
  for (std::uint32_t at = lane; at < count; at += 32 * kSteps) {
    Byte held[kSteps] = {};
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
      if (at + 32 * k < count) held[k] = before.load(content + (at + 32 * k) * each);
    }
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
      if (at + 32 * k < count) to[at + 32 * k] = static_cast<Cell>(done | held[k]);
    }
  }
}

// Makes cells [from, to) of a match that begins at `begin`, kSteps per lane at a time. If the match overlaps itself,
// its cells refer to the bytes before it. By a warp.
template <unsigned kSteps, class Cell, class Before>
__device__ inline void make_match(Cell* cells, std::int32_t begin, std::uint32_t offset, std::int32_t from,
                                  std::int32_t to, Cell done, const Before& before, unsigned lane) {
  const bool repeats = static_cast<std::uint32_t>(to - begin) > offset;
  const bool by_mask = (offset & (offset - 1)) == 0;  // most matches that overlap themselves repeat a single value
  for (std::int32_t at = from + static_cast<std::int32_t>(lane); at < to; at += 32 * kSteps) {
    Cell held[kSteps] = {};  // `done` where a byte is loaded
    std::int32_t source[kSteps] = {};
    Byte loaded[kSteps] = {};
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
      if (at + static_cast<std::int32_t>(32 * k) >= to) continue;
      auto made = static_cast<std::uint32_t>(at - begin) + 32 * k;
      if (repeats) made = by_mask ? made & (offset - 1) : made % offset;
      source[k] = begin + static_cast<std::int32_t>(made) - static_cast<std::int32_t>(offset);
      held[k] = source[k] >= 0                   ? static_cast<Cell>(source[k])
                : source[k] < before.known_below ? done
                                                 : before.open(source[k]);
    }
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
      if (held[k] == done) loaded[k] = before.load(before.output + source[k]);
    }
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
      if (at + static_cast<std::int32_t>(32 * k) < to) {
        cells[at + static_cast<std::int32_t>(32 * k)] = static_cast<Cell>(held[k] | loaded[k]);
      }
    }
  }
}

// The cell of byte k of a word.
template <class Cell>
__device__ inline Cell cell_of(std::uint32_t word, unsigned k, Cell done) {
  static_assert(sizeof(Cell) == 2 || sizeof(Cell) == 4);
  // The byte, and the only bit of `done`, which is the highest.
  return static_cast<Cell>(
      __byte_perm(word, done >> (8 * sizeof(Cell) - 8), (sizeof(Cell) == 2 ? 0x5540 : 0x4550) + k));
}

// Stores up to eight cells at `to`: from bytes of three words starting at byte `off`, or links to consecutive places
// from `link` on.
template <class Cell>
__device__ inline void put_eight(Cell* to, std::uint32_t count, const std::uint32_t (&words)[3], unsigned off,
                                 bool linked, std::uint32_t link, Cell done) {
  const std::uint32_t held[2] = {__funnelshift_r(words[0], words[1], 8 * off),
                                 __funnelshift_r(words[1], words[2], 8 * off)};
  HEADRACE_LZ77_UNROLL for (unsigned half = 0; half < 2; ++half) {
    if (count <= 4 * half) return;
    HEADRACE_LZ77_UNROLL for (unsigned k = 4 * half; k < 4 * half + 4; ++k) {
      const Cell cell = linked ? static_cast<Cell>(link + k) : cell_of(held[half], k % 4, done);
      if (k < count) to[k] = cell;
    }
  }
}

// Loads the words from `at` on, except the first `have`, that contain the `count` bytes from byte `off` on.
template <unsigned have, class Before>
__device__ inline void load_words(std::uint32_t (&words)[3], const std::uint32_t* at, std::uint32_t off,
                                  std::uint32_t count, const Before& before) {
  HEADRACE_LZ77_UNROLL for (unsigned k = have; k < 3; ++k) {
    if (count != 0 && off + count > 4 * k) words[k] = before.load(at + k);
  }
}

// Makes the cells of bytes [from, to) of a group, which begins at `base` of the window. Each lane makes those of its
// own sequence from whole words, since most are short. By a warp.
template <class Cell, class Before>
__device__ inline void make_group(Cell* cells, const OutputRun& piece, const SequenceGroup& group, std::int32_t base,
                                  std::uint32_t from, std::uint32_t to, Cell done, const Before& before,
                                  unsigned lane) {
  const std::uint32_t each = piece.one ? 0 : 1;
  const auto inside = [from, to](std::uint32_t at) { return at < from ? from : at < to ? at : to; };
  const std::uint32_t literals_at = inside(group.begin), match_at = inside(group.match_at), end = inside(group.upto);
  const auto number = static_cast<std::uint32_t>(static_cast<std::int32_t>(literals_at) + group.literal_from);
  const std::uint32_t literals = match_at - literals_at, bytes = end - match_at;

  // All bytes of the match need the same kind of source; otherwise the warp makes it.
  const std::int32_t source = base + static_cast<std::int32_t>(match_at) - static_cast<std::int32_t>(group.offset);
  const std::int32_t behind = source + static_cast<std::int32_t>(bytes);
  std::uint32_t link = static_cast<std::uint32_t>(source);
  bool linked = source >= 0;
  if (Before::kOpen && source < 0 && source >= before.known_below && behind <= 0) {
    link = before.open(source);
    linked = before.open(behind - 1) == link + bytes - 1;
  }
  const Byte* const at = before.output + source;
  const auto off = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at) & 3);
  const bool loaded = source - static_cast<std::int32_t>(off) >= before.first && behind + 3 <= before.known_below;
  const bool own_match = bytes <= kMaxOwnMatch && group.upto - group.match_at <= group.offset && (loaded || linked);
  const bool own_literals = literals <= kMaxOwnLiterals;

  // Issues all loads first, so that their latencies overlap.
  const Byte* const content = piece.content + number * each;
  const auto literal_off = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(content) & 3);
  const auto* literal_word = reinterpret_cast<const std::uint32_t*>(content - literal_off);
  const auto* word = reinterpret_cast<const std::uint32_t*>(at - off);
  std::uint32_t literals_left = own_literals ? literals : 0, left = own_match ? bytes : 0;
  std::uint32_t to_load = linked ? 0 : left, literal_words[3] = {}, words[3] = {};
  load_words<0>(literal_words, literal_word, literal_off, piece.one && literals_left != 0 ? 1 : literals_left, before);
  load_words<0>(words, word, off, to_load, before);

  Cell* to_cells = cells + base + static_cast<std::int32_t>(literals_at);
  Cell* to_match = to_cells + literals;
  if (piece.one) {
    HEADRACE_LZ77_UNROLL for (unsigned k = 3; k-- > 0;) {
      literal_words[k] = __byte_perm(literal_words[0], 0, 0x1111 * literal_off);
    }
  }
  put_eight(to_cells, literals_left, literal_words, literal_off, false, 0, done);
  while (__any_sync(kAllLanes, literals_left > 8)) {
    literals_left -= literals_left < 8 ? literals_left : 8;
    to_cells += 8;
    if (!piece.one) {
      literal_word += 2;
      literal_words[0] = literal_words[2];
      load_words<1>(literal_words, literal_word, literal_off, literals_left, before);
    }
    put_eight(to_cells, literals_left, literal_words, literal_off, false, 0, done);
  }
  put_eight(to_match, left, words, off, linked, link, done);
  while (__any_sync(kAllLanes, left > 8)) {
    const std::uint32_t put = left < 8 ? left : 8;
    left -= put;
    to_load -= to_load < put ? to_load : put;
    to_match += 8;
    link += 8;
    word += 2;
    words[0] = words[2];
    load_words<1>(words, word, off, to_load, before);
    put_eight(to_match, left, words, off, linked, link, done);
  }

  for (unsigned others = __ballot_sync(kAllLanes, !own_literals); others != 0; others &= others - 1) {
    const unsigned k = static_cast<unsigned>(__ffs(static_cast<int>(others))) - 1;
    const std::uint32_t its_place = __shfl_sync(kAllLanes, literals_at, k);
    const std::uint32_t its_number = __shfl_sync(kAllLanes, number, k);
    make_literals(cells + base + static_cast<std::int32_t>(its_place), piece.content + its_number * each, each,
                  __shfl_sync(kAllLanes, literals, k), done, before, lane);
  }
  for (unsigned others = __ballot_sync(kAllLanes, !own_match && bytes != 0); others != 0; others &= others - 1) {
    const unsigned k = static_cast<unsigned>(__ffs(static_cast<int>(others))) - 1;
    const auto in_window = [&](std::uint32_t own) {
      return base + static_cast<std::int32_t>(__shfl_sync(kAllLanes, own, k));
    };
    const std::int32_t its_begin = in_window(group.match_at), its_place = in_window(match_at), its_end = in_window(end);
    const std::uint32_t its_offset = __shfl_sync(kAllLanes, group.offset, k);
    if (its_end - its_place <= 32) {
      make_match<1>(cells, its_begin, its_offset, its_place, its_end, done, before, lane);
    } else {
      make_match<Before::kAtOnce>(cells, its_begin, its_offset, its_place, its_end, done, before, lane);
    }
  }
}

// Makes the cells at positions [from, to) of the window, all of one piece. `shift`: the piece's first byte as a
// position of the window. By a warp.
template <class Cell, class Before>
__device__ inline void make_cells(Cell* cells, const OutputRun& piece, std::int32_t shift, std::uint32_t from,
                                  std::uint32_t to, Cell done, const Before& before_window, unsigned lane) {
  const std::uint32_t each = piece.one ? 0 : 1;
  const auto in_piece = [shift](std::uint32_t position) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(position) - shift);
  };
  if (piece.count == 0) {
    make_literals(cells + from, piece.content + in_piece(from) * each, each, to - from, done, before_window, lane);
    return;
  }
  const std::uint32_t groups = groups_of(piece.count), begin = in_piece(from), end = in_piece(to);
  const auto start_of = [&](std::uint32_t g) {
    const Checkpoint at = piece.checkpoints[g];
    return at.literals + at.matches;
  };
  // Searches one entry past the groups, whose bytes are the remaining literals.
  std::uint32_t g = count_while(groups + 1, lane, [&](std::uint32_t x) { return start_of(x) <= begin; }) - 1;
  std::uint64_t ahead = g * kGroup + lane < piece.count ? piece.sequences[g * kGroup + lane] : 0;
  const Checkpoint before = piece.checkpoints[g];
  std::uint32_t literals = before.literals, start = before.literals + before.matches;  // of the group
  for (; g < groups; ++g) {
    if (start >= end) return;
    const std::uint32_t i = g * kGroup + lane;
    const SequenceGroup group(ahead, i < piece.count, literals, lane);
    if (i + kGroup < piece.count) ahead = piece.sequences[i + kGroup];
    const std::uint32_t bytes = __shfl_sync(kAllLanes, group.upto, 31);
    make_group(cells, piece, group, static_cast<std::int32_t>(start) + shift, begin > start ? begin - start : 0,
               bytes < end - start ? bytes : end - start, done, before_window, lane);
    start += bytes;
    literals += __shfl_sync(kAllLanes, group.literals_upto, 31);
  }
  const std::uint32_t rest = begin > start ? begin : start;
  if (rest < end) {
    make_literals(cells + static_cast<std::int32_t>(rest) + shift, piece.content + (literals + rest - start) * each,
                  each, end - rest, done, before_window, lane);
  }
}

// Makes the cells of [begin, begin + bytes) of a stream's output, from piece `x` on. By all threads of a block.
template <class Cell, class Job, class Before>
__device__ inline void make_window(Cell* cells, const Job& job, std::uint32_t x, std::uint32_t begin,
                                   std::uint32_t bytes, Cell done, const Before& before_window) {
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const std::uint32_t share = (bytes + warps - 1) / warps;
  const std::uint32_t first = warp * share < bytes ? warp * share : bytes;
  const std::uint32_t last = bytes - first < share ? bytes : first + share;
  for (std::uint32_t at = first; at < last; ++x) {
    const OutputRun piece = job.piece(x);
    const std::int32_t shift = static_cast<std::int32_t>(piece.out - begin);
    const auto piece_end = static_cast<std::uint32_t>(shift + static_cast<std::int32_t>(piece.bytes));
    if (shift + static_cast<std::int32_t>(piece.bytes) <= static_cast<std::int32_t>(at)) continue;
    const std::uint32_t to = piece_end < last ? piece_end : last;
    make_cells(cells, piece, shift, at, to, done, before_window, lane);
    at = to;
  }
}

// Follows links, which are cells below `links_below`, until they end at a cell that is no link. Calls `some(i, values,
// count)` for the cells from i on, count being kEach or the rest. Cells are updated only to shorten later searches. By
// all threads of a block. REQUIRES: there are cells up to a multiple of kEach.
template <std::uint32_t kEach, class Cell, class Some>
__device__ inline void follow_links(Cell* cells, std::uint32_t bytes, Cell links_below, const Some& some) {
  struct alignas(kEach * sizeof(Cell)) Cells {
    Cell each[kEach];
  };
  const std::uint32_t t = threadIdx.x, at_once = blockDim.x * kEach;
  for (std::uint32_t part = 0; part < bytes; part += at_once) {
    const std::uint32_t i = part + t * kEach, count = i >= bytes ? 0 : bytes - i < kEach ? bytes - i : kEach;
    Cells value;
    if (count != 0) value = *reinterpret_cast<const Cells*>(cells + i);
    bool linked = false;
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kEach; ++k) {
      if (k >= count) value.each[k] = links_below;
      linked |= value.each[k] < links_below;
    }
    const bool changed = linked;
    while (linked) {
      linked = false;
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kEach; ++k) {
        if (value.each[k] < links_below) value.each[k] = cells[value.each[k]];
        linked |= value.each[k] < links_below;
      }
    }
    if (count != 0) some(i, value.each, count);
    __syncthreads();
    if (part + at_once >= bytes) return;
    if (changed) *reinterpret_cast<Cells*>(cells + i) = value;
    __syncthreads();
  }
}

// Writes at most four bytes, the low bytes of cells.
template <class Cell>
__device__ inline void write_four(Byte* out, const Cell* value, std::uint32_t count) {
  if (count == 4 && reinterpret_cast<std::uintptr_t>(out) % 4 == 0) {
    *reinterpret_cast<std::uint32_t*>(out) = (value[0] & 255u) | (value[1] & 255u) << 8 | (value[2] & 255u) << 16 |
                                             static_cast<std::uint32_t>(value[3]) << 24;
  } else {
    for (unsigned k = 0; k < count; ++k) out[k] = static_cast<Byte>(value[k]);
  }
}

}  // namespace headrace::codec::gpu::lz77

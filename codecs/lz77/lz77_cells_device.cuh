// A window of the output in shared memory: its bytes as cells, which have the byte or say what it is a copy of. Device
// code without a CUDA header.
//
// Each warp of a thread block makes the cells of its share, whatever sequences are there, so that a long
// match keeps no one waiting. Then links that stay inside the window are followed, a few KiB at a time, so that most of
// them lead to a cell that is done.
#pragma once

#include "lz77_device.cuh"

namespace headrace::codec::gpu::lz77 {

// What lies before a window is told by a type `Before`, which has
//   unsigned kAtOnce                   bytes that a lane makes cells of at a time
//   const Byte* output                 the window's first byte
//   bool there(std::int32_t s) const   whether byte s, s < 0, has been written
//   Cell open(std::int32_t s) const    the cell of a copy of it if it has not
//   Byte load(const Byte* at) const    a byte of it, or of a piece's content

// Cells at positions [from, to) of the window, all of one piece. `shift`: the window's position of the piece's first
// byte. Bytes are not looked at before all loads of some steps have been begun. By a warp.
template <class Cell, class Before>
__device__ inline void make_cells(Cell* cells, const Piece& piece, std::int32_t shift, std::uint32_t from,
                                  std::uint32_t to, Cell done, const Before& before_window, unsigned lane) {
  constexpr unsigned kSteps = Before::kAtOnce;
  const std::uint32_t each = piece.one ? 0 : 1;
  const auto bytes_as_they_are = [&](std::uint32_t begin, std::uint32_t first) {
    for (std::uint32_t at = begin + lane; at < to; at += 32 * kSteps) {
      Byte held[kSteps] = {};
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
        if (at + 32 * k < to) held[k] = before_window.load(piece.content + (first + at + 32 * k - begin) * each);
      }
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
        if (at + 32 * k < to) cells[at + 32 * k] = static_cast<Cell>(done | held[k]);
      }
    }
  };
  const auto in_piece = [shift](std::uint32_t position) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(position) - shift);
  };
  if (piece.count == 0) {
    bytes_as_they_are(from, in_piece(from));
    return;
  }
  const std::uint32_t groups = groups_of(piece.count), begin = in_piece(from), end = in_piece(to);
  const auto start_of = [&](std::uint32_t g) {
    const Checkpoint at = piece.checkpoints[g];
    return at.literals + at.matches;
  };
  // Of the entries up to the one behind all groups, whose bytes are the literals that are left.
  std::uint32_t g = count_while(groups + 1, lane, [&](std::uint32_t x) { return start_of(x) <= begin; }) - 1;
  std::uint64_t ahead = g * kGroup + lane < piece.count ? piece.sequences[g * kGroup + lane] : 0;
  const Checkpoint before = piece.checkpoints[g];
  std::uint32_t literals = before.literals, start = before.literals + before.matches;  // of the group
  for (; g < groups; ++g) {
    if (start >= end) return;
    const std::uint32_t i = g * kGroup + lane;
    const Group group(ahead, i < piece.count, literals, lane);
    if (i + kGroup < piece.count) ahead = piece.sequences[i + kGroup];
    const std::uint32_t bytes = __shfl_sync(kAllLanes, group.upto, 31);
    const std::uint32_t stop = bytes < end - start ? bytes : end - start;
    const std::int32_t base = static_cast<std::int32_t>(start) + shift;  // of the group, in the window
    std::uint32_t at = begin > start ? begin - start : 0;
    for (unsigned begun = group.begun(at); at < stop; at += 32 * kSteps) {
      Cell held[kSteps] = {};  // `done` where a byte is loaded
      Byte loaded[kSteps] = {};
      std::int32_t place[kSteps] = {};  // of content, or below 0 from the window on
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
        const std::uint32_t step = at + 32 * k;
        if (step >= stop) continue;
        const Origin origin = group.origin<true>(step, begun, lane);
        const std::int32_t source = base + origin.source;
        const bool there = origin.literal || (source < 0 && before_window.there(source));
        place[k] = origin.literal ? static_cast<std::int32_t>(origin.number * each) : source;
        held[k] = there ? done : source >= 0 ? static_cast<Cell>(source) : before_window.open(source);
        if (step + lane >= stop) held[k] = 0;
      }
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
        if (held[k] == done) {
          loaded[k] = before_window.load((place[k] < 0 ? before_window.output : piece.content) + place[k]);
        }
      }
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
        const std::uint32_t own = at + 32 * k + lane;
        if (own < stop) cells[base + static_cast<std::int32_t>(own)] = static_cast<Cell>(held[k] | loaded[k]);
      }
    }
    start += bytes;
    literals += __shfl_sync(kAllLanes, group.literals_upto, 31);
  }
  const std::uint32_t rest = begin > start ? begin : start;
  if (rest < end) {
    bytes_as_they_are(static_cast<std::uint32_t>(static_cast<std::int32_t>(rest) + shift), literals + rest - start);
  }
}

// The cells of [begin, begin + bytes) of a stream's output, which pieces from `x` on make. By all threads of a block.
template <class Cell, class Job, class Before>
__device__ inline void make_window(Cell* cells, const Job& job, std::uint32_t x, std::uint32_t begin,
                                   std::uint32_t bytes, Cell done, const Before& before_window) {
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const std::uint32_t share = (bytes + warps - 1) / warps;
  const std::uint32_t first = warp * share < bytes ? warp * share : bytes;
  const std::uint32_t last = bytes - first < share ? bytes : first + share;
  for (std::uint32_t at = first; at < last; ++x) {
    const Piece piece = job.piece(x);
    const std::int32_t shift = static_cast<std::int32_t>(piece.out - begin);
    const auto piece_end = static_cast<std::uint32_t>(shift + static_cast<std::int32_t>(piece.bytes));
    if (shift + static_cast<std::int32_t>(piece.bytes) <= static_cast<std::int32_t>(at)) continue;
    const std::uint32_t to = piece_end < last ? piece_end : last;
    make_cells(cells, piece, shift, at, to, done, before_window, lane);
    at = to;
  }
}

// Follows links, which are cells below `links_below`, to what is none; `four(i, values, count)` is told of each four
// cells from i on. By all threads of a block. REQUIRES: there are cells up to a multiple of four.
template <class Cell, class Four>
__device__ inline void follow_links(Cell* cells, std::uint32_t bytes, Cell links_below, const Four& four) {
  struct alignas(4 * sizeof(Cell)) Cells {
    Cell each[4];
  };
  const std::uint32_t t = threadIdx.x, threads = blockDim.x;
  for (std::uint32_t part = 0; part < bytes; part += threads * 4) {
    const std::uint32_t i = part + t * 4, count = i >= bytes ? 0 : bytes - i < 4 ? bytes - i : 4;
    Cells value;
    if (count != 0) value = *reinterpret_cast<const Cells*>(cells + i);
    bool linked = false;
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < 4; ++k) {
      if (k >= count) value.each[k] = links_below;
      linked |= value.each[k] < links_below;
    }
    const bool changed = linked;
    while (linked) {
      linked = false;
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < 4; ++k) {
        if (value.each[k] < links_below) value.each[k] = cells[value.each[k]];
        linked |= value.each[k] < links_below;
      }
    }
    if (count != 0) four(i, value.each, count);
    __syncthreads();
    if (changed) *reinterpret_cast<Cells*>(cells + i) = value;
    __syncthreads();
  }
}

// Four bytes or fewer, of cells whose low byte it is.
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

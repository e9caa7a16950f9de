// Step of the DEFLATE decoder that follows runs: where their blocks begin and end, and where the first code word of
// each cell begins. Device code without a CUDA header.
//
// A warp takes 32 cells of a block at a time, which it copies to shared memory, a lane each. Where the first code word
// of a cell begins is only known for lane 0; the others begin at the cell's first bit. Decoders that start at different
// places soon meet, so all are right at the end of their cell, most often, and the next lane can be told where it
// should have begun. It begins there again, and is done when it comes to where it was at the middle of its cell. So
// what comes out is exact, whatever the bytes are; guesses that are all wrong cost time, 32 times that of the cells at
// most.
#pragma once

#include "deflate_headers_device.cuh"
#include "deflate_tables_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr std::uint32_t kMeetingBits = 256;  // of a cell: where walks of it are compared
inline constexpr unsigned kWindowWords = 32 * kCellBits / 32 + 6;
static_assert(kDescriptionBits / 32 + 6 < kWindowWords);

struct TraceSpace {
  Codes codes;
  std::uint32_t words[kWindowWords];
};

// What a walk came by.
struct Walk {
  enum class Stop : std::uint8_t { kNot, kEnd, kBad };
  std::uint32_t at = 0;  // behind the last code word
  std::uint32_t literals = 0, matches = 0, match_bytes = 0;
  Stop stop = Stop::kNot;
  bool stepped = false;  // over something that ends a block, or is none
};

// From `at` until a code word ends at `until` or behind. `guess`: what ends a block, or is none, is stepped over.
__device__ inline Walk walk(const Codes& codes, const Window& window, std::uint32_t at, std::uint32_t until,
                            bool guess) {
  Walk out;
  Bits bits(window, at);
  while (at < until) {
    bits.fill();
    std::uint32_t low = bits.low();
    const std::uint32_t entry = next_literal(codes, low);
    const unsigned take = Entry::total(entry);
    bits.skip(take);
    at += take;
    if ((entry & (Entry::kMatch | Entry::kEnd | Entry::kBad)) == 0) {
      ++out.literals;
      continue;
    }
    if ((entry & Entry::kMatch) == 0) {
      if (guess) {
        out.stepped = true;
        continue;
      }
      out.stop = (entry & Entry::kEnd) != 0 ? Walk::Stop::kEnd : Walk::Stop::kBad;
      break;
    }
    bits.fill();
    const std::uint32_t distance = next_distance(codes, bits.low());
    if ((distance & Entry::kBad) != 0) {
      if (!guess) {
        out.stop = Walk::Stop::kBad;
        break;
      }
      out.stepped = true;
    }
    bits.skip(Entry::total(distance));
    at += Entry::total(distance);
    ++out.matches;
    out.match_bytes += Entry::value_with_extra(entry, low);
  }
  out.at = at;
  return out;
}

// 32 cells or fewer, a lane each.
struct Cells {
  Walk walk;  // of this lane's cell
  std::uint32_t entry;
  unsigned last;       // lane of the last cell that belongs to the block
  unsigned walks = 0;  // how often lanes had to be told where their cell begins
};

// The cells from `grid` on; the first code word begins at `entry`. By a warp.
__device__ inline Cells walk_cells(const Codes& codes, const Window& window, std::uint32_t grid, std::uint32_t entry,
                                   std::uint32_t end_of_input, unsigned lane) {
  const std::uint32_t begin = grid + lane * kCellBits;
  const bool active = begin < end_of_input;
  Cells out;
  out.entry = lane == 0 ? entry : begin;
  std::uint32_t met = kNone;  // where the walk to the middle ended
  Walk rest;
  bool again = active, guess = lane != 0;
  out.last = 0;
  for (;;) {
    if (again) {
      Walk all = walk(codes, window, out.entry, begin + kMeetingBits, guess);
      if (all.stop == Walk::Stop::kNot) {
        if (all.at != met) {
          met = all.at;
          rest = walk(codes, window, met, begin + kCellBits, false);
        }
        all.at = rest.at;
        all.literals += rest.literals;
        all.matches += rest.matches;
        all.match_bytes += rest.match_bytes;
        all.stop = rest.stop;
      }
      out.walk = all;
    }
    guess = false;
    const unsigned stops = __ballot_sync(kAllLanes, !active || out.walk.stop != Walk::Stop::kNot);
    out.last = stops == 0 ? 31 : lowest_bit(stops);
    const std::uint32_t before = __shfl_up_sync(kAllLanes, out.walk.at, 1);
    again = active && lane != 0 && lane <= out.last && (out.entry != before || out.walk.stepped);
    if (!__any_sync(kAllLanes, again)) break;
    ++out.walks;
    if (again) out.entry = before;
  }
  return out;
}

inline constexpr std::uint32_t kWalksAtFirst = 128, kWalksATurn = 8;

// A piece as it grows.
struct Growing {
  std::uint32_t bytes = 0, literals = 0, matches = 0;
  bool any = false;
};

__device__ inline void close_piece(Growing& piece, Block& block, Run& run) {
  run.units += literal_units(piece.literals) + slot_units(piece.matches) + checkpoint_units(piece.matches);
  ++block.pieces;
  piece = {};
}

struct Failure {
  DecodeReason reason = DecodeReason::kNone;
  std::uint32_t at = 0;  // byte
};

// What bounds a run: where the next one begins, and what it may note.
struct Bounds {
  std::uint32_t segment;  // in the stream; of the next run, or behind the last one
  std::uint32_t start;    // bit, or kNone
};

// Where a warp follows a run. All lanes hold the same.
struct Tracer {
  const Job& job;
  TraceSpace& space;
  const DeflateStream& stream;
  const StreamState& state;
  const Input input;
  const std::uint32_t segment;  // where the run begins, of all streams
  const unsigned lane;
  const std::uint32_t first_block, first_cell;
  Bounds next{};
  std::uint32_t block_room = 0, cell_room = 0;
  // Walks that may still follow one another. Where cells do not meet, a warp is as slow as one lane: streams made so
  // are for the CPU.
  std::uint32_t walks_left = kWalksAtFirst;

  __device__ Tracer(const Job& j, TraceSpace& s, std::uint32_t i, std::uint32_t run_segment, unsigned l)
      : job(j),
        space(s),
        stream(j.streams[i]),
        state(j.states[i]),
        input(stream.src, stream.src_bytes),
        segment(run_segment),
        lane(l),
        first_block(state.first_block + (run_segment - state.first_segment) * state.blocks_each),
        first_cell(cells_from(run_segment - state.first_segment, j.starts[run_segment])) {}

  // Of a run at bit `at`, in a segment of the stream.
  __device__ std::uint32_t cells_from(std::uint32_t own, std::uint32_t at) const {
    return state.first_cell + at / kCellBits + own * (state.blocks_each + 1);
  }

  __device__ std::uint32_t end_of_input() const { return input.bytes * 8; }

  // Finds the next run that begins in segment `from` of the stream or behind, at `at` or behind.
  __device__ void look_ahead(std::uint32_t from, std::uint32_t at) {
    next = {state.segments, kNone};
    for (std::uint32_t base = from; base < state.segments; base += 32) {
      const std::uint32_t start = base + lane < state.segments ? job.starts[state.first_segment + base + lane] : kNone;
      const unsigned votes = __ballot_sync(kAllLanes, start != kNone && start >= at);
      if (votes == 0) continue;
      next.segment = base + lowest_bit(votes);
      next.start = __shfl_sync(kAllLanes, start, lowest_bit(votes));
      break;
    }
    block_room = state.first_block + next.segment * state.blocks_each - first_block;
    cell_room = cells_from(next.segment, next.start == kNone ? next.segment * kSegmentBits : next.start) - first_cell;
  }

  __device__ Failure follow_stored(Block& block, Run& run) {
    const std::uint32_t at = (run.at + 3 + 7) / 8;
    if (at > input.bytes || input.bytes - at < 4) return {DecodeReason::kTruncated, at};
    const std::uint32_t word = input.bits(at * 8), length = word & 0xFFFF;
    if ((word >> 16) != (~length & 0xFFFF)) return {DecodeReason::kHeader, at};
    if (input.bytes - at - 4 < length) return {DecodeReason::kTruncated, at};
    block.at = at + 4;
    block.bytes = length;
    block.pieces = length != 0 ? 1 : 0;
    run.at = (block.at + length) * 8;
    return {};
  }

  // Notes the cells of one turn.
  __device__ Failure note_cells(const Cells& cells, std::uint32_t grid, Growing& piece, Block& block, Run& run) {
    const std::uint32_t count = cells.last + 1;
    if (count > cell_room - run.cells) return {DecodeReason::kHostOnly, 0};
    const bool mine = lane < count;
    const std::uint32_t literals = mine ? cells.walk.literals : 0, matches = mine ? cells.walk.matches : 0;
    const std::uint32_t match_bytes = mine ? cells.walk.match_bytes : 0, bytes = literals + match_bytes;
    const std::uint32_t all = __reduce_add_sync(kAllLanes, bytes);
    const std::uint32_t all_literals = __reduce_add_sync(kAllLanes, literals);
    const std::uint32_t all_matches = __reduce_add_sync(kAllLanes, matches);
    bool first = lane == 0 && !piece.any;
    if (piece.bytes + all <= kMaxPieceBytes) {
      piece = {piece.bytes + all, piece.literals + all_literals, piece.matches + all_matches, true};
    } else {
      for (unsigned k = 0; k < count; ++k) {
        const std::uint32_t its_bytes = __shfl_sync(kAllLanes, bytes, k);
        if (piece.bytes + its_bytes > kMaxPieceBytes) {
          close_piece(piece, block, run);
          if (k == lane) first = true;
        }
        piece = {piece.bytes + its_bytes, piece.literals + __shfl_sync(kAllLanes, literals, k),
                 piece.matches + __shfl_sync(kAllLanes, matches, k), true};
      }
    }
    if (mine) {
      Cell cell;
      cell.symbols = (cells.entry - (grid + lane * kCellBits)) | literals << Cell::kLiteralShift |
                     matches << Cell::kMatchShift | (first ? 1u : 0u) << Cell::kFirstShift;
      cell.match_bytes = match_bytes;
      job.cells[first_cell + run.cells + lane] = cell;
    }
    run.cells += count;
    block.cells += count;
    block.bytes += all;
    if (block.bytes > stream.dst_bytes - run.bytes) return {DecodeReason::kLength, run.at / 8};
    return {};
  }

  // A block with code words; its codes have been built.
  __device__ Failure follow_codes(bool through, Block& block, Run& run, bool& passed) {
    std::uint32_t grid = block.at, entry = block.at;
    Growing piece;
    for (;;) {
      if (entry >= end_of_input()) return {DecodeReason::kTruncated, input.bytes};
      const Window window(input, grid, space.words, kWindowWords, lane);
      const Cells cells = walk_cells(space.codes, window, grid, entry, end_of_input(), lane);
      entry = __shfl_sync(kAllLanes, cells.walk.at, cells.last);
      const auto stop =
          static_cast<Walk::Stop>(__shfl_sync(kAllLanes, static_cast<std::uint32_t>(cells.walk.stop), cells.last));
      if (__shfl_sync(kAllLanes, grid + lane * kCellBits, cells.last) >= end_of_input()) {
        return {DecodeReason::kTruncated, input.bytes};
      }
      if (stop == Walk::Stop::kBad) return {DecodeReason::kHostOnly, 0};
      if (cells.walks > walks_left + kWalksATurn) return {DecodeReason::kHostOnly, 0};
      walks_left += kWalksATurn - cells.walks;
      if (entry > next.start) {
        if (!through) {
          passed = true;
          return {};
        }
        look_ahead(next.segment + 1, entry);
      }
      const Failure failure = note_cells(cells, grid, piece, block, run);
      if (failure.reason != DecodeReason::kNone) return failure;
      if (stop == Walk::Stop::kEnd) break;
      grid += 32 * kCellBits;
    }
    if (entry > end_of_input()) return {DecodeReason::kTruncated, input.bytes};
    if (block.bytes != 0) {
      close_piece(piece, block, run);
    } else {
      run.cells -= block.cells;
      block.cells = 0;
    }
    run.at = entry;
    return {};
  }

  // The block at run.at. `passed`: the next run begins inside it.
  __device__ Failure follow_block(bool through, Run& run, bool& passed) {
    if (run.blocks == block_room) return {DecodeReason::kHostOnly, 0};
    const std::uint32_t begin = run.at;
    if (end_of_input() - begin < 3) return {DecodeReason::kTruncated, begin / 8};
    const std::uint32_t head = input.bits(begin);
    const bool last = (head & 1) != 0;
    const unsigned type = head >> 1 & 3;
    Block block{};
    block.trailer_at = kNone;
    block.first_cell = first_cell + run.cells;
    if (type == 3) return {DecodeReason::kHeader, begin / 8};
    Failure failure;
    if (type == 0) {
      block.kind = BlockKind::kStored;
      failure = follow_stored(block, run);
      if (failure.reason == DecodeReason::kNone && block.bytes > stream.dst_bytes - run.bytes) {
        failure = {DecodeReason::kLength, begin / 8};
      }
    } else {
      block.kind = type == 1 ? BlockKind::kFixed : BlockKind::kDynamic;
      block.at = begin + 3;
      if (type == 1) {
        fixed_lengths(space.codes, lane);
      } else {
        const Window window(input, block.at, space.words, kDescriptionBits / 32 + 6, lane);
        const Description description = read_description(space.codes, window, block.at, end_of_input(), lane);
        if (description.reason != DecodeReason::kNone) return {description.reason, begin / 8};
        block.at = description.end;
      }
      const DecodeReason reason = build_tables(space.codes, lane);
      if (reason != DecodeReason::kNone) return {reason, begin / 8};
      failure = follow_codes(through, block, run, passed);
    }
    if (failure.reason != DecodeReason::kNone || passed) return failure;
    if (last) {
      block.trailer_at = (run.at + 7) / 8;
      if (block.pieces == 0) block.pieces = 1;
    }
    Block& noted = job.blocks[first_block + run.blocks];
    if (lane == 0) {
      noted.at = block.at;
      noted.bytes = block.bytes;
      noted.first_cell = block.first_cell;
      noted.cells = block.cells;
      noted.pieces = block.pieces;
      noted.trailer_at = block.trailer_at;
      noted.kind = block.kind;
    }
    if (block.kind == BlockKind::kDynamic) store_lengths(space.codes, noted.lengths, lane);
    ++run.blocks;
    run.bytes += block.bytes;
    run.pieces += block.pieces;
    run.member_bytes += block.bytes;
    run.member_pieces += block.pieces;
    return last ? end_member(block.trailer_at, run) : Failure{};
  }

  // Behind a member's last block: its trailer, and the next member's header.
  __device__ Failure end_member(std::uint32_t at, Run& run) {
    const std::uint32_t trailer = trailer_bytes(stream.kind);
    if (at > input.bytes || input.bytes - at < trailer) return {DecodeReason::kTruncated, at};
    run.ends_member = true;
    run.member_bytes = run.member_pieces = 0;
    at += trailer;
    run.at = at * 8;
    if (at == input.bytes) {
      run.status = RunStatus::kEnded;
      return {};
    }
    if (stream.kind != DeflateKind::kGzip) return {DecodeReason::kTrailing, at};
    const Header header = read_gzip_header(stream.src, input.bytes, at);
    if (header.reason != DecodeReason::kNone) return {header.reason, at};
    run.at = header.end * 8;
    return {};
  }

  // Until the next run begins where a block ends. `through`: whatever begins inside a block is no run, and is crossed
  // out.
  __device__ void follow(bool through) {
    Run run = job.runs[segment];
    const std::uint32_t own = segment - state.first_segment;
    look_ahead(own + 1, through ? run.at : 0);
    run.status = RunStatus::kLinked;
    for (;;) {
      if (run.at >= next.start) {
        if (run.at == next.start) break;
        if (!through) {
          run.status = RunStatus::kPassed;
          break;
        }
        look_ahead(next.segment + 1, run.at);
        continue;
      }
      // A block that turns out to belong to nothing leaves nothing.
      const Run before = run;
      bool passed = false;
      const Failure failure = follow_block(through, run, passed);
      if (passed) {
        run = before;
        run.status = RunStatus::kPassed;
        break;
      }
      if (failure.reason != DecodeReason::kNone) {
        run.status = RunStatus::kBad;
        run.reason = static_cast<std::uint32_t>(failure.reason);
        run.bad_at = failure.at;
        break;
      }
      if (run.status == RunStatus::kEnded) break;
    }
    __syncwarp();
    if (through) {
      // What begins before the next run, or behind the end, is none.
      for (std::uint32_t x = own + 1 + lane; x < (run.status == RunStatus::kEnded ? state.segments : next.segment);
           x += 32) {
        job.starts[state.first_segment + x] = kNone;
      }
    }
    if (lane == 0) job.runs[segment] = run;
    __syncwarp();
  }
};

__device__ inline void trace_body(const Job& job, TraceSpace& space) {
  const unsigned lane = lane_id();
  const std::uint32_t count = job.totals->runs;
  for (;;) {
    const std::uint32_t ticket = take_ticket(job.totals->trace_ticket, lane);
    if (ticket >= count) return;
    const std::uint32_t segment = job.run_list[ticket];
    const std::uint32_t i = stream_of_segment(job, segment);
    Tracer(job, space, i, segment, lane).follow(false);
  }
}

}  // namespace headrace::codec::gpu::deflate

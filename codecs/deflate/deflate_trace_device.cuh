// Step of the DEFLATE decoder that follows runs: finds where their blocks begin and end, and where the first code word
// of each cell begins (deflate_walks_device.cuh). Device code without a CUDA header.
//
// With few runs, a thread block of several warps takes one; with many, a single warp.
#pragma once

#include "deflate_headers_device.cuh"
#include "deflate_walks_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr std::uint32_t kWalksAtFirst = 128, kWalksATurn = 8;

// A piece under construction.
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

// Where the next run begins, which bounds this one.
struct Bounds {
  std::uint32_t segment;  // segment of the next run within the stream, or the number of segments
  std::uint32_t start;    // bit, or kNone
};

// Follows a run by kWarps warps. All threads hold the same state.
template <unsigned kWarps>
struct Tracer {
  const Job& job;
  TraceSpace<kWarps>& space;
  const DeflateStream& stream;
  const StreamState& state;
  const Input input;
  const std::uint32_t segment;  // where the run begins, numbered over all streams
  const unsigned thread, lane;
  const std::uint32_t first_block, first_cell;
  Bounds next{};
  std::uint32_t block_room = 0, cell_room = 0;
  std::uint32_t stored_before = 0;  // bytes of the block before, if it is a stored one
  // Remaining budget of repeated walks. Where walks do not synchronise, a warp is as slow as one lane; streams crafted
  // that way are left to the CPU.
  std::uint32_t walks_left = kWalksAtFirst;

  __device__ Tracer(const Job& j, TraceSpace<kWarps>& s, std::uint32_t i, std::uint32_t run_segment, unsigned t)
      : job(j),
        space(s),
        stream(j.streams[i]),
        state(j.states[i]),
        input(stream.src, stream.src_bytes),
        segment(run_segment),
        thread(t),
        lane(t % 32),
        first_block(state.first_block + (run_segment - state.first_segment) * state.blocks_each),
        first_cell(cells_from(run_segment - state.first_segment, j.starts[run_segment])) {}

  // First cell of a run at bit `at`, in segment `own` of the stream.
  __device__ std::uint32_t cells_from(std::uint32_t own, std::uint32_t at) const {
    return state.first_cell + at / kCellBits + own * (state.blocks_each + 1);
  }

  __device__ std::uint32_t end_of_input() const { return input.bytes * 8; }

  // Finds the first run at or after bit `at`, from segment `from` of the stream on.
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
    const StoredBlock stored = read_stored(input, run.at);
    if (stored.reason != DecodeReason::kNone) return {stored.reason, stored.at};
    block.at = stored.at;
    block.bytes = stored.bytes;
    block.pieces = stored.bytes != 0 ? 1 : 0;
    run.at = (block.at + block.bytes) * 8;
    return {};
  }

  // Follows stored blocks of the same length as the one before, in parallel, where follow_block() would go one by one.
  __device__ void follow_alike(std::uint32_t length, Run& run) {
    const std::uint32_t each = kStoredHeadBytes + length;
    std::uint32_t count = 32;
    while (count == 32 && run.at < next.start) {
      const std::uint32_t at = run.at / 8;
      // Each must begin before the next run and fit the room for blocks and output.
      const std::uint32_t before_next = (next.start - run.at - 1) / (each * 8) + 1;
      const std::uint32_t places = block_room - run.blocks;
      const std::uint64_t room = (stream.dst_bytes - run.bytes) / length;
      count = count_alike(input, at, length, lane);
      if (count > before_next) count = before_next;
      if (count > places) count = places;
      if (count > room) count = static_cast<std::uint32_t>(room);
      if (thread < count) {
        Block& noted = job.blocks[first_block + run.blocks + thread];
        noted.at = at + thread * each + kStoredHeadBytes;
        noted.bytes = length;
        noted.first_cell = first_cell + run.cells;
        noted.cells = 0;
        noted.pieces = 1;
        noted.trailer_at = kNone;
        noted.kind = BlockKind::kStored;
      }
      run.at += count * each * 8;
      run.blocks += count;
      run.bytes += count * length;
      run.pieces += count;
      run.member_bytes += count * length;
      run.member_pieces += count;
    }
  }

  // Records one warp's share of the cells of a turn, `count` of them; `cell` is this lane's. `write`: the cells belong
  // to this warp.
  __device__ Failure note_cells(Cell cell, std::uint32_t count, bool write, Growing& piece, Block& block, Run& run) {
    if (count > cell_room - run.cells) return {DecodeReason::kHostOnly, 0};
    const bool mine = lane < count;
    const std::uint32_t literals = mine ? cell.literals() : 0, matches = mine ? cell.matches() : 0;
    const std::uint32_t bytes = literals + (mine ? cell.match_bytes : 0);
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
    if (mine && write) {
      cell.symbols |= (first ? 1u : 0u) << Cell::kFirstShift;
      job.cells[first_cell + run.cells + lane] = cell;
    }
    run.cells += count;
    block.cells += count;
    block.bytes += all;
    if (block.bytes > stream.dst_bytes - run.bytes) return {DecodeReason::kLength, run.at / 8};
    return {};
  }

  // Records the cells of a turn.
  __device__ Failure note_turn(const WalkResult& turn, const Cell& own, Growing& piece, Block& block, Run& run) {
    if constexpr (kWarps == 1) {
      return note_cells(own, turn.last + 1, true, piece, block, run);
    } else {
      for (unsigned w = 0; w <= turn.last / 32; ++w) {
        const unsigned count = turn.last + 1 - 32 * w < 32 ? turn.last + 1 - 32 * w : 32;
        const Failure failure = note_cells(space.cells[32 * w + lane], count, thread / 32 == w, piece, block, run);
        if (failure.reason != DecodeReason::kNone) return failure;
      }
      return {};
    }
  }

  // Follows a block with code words, whose codes have been built.
  __device__ Failure follow_codes(bool through, Block& block, Run& run, bool& passed) {
    std::uint32_t grid = block.at, entry = block.at;
    Growing piece;
    for (;;) {
      if (entry >= end_of_input()) return {DecodeReason::kTruncated, input.bytes};
      const BitSpan window = BitSpan::load<kWarps>(input, grid, space.words, kWindowWords<kWarps>, thread);
      Cell cell;
      const WalkResult turn = walk_cells(space, window, grid, entry, end_of_input(), thread, cell);
      entry = turn.end;
      if (grid + turn.last * kCellBits >= end_of_input()) return {DecodeReason::kTruncated, input.bytes};
      if (turn.stop == Walk::Stop::kBad) return {DecodeReason::kHostOnly, 0};
      if (turn.walks > walks_left + kWalksATurn) return {DecodeReason::kHostOnly, 0};
      walks_left += kWalksATurn - turn.walks;
      if (entry > next.start) {
        if (!through) {
          passed = true;
          return {};
        }
        look_ahead(next.segment + 1, entry);
      }
      const Failure failure = note_turn(turn, cell, piece, block, run);
      if (failure.reason != DecodeReason::kNone) return failure;
      if (turn.stop == Walk::Stop::kEnd) break;
      grid += 32 * kWarps * kCellBits;
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

  // Builds a block's codes: the fixed ones, or those described at bit `at`, which becomes the bit of the first code
  // word.
  __device__ DecodeReason read_codes(bool fixed, std::uint32_t& at) {
    DecodeReason reason = DecodeReason::kNone;
    sync_warps<kWarps>();
    if (kWarps == 1 || thread < 32) {
      if (fixed) {
        fixed_lengths(space.codes, lane);
      } else {
        const BitSpan window = BitSpan::load(input, at, space.words, kDescriptionBits / 32 + 7, lane);
        const Description description = read_description(space.codes, window, at, end_of_input(), lane);
        reason = description.reason;
        at = description.end;
      }
    }
    if constexpr (kWarps == 1) {
      return reason != DecodeReason::kNone ? reason : build_tables(space.codes, lane);
    } else {
      const auto tell = [&](unsigned place) {
        if (lane == 0) space.told[place] = static_cast<std::uint32_t>(reason);
      };
      if (thread < 32) {
        tell(0);
        if (lane == 0) space.told[2] = at;
      }
      __syncthreads();
      at = space.told[2];
      reason = static_cast<DecodeReason>(space.told[0]);
      if (reason != DecodeReason::kNone) return reason;
      __syncthreads();
      if (thread < 32) {
        reason = build_table<0>(space.codes, lane);
        tell(0);
      } else if (thread < 64) {
        reason = build_table<1>(space.codes, lane);
        tell(1);
      }
      __syncthreads();
      reason = static_cast<DecodeReason>(space.told[0]);
      return reason != DecodeReason::kNone ? reason : static_cast<DecodeReason>(space.told[1]);
    }
  }

  // Follows the block at run.at. `passed`: the next run begins inside it.
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
      const DecodeReason reason = read_codes(type == 1, block.at);
      if (reason != DecodeReason::kNone) return {reason, begin / 8};
      failure = follow_codes(through, block, run, passed);
    }
    if (failure.reason != DecodeReason::kNone || passed) return failure;
    if (last) {
      block.trailer_at = (run.at + 7) / 8;
      if (block.pieces == 0) block.pieces = 1;
    }
    Block& noted = job.blocks[first_block + run.blocks];
    if (thread == 0) {
      noted.at = block.at;
      noted.bytes = block.bytes;
      noted.first_cell = block.first_cell;
      noted.cells = block.cells;
      noted.pieces = block.pieces;
      noted.trailer_at = block.trailer_at;
      noted.kind = block.kind;
    }
    if (block.kind == BlockKind::kDynamic && thread < 32) store_lengths(space.codes, noted.lengths, lane);
    ++run.blocks;
    run.bytes += block.bytes;
    run.pieces += block.pieces;
    run.member_bytes += block.bytes;
    run.member_pieces += block.pieces;
    if (last) return end_member(block.trailer_at, run);
    const std::uint32_t stored = block.kind == BlockKind::kStored ? block.bytes : 0;
    if (stored >= kAlikeBytes && stored == stored_before) follow_alike(stored, run);
    stored_before = stored;
    return {};
  }

  // After a member's last block: handles its trailer, and the next member's header.
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

  // Follows blocks until one ends where the next run begins. `through`: starts inside blocks are false and are removed.
  __device__ void follow(bool through) {
    Run run{};
    if (through) {
      run = job.runs[segment];
    } else {
      run.at = job.starts[segment];
    }
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
      // A block that turns out to be false leaves no trace.
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
    sync_warps<kWarps>();
    if (through) {
      // Starts before the next run, or after the end, are false.
      for (std::uint32_t x = own + 1 + thread; x < (run.status == RunStatus::kEnded ? state.segments : next.segment);
           x += 32 * kWarps) {
        job.starts[state.first_segment + x] = kNone;
      }
    }
    if (thread == 0) job.runs[segment] = run;
    sync_warps<kWarps>();
  }
};

// For one warp or several. `told` is in shared memory.
template <unsigned kWarps>
__device__ inline std::uint32_t take_ticket_for(std::uint32_t& counter, std::uint32_t& told, unsigned thread) {
  if constexpr (kWarps == 1) {
    return take_ticket(counter, thread);
  } else {
    __syncthreads();
    if (thread == 0) told = atomicAdd(&counter, 1u);
    __syncthreads();
    return told;
  }
}
// Returns the same answer to all threads, although others may lower the outcome at any time.
template <unsigned kWarps>
__device__ inline bool fine_for(const Job& job, std::uint32_t chunk) {
  if constexpr (kWarps == 1) {
    return fine_for_warp(job, chunk);
  } else {
    return __syncthreads_or(threadIdx.x == 0 && fine(job, chunk) ? 1 : 0) != 0;
  }
}

// Whether there are so few streams that several warps share a run, and a piece.
__device__ inline bool by_several_warps(const Job& job) { return job.any_searched(); }

// By one warp, or by several that form a thread block. All runs of a batch use the same way.
template <unsigned kWarps>
__device__ inline void trace_body(const Job& job, TraceSpace<kWarps>& space) {
  const unsigned lane = lane_id(), thread = kWarps == 1 ? lane : threadIdx.x;
  if (by_several_warps(job) != (kWarps != 1)) return;
  const std::uint32_t count = job.totals->runs;
  for (;;) {
    const std::uint32_t ticket = take_ticket_for<kWarps>(job.totals->trace_ticket, space.ticket, thread);
    if (ticket >= count) return;
    const RunPlace run = job.run_list[ticket];
    Tracer<kWarps>(job, space, run.stream, run.segment, thread).follow(false);
  }
}

}  // namespace headrace::codec::gpu::deflate

// Steps of the DEFLATE decoder that cut blocks into pieces, and decode pieces to literals and sequences: list, place,
// decode. Device code without a CUDA header.
#pragma once

#include "deflate_trace_device.cuh"

namespace headrace::codec::gpu::deflate {

// ---- list ----

// Totals of the stream before the next piece.
struct Listed {
  std::uint32_t piece, out, units, member_out, member_piece;
};

__device__ inline void note_piece(const Job& job, const StreamState& state, Listed& before, OutputRun piece,
                                  unsigned lane) {
  piece.out = before.out;
  piece.member_out = before.member_out;
  piece.member_piece = state.first_piece + before.member_piece;
  piece.units_before = before.units;
  if (lane == 0) {
    job.pieces[state.first_piece + before.piece] = piece;
    job.sums[state.first_piece + before.piece] = {};
  }
  ++before.piece;
  before.out += piece.bytes;
  if (!piece.stored) {
    before.units +=
        literal_units(piece.literal_bytes) + slot_units(piece.sequences) + checkpoint_units(piece.sequences);
  }
}

// Lists the pieces of a block's cells: each extends from one marked cell to the next.
__device__ inline void list_cells(const Job& job, const StreamState& state, const Block& block, OutputRun piece,
                                  Listed& before, unsigned lane) {
  piece.cells = 0;
  for (std::uint32_t base = 0; base < block.cells; base += 32) {
    const std::uint32_t here = block.cells - base < 32 ? block.cells - base : 32;
    const Cell cell = job.cells[block.first_cell + base + (lane < here ? lane : 0)];
    const unsigned firsts = __ballot_sync(kAllLanes, lane < here && cell.first());
    for (std::uint32_t from = 0; from < here;) {
      if ((firsts >> from & 1) != 0) {
        if (piece.cells != 0) note_piece(job, state, before, piece, lane);
        piece.first_cell = block.first_cell + base + from;
        piece.cells = piece.bytes = piece.literal_bytes = piece.sequences = 0;
      }
      const unsigned others = from == 31 ? 0 : firsts >> (from + 1) << (from + 1);
      const std::uint32_t to = others == 0 ? here : lowest_bit(others);
      const bool mine = lane >= from && lane < to;
      const std::uint32_t literals = __reduce_add_sync(kAllLanes, mine ? cell.literals() : 0);
      piece.bytes += literals + __reduce_add_sync(kAllLanes, mine ? cell.match_bytes : 0);
      piece.literal_bytes += literals;
      piece.sequences += __reduce_add_sync(kAllLanes, mine ? cell.matches() : 0);
      piece.cells += to - from;
      from = to;
    }
  }
  piece.trailer_at = block.trailer_at;
  note_piece(job, state, before, piece, lane);
}

__device__ inline void list_run(const Job& job, std::uint32_t i, std::uint32_t segment, unsigned lane) {
  const StreamState& state = job.states[i];
  const Run& run = job.runs[segment];
  Listed before{run.pieces_before, run.out_before, run.units_before, run.member_out, run.member_piece};
  const std::uint32_t first = state.first_block + (segment - state.first_segment) * state.blocks_each;
  for (std::uint32_t base = 0; base < run.blocks; base += 32) {
    // Each lane loads a block, to be broadcast: a run with many blocks mostly has stored ones.
    const Block& own = job.blocks[first + base + (base + lane < run.blocks ? lane : 0)];
    const std::uint32_t own_at = own.at, own_bytes = own.bytes, own_cells = own.cells, own_pieces = own.pieces,
                        own_trailer_at = own.trailer_at;
    // Stored blocks inside a member: one lane each.
    const bool mine = base + lane < run.blocks;
    if (__all_sync(kAllLanes, !mine || (own_cells == 0 && own_trailer_at == kNone))) {
      const std::uint32_t pieces_upto = sum_upto(mine ? own_pieces : 0, lane),
                          bytes_upto = sum_upto(mine ? own_bytes : 0, lane);
      if (mine && own_pieces != 0) {
        OutputRun piece{};
        piece.stream = i;
        piece.block = first + base + lane;
        piece.trailer_at = kNone;
        piece.stored = true;
        piece.at = own_at;
        piece.bytes = own_bytes;
        Listed at = before;
        at.piece += pieces_upto - 1;
        at.out += bytes_upto - own_bytes;
        note_piece(job, state, at, piece, 0);  // by this lane, whatever its number
      }
      before.piece += __shfl_sync(kAllLanes, pieces_upto, 31);
      before.out += __shfl_sync(kAllLanes, bytes_upto, 31);
      continue;
    }
    for (unsigned k = 0; k < 32 && base + k < run.blocks; ++k) {
      const std::uint32_t trailer_at = __shfl_sync(kAllLanes, own_trailer_at, k);
      if (__shfl_sync(kAllLanes, own_pieces, k) != 0) {
        OutputRun piece{};
        piece.stream = i;
        piece.block = first + base + k;
        piece.trailer_at = kNone;
        if (__shfl_sync(kAllLanes, own_cells, k) != 0) {
          list_cells(job, state, job.blocks[piece.block], piece, before, lane);
        } else {
          piece.stored = true;
          piece.at = __shfl_sync(kAllLanes, own_at, k);
          piece.bytes = __shfl_sync(kAllLanes, own_bytes, k);
          piece.trailer_at = trailer_at;
          note_piece(job, state, before, piece, lane);
        }
      }
      if (trailer_at != kNone) {
        before.member_out = before.out;
        before.member_piece = before.piece;
      }
    }
  }
}

__device__ inline void list_body(const Job& job) {
  const std::uint32_t count = job.totals->runs;
  const unsigned lane = lane_id(), warps = blockDim.x / 32;
  for (std::uint32_t x = blockIdx.x * warps + threadIdx.x / 32; x < count; x += gridDim.x * warps) {
    const RunPlace run = job.run_list[x];
    if (job.starts[run.segment] == kNone) continue;
    // Even if another stream of the chunk has been found bad since, because the pieces have been counted.
    if (job.states[run.stream].pieces != 0) list_run(job, run.stream, run.segment, lane);
    __syncwarp();
  }
}

// ---- rounds, place ----

__device__ inline void rounds_body(const Job& job, std::uint64_t* shared) { lz77::scan_rounds(job, shared); }

__device__ inline void place_body(const Job& job) {
  const std::uint32_t count = job.totals->pieces;
  for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x < count; x += gridDim.x * blockDim.x) {
    OutputRun& piece = job.pieces[x];
    const lz77::RoundPlace at = lz77::find_place(job, piece.stream, x);
    piece.round = at.round;
    piece.place = at.place;
    if (!piece.stored) job.round[at.round].any = true;
    // Zeroes the rest of the last word, since literals are read by words.
    if (piece.literal_bytes % 4 != 0) {
      *reinterpret_cast<std::uint32_t*>(job.literals_of(piece) + piece.literal_bytes / 4 * 4) = 0;
    }
  }
}

// ---- decode ----

// Writes consecutive bytes by one lane, four at a time where aligned.
class Writer {
 public:
  __device__ explicit Writer(Byte* at) : at_(at) {}
  __device__ void put(unsigned byte) {
    held_ |= byte << (8 * count_);
    if (++count_ < 4) {
      if ((reinterpret_cast<std::uintptr_t>(at_) & 3) == 0) return;
      // Byte by byte up to the first aligned address.
      *at_++ = static_cast<Byte>(held_);
    } else {
      *reinterpret_cast<std::uint32_t*>(at_) = held_;
      at_ += 4;
    }
    held_ = count_ = 0;
  }
  __device__ void finish() {
    for (; count_ > 0; --count_, held_ >>= 8) *at_++ = static_cast<Byte>(held_);
  }

 private:
  Byte* at_;
  std::uint32_t held_ = 0;
  unsigned count_ = 0;
};

// Totals of the piece before a cell.
struct Decoded {
  std::uint32_t literals = 0, matches = 0, match_bytes = 0;
  std::uint32_t matched = 0;  // literals before the last match
};

// Exchange area of the warps that share a piece.
template <unsigned kWarps>
struct DecodeSpace {
  Codes codes;
  std::uint32_t words[kWarps][kWindowWords<1>];
  Decoded sums[kWarps];
  std::uint32_t ticket;
};

// Builds the tables of the piece's block.
template <unsigned kWarps>
__device__ inline void build_tables_of(Codes& codes, const Block& block, unsigned warp, unsigned lane) {
  sync_warps<kWarps>();
  if (warp == 0) {
    if (block.kind == BlockKind::kFixed) {
      fixed_lengths(codes, lane);
    } else {
      load_lengths(codes, block.lengths, lane);
    }
  }
  sync_warps<kWarps>();
  if (warp == 0) build_table<0>(codes, lane);
  if (warp == (kWarps == 1 ? 0 : 1)) build_table<1>(codes, lane);
  sync_warps<kWarps>();
}

// Returns `before` plus the totals of the warps before this one; sets `all` to `before` plus those of all warps. `own`
// is the same for all lanes.
template <unsigned kWarps>
__device__ inline Decoded share_sums(DecodeSpace<kWarps>& space, Decoded before, const Decoded& own, Decoded& all,
                                     unsigned warp, unsigned lane) {
  const auto add = [](Decoded& to, const Decoded& more) {
    to.literals += more.literals;
    to.matches += more.matches;
    to.match_bytes += more.match_bytes;
    if (more.matched > to.matched) to.matched = more.matched;
  };
  all = before;
  if constexpr (kWarps == 1) {
    add(all, own);
    return before;
  } else {
    __syncthreads();
    if (lane == 0) space.sums[warp] = own;
    __syncthreads();
    HEADRACE_DEFLATE_UNROLL for (unsigned w = 0; w < kWarps; ++w) {
      if (w == warp) before = all;
      add(all, space.sums[w]);
    }
    return before;
  }
}

// Decodes one piece. Decodes cells from the positions that `trace` found, to the same numbers of literals and matches.
// Returns false if an offset in one of this warp's cells reaches before its member's beginning.
template <unsigned kWarps>
__device__ inline bool decode_piece(const Job& job, DecodeSpace<kWarps>& space, const OutputRun& piece,
                                    const DeflateStream& stream, unsigned warp, unsigned lane) {
  const Block& block = job.blocks[piece.block];
  const Input input(stream.src, stream.src_bytes);
  build_tables_of<kWarps>(space.codes, block, warp, lane);
  Byte* const literals_to = job.literals_of(piece);
  std::uint64_t* const slots = job.slots_of(piece);
  Checkpoint* const checkpoints = job.checkpoints_of(piece);
  const std::uint32_t before_piece = piece.out - piece.member_out;
  const std::uint32_t skipped = piece.first_cell - block.first_cell;
  Decoded before;  // over all warps' cells of this turn
  bool good = true;
  for (std::uint32_t turn = 0; turn < piece.cells; turn += 32 * kWarps) {
    const std::uint32_t base = turn + 32 * warp;
    const std::uint32_t grid = block.at + (skipped + base) * kCellBits;
    const bool mine = base + lane < piece.cells;
    const Cell cell = mine ? job.cells[piece.first_cell + base + lane] : Cell{0, 0};
    const BitSpan window =
        BitSpan::load(input, grid, space.words[warp], base < piece.cells ? kWindowWords<1> : 0, lane);
    const std::uint32_t literals_upto = sum_upto(cell.literals(), lane), matches_upto = sum_upto(cell.matches(), lane),
                        bytes_upto = sum_upto(cell.match_bytes, lane);
    Decoded own, upto;
    own.literals = __shfl_sync(kAllLanes, literals_upto, 31);
    own.matches = __shfl_sync(kAllLanes, matches_upto, 31);
    own.match_bytes = __shfl_sync(kAllLanes, bytes_upto, 31);
    const Decoded before_warp = share_sums<kWarps>(space, before, own, upto, warp, lane);
    std::uint32_t literals = before_warp.literals + literals_upto - cell.literals();
    std::uint32_t slot = before_warp.matches + matches_upto - cell.matches();
    std::uint32_t match_bytes = before_warp.match_bytes + bytes_upto - cell.match_bytes;
    const std::uint32_t first_slot = slot, first_bytes = match_bytes;
    std::uint32_t matched = 0;  // literals before this lane's last match
    std::uint32_t first_literals = 0, first_match = 0, first_offset = 0;
    if (mine) {
      Bits bits(window, grid + lane * kCellBits + cell.entry());
      Writer writer(literals_to + literals);
      for (std::uint32_t left = cell.literals() + cell.matches(); left > 0; --left) {
        bits.fill();
        const std::uint32_t low = bits.low(), entry = next_literal(space.codes, low);
        bits.skip(Entry::total(entry));
        if ((entry & Entry::kMatch) == 0) {
          writer.put(Entry::value(entry));
          ++literals;
          continue;
        }
        bits.fill();
        const std::uint32_t far = bits.low(), distance = next_distance(space.codes, far);
        bits.skip(Entry::total(distance));
        const std::uint32_t match = Entry::value_with_extra(entry, low);
        const std::uint32_t offset = Entry::value_with_extra(distance, far);
        if (offset > before_piece + literals + match_bytes) good = false;
        if (slot == first_slot) {  // its predecessors are in other cells, whose totals come at the end
          first_literals = literals;
          first_match = match;
          first_offset = offset;
        } else {
          slots[slot] = lz77::pack_sequence(literals - matched, match, offset);
          if (slot % kGroup == 0) checkpoints[slot / kGroup] = {matched, match_bytes};
        }
        matched = literals;
        match_bytes += match;
        ++slot;
      }
      writer.finish();
    }
    __syncwarp();
    // Literals before the last match of the earlier lanes: a running maximum.
    std::uint32_t latest = matched;
    for (unsigned step = 1; step < 32; step *= 2) {
      const std::uint32_t below = __shfl_up_sync(kAllLanes, latest, step);
      if (lane >= step && below > latest) latest = below;
    }
    own = {};
    own.matched = __shfl_sync(kAllLanes, latest, 31);
    Decoded all;
    const std::uint32_t matched_before = share_sums<kWarps>(space, before, own, all, warp, lane).matched;
    std::uint32_t last_match = __shfl_up_sync(kAllLanes, latest, 1);
    if (lane == 0 || last_match < matched_before) last_match = matched_before;
    if (slot != first_slot) {
      slots[first_slot] = lz77::pack_sequence(first_literals - last_match, first_match, first_offset);
      if (first_slot % kGroup == 0) checkpoints[first_slot / kGroup] = {last_match, first_bytes};
    }
    before = upto;
    before.matched = all.matched;
    __syncwarp();
  }
  if (warp == 0 && lane == 0 && piece.sequences != 0) {
    checkpoints[lz77::groups_of(piece.sequences)] = {before.matched, before.match_bytes};
  }
  return __all_sync(kAllLanes, good);
}

// By one warp, or by several that form a thread block, like `trace`.
template <unsigned kWarps>
__device__ inline void decode_body(const Job& job, std::uint32_t r, DecodeSpace<kWarps>& space) {
  if (by_several_warps(job) != (kWarps != 1)) return;
  Round& round = job.round[r];
  const unsigned lane = lane_id(), warp = kWarps == 1 ? 0 : threadIdx.x / 32;
  const std::uint32_t count = round.any ? job.totals->pieces : 0;
  for (;;) {
    const std::uint32_t ticket = take_ticket_for<kWarps>(round.decode_ticket, space.ticket, 32 * warp + lane);
    if (ticket >= count) return;
    const OutputRun& piece = job.pieces[ticket];
    if (piece.stored || piece.round != r) continue;
    const DeflateStream& stream = job.streams[piece.stream];
    if (!fine_for<kWarps>(job, stream.chunk)) continue;
    if (!decode_piece<kWarps>(job, space, piece, stream, warp, lane) && lane == 0) {
      give_up(job, stream.chunk, job.blocks[piece.block].at / 8, DecodeReason::kOffset);
    }
    __syncwarp();
  }
}

}  // namespace headrace::codec::gpu::deflate

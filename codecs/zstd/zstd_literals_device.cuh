// Step of the zstd decoder that decodes Huffman-coded literals. Device code without a CUDA header.
//
// A warp takes a stream a piece at a time, 8 KiB of bits, which it copies to shared memory. Each lane takes a share of
// the piece. Where the first code word of a share begins is only known for lane 0; the others begin 512 bits earlier,
// at a guess: decoders that start at different places soon meet. Then each lane is held against where the one before it
// ended, and begins again from there if it was wrong. So what comes out is exact, whatever the bytes are; guesses that
// are all wrong cost time, 32 times the time of a piece at most.
#pragma once

#include "zstd_tables_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kMostTreeLog = 11, kTreeDescriptionLog = 6, kMostWeights = 255;
inline constexpr std::int32_t kPieceBits = 65536, kOverlapBits = 512, kLeastShareBits = 256;
inline constexpr unsigned kPieceWords = kPieceBits / 32 + 4;
inline constexpr unsigned kLiteralsWarps = 4;

struct LiteralsSpace {
  std::uint16_t table[1 << kMostTreeLog];  // symbol, and its bits at bit 8
  std::uint32_t piece[kLiteralsWarps][kPieceWords];
  TableCounts<256> fse;
  Byte fse_cells[1 << kTreeDescriptionLog];
  std::uint16_t cells[1 << kTreeDescriptionLog];  // of the weights' table: symbol, and its bits at bit 8
  Byte bases[1 << kTreeDescriptionLog];
  Byte weights[256];
  std::uint32_t starts[256];  // of each symbol's entries
  std::uint32_t counts[16], ranks[16];
  std::uint32_t log, symbols, reason, ticket;
};

// Weights coded by FSE (4.2.1.2): two states that take turns, until the bits are used up. By one lane.
__device__ inline DecodeReason read_coded_weights(LiteralsSpace& space, const Byte* at, std::uint32_t bytes,
                                                  std::uint32_t& count) {
  count = 0;
  if (bytes == 0 || at[bytes - 1] == 0) return DecodeReason::kHeader;
  const BackwardBits bits(at, bytes);
  const unsigned log = space.log, mask = (1u << log) - 1;
  std::int32_t p = bits.top();
  unsigned state[2];
  for (unsigned& each : state) {
    p -= static_cast<std::int32_t>(log);
    each = bits.bits(p) & mask;
  }
  if (p < bits.lead) return DecodeReason::kHostOnly;  // libzstd goes on with what happens to be there
  for (unsigned turn = 0;; turn ^= 1) {
    // As many as there may be, and another one to come.
    if (count + 2 > kMostWeights) return DecodeReason::kHeader;
    const unsigned cell = space.cells[state[turn] & mask];
    space.weights[count++] = static_cast<Byte>(cell);
    const unsigned take = cell >> 8;
    p -= static_cast<std::int32_t>(take);
    if (p < bits.lead) {
      space.weights[count++] = static_cast<Byte>(space.cells[state[turn ^ 1] & mask]);
      return DecodeReason::kNone;
    }
    state[turn] = space.bases[state[turn] & mask] + (bits.bits(p) & ((1u << take) - 1));
  }
}

// A tree's description becomes weights and, from them, the table. By the first warp; the verdict is in space.reason.
__device__ inline void build_tree(LiteralsSpace& space, const Byte* at, std::uint32_t bytes, unsigned lane) {
  if (lane == 0) {
    space.reason = static_cast<std::uint32_t>(DecodeReason::kNone);
    space.symbols = 0;
  }
  for (unsigned i = lane; i < 256; i += 32) space.weights[i] = 0;
  if (lane < 16) space.counts[lane] = 0;
  __syncwarp();
  const unsigned first = at[0];
  DecodeReason reason = DecodeReason::kNone;
  if (first >= 128) {
    const unsigned count = first - 127;
    for (unsigned i = lane; i < count; i += 32) space.weights[i] = at[1 + i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
    if (lane == 0) space.symbols = count;
  } else {
    std::uint32_t used = 0;
    if (lane == 0) {
      CellCounts counts(space.fse);
      const Description description = read_description(at + 1, bytes - 1, 255, kTreeDescriptionLog, counts);
      reason = description.reason;
      used = 1 + description.bytes;
      space.log = description.log;
      if (reason == DecodeReason::kNone && !counts.finish(description.log)) reason = DecodeReason::kHeader;
    }
    reason = static_cast<DecodeReason>(__shfl_sync(kAllLanes, static_cast<std::uint32_t>(reason), 0));
    if (reason == DecodeReason::kNone) {
      __syncwarp();
      deal_cells(space.fse, space.fse_cells, space.log, lane);
      number_cells(space.fse, space.fse_cells, space.log, lane,
                   [&](std::uint32_t cell, std::uint32_t symbol, unsigned take, std::uint32_t base) {
                     space.cells[cell] = static_cast<std::uint16_t>(symbol | take << 8);
                     space.bases[cell] = static_cast<Byte>(base);
                   });
      if (lane == 0) reason = read_coded_weights(space, at + used, bytes - used, space.symbols);
    }
  }
  __syncwarp();
  // The last symbol's weight fills the sum up to a power of two.
  if (lane == 0 && reason == DecodeReason::kNone) {
    std::uint32_t sum = 0;
    for (unsigned i = 0; i < space.symbols && reason == DecodeReason::kNone; ++i) {
      const unsigned weight = space.weights[i];
      if (weight > 12) {
        reason = DecodeReason::kHeader;
      } else if (weight != 0) {
        sum += 1u << (weight - 1);
      }
    }
    const unsigned log = sum == 0 ? 0 : top_bit(sum) + 1;
    const std::uint32_t rest = (1u << log) - sum;
    if (reason == DecodeReason::kNone) {
      if (sum == 0 || log > 12 || (rest & (rest - 1)) != 0) {
        reason = DecodeReason::kHeader;
      } else {
        space.weights[space.symbols++] = static_cast<Byte>(top_bit(rest) + 1);
        space.log = log;
        // libzstd takes codes of 12 bits, the format those of 11.
        if (log > kMostTreeLog) reason = DecodeReason::kHostOnly;
      }
    }
  }
  reason = static_cast<DecodeReason>(__shfl_sync(kAllLanes, static_cast<std::uint32_t>(reason), 0));
  __syncwarp();
  if (reason == DecodeReason::kNone) {
    // Each symbol's number among those of its weight.
    for (unsigned base = 0; base < 256; base += 32) {
      const unsigned weight = space.weights[base + lane];
      const unsigned same = __match_any_sync(kAllLanes, weight);
      space.starts[base + lane] = space.counts[weight] + static_cast<std::uint32_t>(__popc(same & lanes_below(lane)));
      __syncwarp();
      if ((same & lanes_below(lane)) == 0) space.counts[weight] += static_cast<std::uint32_t>(__popc(same));
      __syncwarp();
    }
    if (lane == 0) {
      // A code's longest words come in pairs: where the sum is a power of two that only fails if there are none.
      if (space.counts[1] < 2 || space.counts[1] % 2 != 0) reason = DecodeReason::kHeader;
      std::uint32_t start = 0;
      for (unsigned weight = 1; weight <= space.log; ++weight) {
        space.ranks[weight] = start;
        start += space.counts[weight] << (weight - 1);
      }
    }
    __syncwarp();
    for (unsigned i = lane; i < 256; i += 32) {
      const unsigned weight = space.weights[i];
      if (weight != 0) space.starts[i] = space.ranks[weight] + (space.starts[i] << (weight - 1));
    }
  }
  if (lane == 0) space.reason = static_cast<std::uint32_t>(reason);
}

// Entries by all warps, a symbol each at a time.
__device__ inline void fill_tree_table(LiteralsSpace& space) {
  const unsigned lane = lane_id(), warps = blockDim.x / 32, log = space.log;
  for (unsigned symbol = threadIdx.x / 32; symbol < space.symbols; symbol += warps) {
    const unsigned weight = space.weights[symbol];
    if (weight == 0) continue;
    const auto entry = static_cast<std::uint16_t>(symbol | (log + 1 - weight) << 8);
    const std::uint32_t start = space.starts[symbol];
    for (std::uint32_t k = lane; k < 1u << (weight - 1); k += 32) space.table[start + k] = entry;
  }
}

// A piece of a stream's bits in shared memory; positions are those of BackwardBits.
struct Piece {
  const std::uint16_t* table;
  const std::uint32_t* words;
  std::int32_t first_word;
  unsigned log;

  // The entry of the code word below position p.
  __device__ unsigned entry(std::int32_t p) const {
    const std::int32_t low = p - static_cast<std::int32_t>(log);
    const std::int32_t i = (low >> 5) - first_word;
    return table[__funnelshift_r(words[i], words[i + 1], static_cast<unsigned>(low) & 31) & ((1u << log) - 1)];
  }
};

// Bytes that a lane writes one behind the other, four at a time where they are aligned.
class Writer {
 public:
  __device__ explicit Writer(Byte* at) : at_(at) {}
  __device__ void put(unsigned byte) {
    held_ |= byte << (8 * count_);
    if (++count_ < 4) {
      if ((reinterpret_cast<std::uintptr_t>(at_) & 3) == 0) return;
      // Up to the first aligned address, byte by byte.
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

// One stream of `count` literals, by a warp. `words` has room for a piece.
// A last byte of 0, and bits that do not end with the last literal, are against the format, but libzstd's fastest loops
// do not look (1.5.4): the CPU is asked.
__device__ inline DecodeReason decode_literals(const LiteralsSpace& space, const Byte* at, std::uint32_t bytes,
                                               Byte* to, std::uint32_t count, std::uint32_t* words, unsigned lane) {
  if (bytes == 0) return DecodeReason::kTruncated;
  if (at[bytes - 1] == 0) return DecodeReason::kHostOnly;
  const BackwardBits bits(at, bytes);
  Piece piece{space.table, words, 0, space.log};
  std::uint32_t done = 0;
  std::int32_t top = bits.top();
  while (top > bits.lead && done <= count) {
    const std::int32_t bottom = top - bits.lead > kPieceBits ? top - kPieceBits : bits.lead;
    piece.first_word = (bottom - 32) >> 5;
    const std::int32_t last_word = (top - 1) >> 5;
    __syncwarp();
    for (std::int32_t i = piece.first_word + static_cast<std::int32_t>(lane); i <= last_word; i += 32) {
      words[i - piece.first_word] = bits.word(i);
    }
    if (lane == 0) words[last_word - piece.first_word + 1] = 0;
    __syncwarp();
    std::int32_t share = (top - bottom + 31) / 32;
    if (share < kLeastShareBits) share = kLeastShareBits;
    const std::int32_t high = top - static_cast<std::int32_t>(lane) * share;  // of this lane's share
    const bool active = high > bottom;
    const std::int32_t low = high - share > bottom ? high - share : bottom;
    std::int32_t entry = active ? (high + kOverlapBits < top ? high + kOverlapBits : top) : bottom, exit = bottom;
    if (active) {
      while (entry > high) entry -= static_cast<std::int32_t>(piece.entry(entry) >> 8);
    }
    std::uint32_t symbols = 0;
    bool again = active;
    for (;;) {
      if (again) {
        symbols = 0;
        exit = entry;
        while (exit > low) {
          exit -= static_cast<std::int32_t>(piece.entry(exit) >> 8);
          ++symbols;
        }
      }
      const std::int32_t before = __shfl_up_sync(kAllLanes, exit, 1);
      again = active && lane != 0 && entry != before;
      if (!__any_sync(kAllLanes, again)) break;
      if (again) entry = before;
    }
    const std::uint32_t upto = sum_upto(symbols, lane);
    const std::uint32_t all = __shfl_sync(kAllLanes, upto, 31);
    if (done + all > count) return DecodeReason::kHostOnly;
    Writer writer(to + done + upto - symbols);
    for (std::int32_t p = entry; symbols > 0; --symbols) {
      const unsigned word = piece.entry(p);
      p -= static_cast<std::int32_t>(word >> 8);
      writer.put(word & 255);
    }
    writer.finish();
    done += all;
    const unsigned last_active = top_bit(__ballot_sync(kAllLanes, active));
    top = __shfl_sync(kAllLanes, exit, last_active);
  }
  return top == bits.lead && done == count ? DecodeReason::kNone : DecodeReason::kHostOnly;
}

// All Huffman-coded literals of a round; a thread block takes one Block after the other.
__device__ inline void literals_body(const Job& job, std::uint32_t r, LiteralsSpace& space) {
  Round& round = job.round[r];
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&round.literals_ticket, 1u);
    __syncthreads();
    if (space.ticket >= round.literals) return;
    const Block& block = job.blocks[job.trees[round.first + space.ticket]];
    const ZstdStream& stream = job.streams[block.stream];
    if (!fine_for_block(job, stream.chunk)) continue;
    const Block& tree = job.blocks[block.tree_block];
    if (warp == 0) {
      build_tree(space, stream.src + tree.tree_at, tree.literals_at - tree.tree_at, lane);
    }
    __syncthreads();
    if (space.reason != static_cast<std::uint32_t>(DecodeReason::kNone)) {
      if (threadIdx.x == 0) give_up(job, stream.chunk, tree.tree_at, static_cast<DecodeReason>(space.reason));
      continue;
    }
    fill_tree_table(space);
    __syncthreads();
    Byte* const to = job.literals_of(block);
    const Byte* const from = stream.src + block.literals_at;
    std::uint32_t sizes[4] = {block.huffman_bytes, 0, 0, 0}, at = 0, each = block.literal_bytes;
    if (block.literal_streams == 4) {
      at = 6;
      std::uint32_t sum = at;
      for (unsigned k = 0; k < 3; ++k) sum += sizes[k] = u16_at(from + 2 * k);
      if (sum >= block.huffman_bytes) {
        if (threadIdx.x == 0) give_up(job, stream.chunk, block.literals_at, DecodeReason::kTruncated);
        continue;
      }
      sizes[3] = block.huffman_bytes - sum;
      each = (block.literal_bytes + 3) / 4;
    }
    for (unsigned k = 0; k < block.literal_streams; ++k) {
      if (k % warps == warp) {
        const std::uint32_t begin = k * each;
        const std::uint32_t count = k == 3 ? block.literal_bytes - begin : each;
        const DecodeReason reason =
            decode_literals(space, from + at, sizes[k], to + begin, count, space.piece[warp % kLiteralsWarps], lane);
        if (reason != DecodeReason::kNone && lane == 0) give_up(job, stream.chunk, block.literals_at + at, reason);
      }
      at += sizes[k];
    }
  }
}

}  // namespace headrace::codec::gpu::zstd

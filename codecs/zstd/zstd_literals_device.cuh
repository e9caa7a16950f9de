// Step of the zstd decoder that decodes Huffman-coded literals. Device code without a CUDA header.
//
// The lanes decode a stream piece by piece, some KiB of bits each, which they copy to shared memory. Each lane decodes
// a share of the piece. Only the first lane knows where the first code word of its share begins. The others start some
// hundred bits earlier, at a guess: Huffman decoders that start at different positions soon synchronise. Then the start
// of each lane is compared with the end of the lane before, and a lane whose guess was wrong restarts from there. The
// result is therefore exact for all inputs. Wrong guesses cost only time: at worst a piece takes as many passes as
// there are lanes.
//
// With few blocks, a thread block takes a stream. With many, a warp takes a block, with eight lanes per stream.
#pragma once

#include "zstd_tables_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kMaxTreeLog = 11, kTreeDescriptionLog = 6, kMaxWeights = 255;
inline constexpr std::int32_t kMinShareBits = 256;
inline constexpr unsigned kLiteralsWarps = 4, kMaxStreams = 4;

// A lane's share of a piece, and how much earlier a guess begins. Short streams do not fill large pieces, and more
// guesses mean more wrong ones.
inline constexpr std::int32_t kLaneBits = 2048, kShortLaneBits = 1024, kTeamLaneBits = 1024;
template <unsigned kLanes, std::int32_t kShareBits = kLaneBits>
struct PieceForm {
  static constexpr std::int32_t kBits = kLanes * kShareBits;
  static constexpr std::int32_t kOverlapBits = kLanes >= 32 ? 512 : kShareBits == kLaneBits ? 256 : 160;
  static constexpr unsigned kWords = kBits / 32 + 4;
};

struct TreeSpace {
  std::uint32_t description[33];  // at most 128 bytes; one lane reads it, bit by bit
  TableCounts<256> fse;
  Byte fse_cells[1 << kTreeDescriptionLog];
  std::uint32_t cells[1 << kTreeDescriptionLog];  // of the weights' table: WeightCell
  Byte weights[256];
  std::uint32_t starts[256];  // first entry of each symbol
  std::uint32_t counts[16], ranks[16];
  std::uint32_t log, symbols, reason;
};
using TreeTable = std::uint16_t[1 << kMaxTreeLog];  // symbol; code length from bit 8 on

// Exchange area of the lanes of a thread block that share a stream.
struct TeamSpace {
  std::int32_t exits[32 * kLiteralsWarps];
  std::uint32_t sums[kLiteralsWarps];
};
struct LiteralsSpace {
  using Form = PieceForm<32 * kLiteralsWarps, kTeamLaneBits>;
  TreeTable table;
  std::uint32_t piece[Form::kWords];
  TreeSpace tree;
  TeamSpace team;
  std::uint32_t ticket;
};
inline constexpr unsigned kStreamLanes = 8;
template <std::int32_t kShareBits>
struct WarpLiteralsSpace {
  TreeTable table;
  union {
    TreeSpace tree;
    std::uint32_t piece[32 / kStreamLanes][PieceForm<kStreamLanes, kShareBits>::kWords];
  };
};

// A cell of the weights' table, a byte each: the symbol; the base of the next state; the mask of its bits; their
// number.
struct WeightCell {
  static constexpr unsigned kBase = 8, kMask = 16, kTake = 24;
  __device__ static std::uint32_t make(std::uint32_t symbol, unsigned take, std::uint32_t base) {
    return symbol | base << kBase | ((1u << take) - 1) << kMask | take << kTake;
  }
};

// Reads FSE-coded weights (4.2.1.2): two states alternate until the bits are used up. One lane runs this while all
// others wait, so the current words are kept in registers and a step loads only its cell. REQUIRES: `at` is in
// space.description.
__device__ inline DecodeReason read_coded_weights(TreeSpace& space, const Byte* at, std::uint32_t bytes,
                                                  std::uint32_t& count) {
  count = 0;
  if (bytes == 0 || at[bytes - 1] == 0) return DecodeReason::kHeader;
  const BackwardBits bits(at, bytes);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(bits.base);
  const unsigned log = space.log, mask = (1u << log) - 1;
  std::int32_t p = bits.top();
  std::uint32_t low = words[p >> 5], high = 0;  // bits above the top are not used
  // Moves the position down to `to` and returns the bits from there on. REQUIRES: `to` is not below the stream.
  const auto go_down = [&](std::int32_t to) {
    if (to >> 5 != p >> 5) {
      high = low;
      low = words[to >> 5];
    }
    p = to;
    return __funnelshift_r(low, high, static_cast<unsigned>(to) & 31);
  };
  // libzstd continues with whatever memory holds there.
  if (p - 2 * static_cast<std::int32_t>(log) < bits.lead) return DecodeReason::kHostOnly;
  unsigned state = go_down(p - static_cast<std::int32_t>(log)) & mask;
  unsigned other = go_down(p - static_cast<std::int32_t>(log)) & mask;
  std::uint32_t cell = space.cells[state], other_cell = space.cells[other];
  // The states alternate, so that a cell is loaded one weight before its use. Returns false after the last weight.
  const auto step = [&](std::uint32_t& own, std::uint32_t following) {
    space.weights[count++] = static_cast<Byte>(own);
    const std::int32_t to = p - static_cast<std::int32_t>(own >> WeightCell::kTake);
    if (to < bits.lead) {
      space.weights[count++] = static_cast<Byte>(following);
      return false;
    }
    own = space.cells[(own >> WeightCell::kBase & 255) + (go_down(to) & (own >> WeightCell::kMask & 255))];
    return true;
  };
  // Continues while there is room for this weight and one more.
  while (count + 2 <= kMaxWeights) {
    if (!step(cell, other_cell)) return DecodeReason::kNone;
    if (count + 2 > kMaxWeights) break;
    if (!step(other_cell, cell)) return DecodeReason::kNone;
  }
  return DecodeReason::kHeader;
}

// Turns a tree's description into weights and the positions of their entries. By a warp; the verdict is in
// space.reason.
__device__ inline void build_tree(TreeSpace& space, const Byte* at, std::uint32_t bytes, unsigned lane) {
  if (lane == 0) {
    space.reason = static_cast<std::uint32_t>(DecodeReason::kNone);
    space.symbols = 0;
  }
  for (unsigned i = lane; i < 256; i += 32) space.weights[i] = 0;
  if (lane < 16) space.counts[lane] = 0;
  const unsigned first = at[0];
  auto* const copy = reinterpret_cast<Byte*>(space.description);
  const std::uint32_t all = first >= 128 ? 0 : bytes < 1 + first ? bytes : 1 + first;
  for (unsigned i = lane; i < all; i += 32) copy[i] = at[i];
  __syncwarp();
  DecodeReason reason = DecodeReason::kNone;
  if (first >= 128) {
    const unsigned count = first - 127;
    for (unsigned i = lane; i < count; i += 32) space.weights[i] = at[1 + i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
    if (lane == 0) space.symbols = count;
  } else {
    std::uint32_t used = 0;
    if (lane == 0) {
      CellCounts counts(space.fse);
      const Description description = read_description(copy + 1, all - 1, 255, kTreeDescriptionLog, counts);
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
                     space.cells[cell] = WeightCell::make(symbol, take, base);
                   });
      if (lane == 0) reason = read_coded_weights(space, copy + used, all - used, space.symbols);
    }
  }
  __syncwarp();
  // The last symbol's weight completes the sum to a power of two.
  std::uint32_t sum = 0;
  bool heavy = false;
  for (unsigned i = lane; i < 256; i += 32) {
    const unsigned weight = space.weights[i];
    heavy |= weight > 12;
    if (weight != 0 && weight <= 12) sum += 1u << (weight - 1);
  }
  sum = __reduce_add_sync(kAllLanes, sum);
  heavy = __any_sync(kAllLanes, heavy);
  __syncwarp();
  if (lane == 0 && reason == DecodeReason::kNone) {
    const unsigned log = sum == 0 ? 0 : top_bit(sum) + 1;
    const std::uint32_t rest = (1u << log) - sum;
    if (heavy || sum == 0 || log > 12 || (rest & (rest - 1)) != 0) {
      reason = DecodeReason::kHeader;
    } else {
      space.weights[space.symbols++] = static_cast<Byte>(top_bit(rest) + 1);
      space.log = log;
      // libzstd accepts codes of 12 bits, the format at most 11.
      if (log > kMaxTreeLog) reason = DecodeReason::kHostOnly;
    }
  }
  reason = static_cast<DecodeReason>(__shfl_sync(kAllLanes, static_cast<std::uint32_t>(reason), 0));
  __syncwarp();
  if (reason == DecodeReason::kNone) {
    // Each symbol's rank among the symbols of its weight.
    for (unsigned base = 0; base < 256; base += 32) {
      const unsigned weight = space.weights[base + lane];
      const unsigned same = __match_any_sync(kAllLanes, weight);
      space.starts[base + lane] = space.counts[weight] + static_cast<std::uint32_t>(__popc(same & lanes_below(lane)));
      __syncwarp();
      if ((same & lanes_below(lane)) == 0) space.counts[weight] += static_cast<std::uint32_t>(__popc(same));
      __syncwarp();
    }
    if (lane == 0) {
      // The longest code words come in pairs. As the sum is a power of two, this fails only if there are none.
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

// Fills the entries of the groups of 32 symbols that are `which` modulo `parts`, by a warp.
__device__ inline void fill_tree_table(const TreeSpace& space, TreeTable& table, unsigned which, unsigned parts) {
  constexpr unsigned kByLane = 8;  // maximum number of entries that a single lane writes
  const unsigned lane = lane_id(), log = space.log;
  const auto entry_of = [&](unsigned symbol, unsigned weight) {
    return static_cast<std::uint16_t>(symbol | (log + 1 - weight) << 8);
  };
  for (unsigned base = 32 * which; base < space.symbols; base += 32 * parts) {
    const unsigned symbol = base + lane, weight = symbol < space.symbols ? space.weights[symbol] : 0;
    const unsigned entries = weight == 0 ? 0 : 1u << (weight - 1);
    if (entries <= kByLane) {
      for (unsigned k = 0; k < entries; ++k) table[space.starts[symbol] + k] = entry_of(symbol, weight);
    }
    for (unsigned large = __ballot_sync(kAllLanes, entries > kByLane); large != 0; large &= large - 1) {
      const unsigned its = base + static_cast<unsigned>(__ffs(large)) - 1, its_weight = space.weights[its];
      const std::uint32_t start = space.starts[its];
      for (unsigned k = lane; k < 1u << (its_weight - 1); k += 32) table[start + k] = entry_of(its, its_weight);
    }
  }
}

// A piece of a stream's bits in shared memory; positions are those of BackwardBits.
struct BitSpan {
  const std::uint16_t* table;
  const std::uint32_t* words;
  std::int32_t first_word;
  unsigned log;
};

// Decodes a piece backwards, one code word after the other. Keeps the next 32 bits in registers, enough for two code
// words.
class CodeWords {
 public:
  // REQUIRES: the piece contains the word of `at` and the one below it.
  __device__ CodeWords(const BitSpan& piece, std::int32_t at)
      : table_(piece.table),
        words_(piece.words),
        origin_(piece.first_word * 32),
        shift_(32 - piece.log),
        at_(at - origin_),
        low_(words_[(at_ >> 5) - 1]),
        high_(words_[at_ >> 5]) {}
  __device__ std::int32_t at() const { return at_ + origin_; }
  // The entry of the next code word.
  __device__ unsigned next() {
    const unsigned entry = table_[bits() >> shift_];
    skip(entry >> 8);
    return entry;
  }
  // The next two symbols: the first in the lowest byte, the second in the byte above.
  __device__ unsigned next_two() {
    const unsigned below = bits(), first = table_[below >> shift_];
    const unsigned second = table_[below << (first >> 8) >> shift_];
    skip((first >> 8) + (second >> 8));
    return (first & 255) | (second & 255) << 8;
  }
  // Skips code words until the position is not above `end`. Returns how many.
  __device__ std::uint32_t skip_to(std::int32_t end) {
    std::uint32_t count = 0;
    end -= origin_;
    for (; at_ > end + static_cast<std::int32_t>(kMaxTreeLog); count += 2) next_two();
    for (; at_ > end; ++count) next();
    return count;
  }
  // Writes the next `count` symbols.
  __device__ void write(Byte* to, std::uint32_t count) {
    for (; count > 0 && (reinterpret_cast<std::uintptr_t>(to) & 3) != 0; --count) *to++ = static_cast<Byte>(next());
    for (; count >= 4; count -= 4, to += 4) {
      const unsigned two = next_two();
      *reinterpret_cast<std::uint32_t*>(to) = two | next_two() << 16;
    }
    for (; count > 0; --count) *to++ = static_cast<Byte>(next());
  }

 private:
  __device__ unsigned bits() const { return __funnelshift_r(low_, high_, static_cast<unsigned>(at_) & 31); }
  __device__ void skip(unsigned count) {
    const std::int32_t to = at_ - static_cast<std::int32_t>(count);
    if (to >> 5 != at_ >> 5) {
      high_ = low_;
      low_ = words_[(to >> 5) - 1];
    }
    at_ = to;
  }

  const std::uint16_t* table_;
  const std::uint32_t* words_;
  std::int32_t origin_;  // bit position of the piece's first word
  unsigned shift_;
  std::int32_t at_;
  std::uint32_t low_, high_;
};

// Copies words [first, last] of `bits` to `to`, by kLanes lanes, of which this is number `self`. Several loads are in
// flight at a time.
template <unsigned kLanes>
__device__ inline void copy_words(const BackwardBits& bits, std::int32_t first, std::int32_t last, unsigned self,
                                  std::uint32_t* to) {
  constexpr std::int32_t kAtOnce = 8, kStep = kLanes;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(bits.base);
  const auto whole = static_cast<std::int32_t>((bits.end - bits.base) / 4);
  std::int32_t i = first + static_cast<std::int32_t>(self);
  for (; i < 0 && i <= last; i += kStep) to[i - first] = 0;
  for (; i + (kAtOnce - 1) * kStep <= last && i + (kAtOnce - 1) * kStep < whole; i += kAtOnce * kStep) {
    std::uint32_t held[kAtOnce];
    HEADRACE_ZSTD_UNROLL for (std::int32_t k = 0; k < kAtOnce; ++k) held[k] = words[i + k * kStep];
    HEADRACE_ZSTD_UNROLL for (std::int32_t k = 0; k < kAtOnce; ++k) to[i + k * kStep - first] = held[k];
  }
  for (; i <= last; i += kStep) to[i - first] = bits.word(i);
}

// One Huffman stream of literals.
struct LiteralStream {
  const Byte* at = nullptr;
  std::uint32_t bytes = 0;
  Byte* to = nullptr;
  std::uint32_t count = 0;
  bool there = false;
};

// The lanes that share a stream: kWidth lanes of a warp, while the others share other streams.
template <unsigned kWidth>
struct LanesOfWarp {
  static constexpr unsigned kLanes = kWidth;
  unsigned self = lane_id() % kLanes;

  __device__ bool any(bool v) const { return __any_sync(kAllLanes, v); }  // over all streams of the warp
  __device__ void sync() const { __syncwarp(); }
  // The previous lane's value; undefined for the first lane.
  __device__ std::int32_t from_before(std::int32_t v) const { return __shfl_up_sync(kAllLanes, v, 1); }
  // The value of lane `which`.
  __device__ std::int32_t last_of(unsigned which, std::int32_t v) const {
    return __shfl_sync(kAllLanes, v, lane_id() - self + which);
  }
  // The sum over the lanes before this one; `all`: over all lanes.
  __device__ std::uint32_t sum_before(std::uint32_t v, std::uint32_t& all) const {
    const unsigned first = lane_id() - self;
    const std::uint32_t upto = sum_upto(v, lane_id()), before = __shfl_sync(kAllLanes, upto - v, first);
    all = __shfl_sync(kAllLanes, upto, first + kLanes - 1) - before;
    return upto - before - v;
  }
};
// The same interface for the lanes of a thread block.
struct LanesOfBlock {
  static constexpr unsigned kLanes = 32 * kLiteralsWarps;
  TeamSpace& space;
  unsigned self = threadIdx.x;

  __device__ bool any(bool v) const { return __syncthreads_or(v ? 1 : 0) != 0; }
  __device__ void sync() const { __syncthreads(); }
  // REQUIRES: all lanes call another of these functions between two calls.
  __device__ std::int32_t from_before(std::int32_t v) const {
    space.exits[self] = v;
    __syncthreads();
    return self == 0 ? v : space.exits[self - 1];
  }
  __device__ std::int32_t last_of(unsigned which, std::int32_t) const { return space.exits[which]; }
  __device__ std::uint32_t sum_before(std::uint32_t v, std::uint32_t& all) const {
    const unsigned warp = self / 32;
    const std::uint32_t upto = sum_upto(v, lane_id());
    if (lane_id() == 31) space.sums[warp] = upto;
    __syncthreads();
    std::uint32_t before = upto - v;
    all = 0;
    for (unsigned k = 0; k < kLiteralsWarps; ++k) {
      if (k < warp) before += space.sums[k];
      all += space.sums[k];
    }
    return before;
  }
};

// Decodes a stream by the lanes that share it, and returns what is wrong with it, if anything. `words` has room for a
// piece. All lanes of a team have the same stream; some teams of a warp may have none. A last byte of 0, and bits that
// do not end with the last literal, violate the format, but libzstd's fastest loops do not check (1.5.4), so these are
// left to the CPU.
template <class Form, class Team>
__device__ inline DecodeReason decode_literals(const TreeTable& table, unsigned log, const LiteralStream& stream,
                                               std::uint32_t* words, const Team& team) {
  constexpr unsigned kLanes = Team::kLanes;
  const unsigned self = team.self;
  const std::uint32_t count = stream.count;
  BackwardBits bits;
  std::int32_t top = 0;
  DecodeReason reason = DecodeReason::kNone;
  bool going = false;
  if (stream.there) {
    if (stream.bytes == 0) {
      reason = DecodeReason::kTruncated;
    } else if (stream.at[stream.bytes - 1] == 0) {
      reason = DecodeReason::kHostOnly;
    } else {
      bits = BackwardBits(stream.at, stream.bytes);
      top = bits.top();
      going = true;
    }
  }
  const bool begun = going;
  BitSpan piece{table, words, 0, log};
  std::uint32_t done = 0;
  for (;;) {
    going = going && top > bits.lead && done <= count;
    if (!team.any(going)) break;
    const std::int32_t bottom = !going ? top : top - bits.lead > Form::kBits ? top - Form::kBits : bits.lead;
    piece.first_word = (bottom - 64) >> 5;
    if (going) {
      const std::int32_t last_word = (top - 1) >> 5;
      copy_words<kLanes>(bits, piece.first_word, last_word, self, words);
      if (self == 0) words[last_word - piece.first_word + 1] = 0;
    }
    team.sync();
    std::int32_t share = (top - bottom + static_cast<std::int32_t>(kLanes) - 1) / static_cast<std::int32_t>(kLanes);
    if (share < kMinShareBits) share = kMinShareBits;
    const std::int32_t high = top - static_cast<std::int32_t>(self) * share;  // upper end of this lane's share
    const bool active = going && high > bottom;
    const std::int32_t low = high - share > bottom ? high - share : bottom;
    std::int32_t entry = active ? (high + Form::kOverlapBits < top ? high + Form::kOverlapBits : top) : bottom;
    std::int32_t exit = bottom;
    if (active) {
      CodeWords guess(piece, entry);
      guess.skip_to(high);
      entry = guess.at();
    }
    std::uint32_t symbols = 0;
    bool again = active;
    for (;;) {
      if (again) {
        CodeWords share_words(piece, entry);
        symbols = share_words.skip_to(low);
        exit = share_words.at();
      }
      const std::int32_t before = team.from_before(exit);
      again = active && self != 0 && entry != before;
      if (!team.any(again)) break;
      if (again) entry = before;
    }
    std::uint32_t all = 0;
    const std::uint32_t ahead = team.sum_before(symbols, all);
    const std::int32_t actives = (top - bottom + share - 1) / share;
    const std::int32_t next_top = team.last_of(actives == 0 ? self : static_cast<unsigned>(actives - 1), exit);
    if (going && done + all > count) {
      reason = DecodeReason::kHostOnly;
      going = false;
    }
    if (going) {
      if (symbols > 0) CodeWords(piece, entry).write(stream.to + done + ahead, symbols);
      done += all;
      top = next_top;
    }
    team.sync();
  }
  if (reason != DecodeReason::kNone || !begun) return reason;
  return top == bits.lead && done == count ? DecodeReason::kNone : DecodeReason::kHostOnly;
}

// Stream k of a block's literals. Not there if the block has fewer; if the sizes are inconsistent, `fits` becomes
// false.
__device__ inline LiteralStream literal_stream(const Job& job, const Block& block, const Byte* src, unsigned k,
                                               bool& fits) {
  const Byte* const from = src + block.literals_at;
  LiteralStream out;
  out.at = from;
  out.to = job.literals_of(block);
  out.there = k < block.literal_streams;
  fits = true;
  if (block.literal_streams == 1) {
    out.bytes = block.huffman_bytes;
    out.count = block.literal_bytes;
    return out;
  }
  std::uint32_t at = 6;
  for (unsigned i = 0; i < 3; ++i) {
    const std::uint32_t size = u16_at(from + 2 * i);
    if (i < k) out.at = from + at + size;
    if (i == k) out.bytes = size;
    at += size;
  }
  fits = at < block.huffman_bytes;
  if (k == 0) out.at = from + 6;
  const std::uint32_t each = (block.literal_bytes + 3) / 4;
  out.to += k * each;
  out.count = k == 3 ? block.literal_bytes - 3 * each : each;
  if (k == 3) out.bytes = fits ? block.huffman_bytes - at : 0;
  out.there = out.there && fits;
  return out;
}

// Decodes all Huffman-coded literals of a round, by thread blocks that share a stream. Each takes kAtOnce streams of a
// Block and builds the tree for them: all four are less work, one is faster.
template <unsigned kAtOnce>
__device__ inline void literals_body(const Job& job, std::uint32_t r, LiteralsSpace& space) {
  constexpr std::uint32_t kShares = kMaxStreams / kAtOnce;
  Round& round = job.round[r];
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&round.literals_ticket, 1u);
    __syncthreads();
    const std::uint32_t t = space.ticket / kShares;
    if (t >= round.literals) return;
    const Block& block = job.blocks[job.trees[round.first + t]];
    const ZstdStream& stream = job.streams[block.stream];
    const unsigned from = space.ticket % kShares * kAtOnce;
    const unsigned to = from + kAtOnce < block.literal_streams ? from + kAtOnce : block.literal_streams;
    if (from >= to || !fine_for_block(job, stream.chunk)) continue;
    const Block& tree = job.blocks[block.tree_block];
    if (warp == 0) build_tree(space.tree, stream.src + tree.tree_at, tree.literals_at - tree.tree_at, lane);
    __syncthreads();
    if (space.tree.reason != static_cast<std::uint32_t>(DecodeReason::kNone)) {
      if (threadIdx.x == 0) give_up(job, stream.chunk, tree.tree_at, static_cast<DecodeReason>(space.tree.reason));
      continue;
    }
    fill_tree_table(space.tree, space.table, warp, warps);
    __syncthreads();
    for (unsigned k = from; k < to; ++k) {
      bool fits = true;
      const LiteralStream own = literal_stream(job, block, stream.src, k, fits);
      DecodeReason reason = DecodeReason::kTruncated;
      if (fits) {
        reason = decode_literals<LiteralsSpace::Form>(space.table, space.tree.log, own, space.piece,
                                                      LanesOfBlock{space.team});
      }
      if (reason != DecodeReason::kNone && threadIdx.x == 0) give_up(job, stream.chunk, block.literals_at, reason);
    }
  }
}

// The same, with one Block per warp.
template <std::int32_t kShareBits>
__device__ inline void literals_by_warp_body(const Job& job, std::uint32_t r, WarpLiteralsSpace<kShareBits>& space) {
  using Form = PieceForm<kStreamLanes, kShareBits>;
  Round& round = job.round[r];
  const unsigned lane = lane_id();
  for (;;) {
    std::uint32_t ticket = 0;
    if (lane == 0) ticket = atomicAdd(&round.literals_ticket, 1u);
    ticket = __shfl_sync(kAllLanes, ticket, 0);
    if (ticket >= round.literals) return;
    const Block& block = job.blocks[job.trees[round.first + ticket]];
    const ZstdStream& stream = job.streams[block.stream];
    if (!fine_for_warp(job, stream.chunk)) continue;
    const Block& tree = job.blocks[block.tree_block];
    build_tree(space.tree, stream.src + tree.tree_at, tree.literals_at - tree.tree_at, lane);
    __syncwarp();
    DecodeReason reason = static_cast<DecodeReason>(space.tree.reason);
    if (reason != DecodeReason::kNone) {
      if (lane == 0) give_up(job, stream.chunk, tree.tree_at, reason);
      __syncwarp();
      continue;
    }
    const unsigned log = space.tree.log, k = lane / kStreamLanes;
    fill_tree_table(space.tree, space.table, 0, 1);
    __syncwarp();
    bool fits = true;
    const LiteralStream own = literal_stream(job, block, stream.src, k, fits);
    reason = fits ? DecodeReason::kNone : DecodeReason::kTruncated;
    if (fits) reason = decode_literals<Form>(space.table, log, own, space.piece[k], LanesOfWarp<kStreamLanes>{});
    if (reason != DecodeReason::kNone && lane % kStreamLanes == 0) {
      give_up(job, stream.chunk, block.literals_at, reason);
    }
    __syncwarp();
  }
}

}  // namespace headrace::codec::gpu::zstd

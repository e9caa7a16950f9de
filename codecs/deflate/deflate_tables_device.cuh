// DEFLATE's codes (RFC 1951, 3.2): reads descriptions, builds tables, looks up code words. Device code without a CUDA
// header.
//
// A table is indexed by the next 10 bits (distances: 8); an entry holds all that a symbol means. Longer code words,
// which are rare by construction, are found by comparing the next 15 bits with the end of each length's code words.
#pragma once

#include "deflate_job_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr unsigned kMaxLength = 15, kLiteralLog = 10, kDistanceLog = 8, kEndOfBlock = 256;
inline constexpr unsigned kPrecodeSymbols = 19, kPrecodeLog = 7;
inline constexpr unsigned kMaxLiterals = 286, kMaxDistances = 30;  // maximum in a description
// Maximum bits of a description; 14 are a code word of the precode and its extra bits.
inline constexpr std::uint32_t kDescriptionBits = 17 + 3 * kPrecodeSymbols + 14 * (kMaxLiterals + kMaxDistances);

// From the lowest bit: bits of the code word plus its extra bits (5), bits of the code word (4), and the literal or the
// base that the extra bits are added to (16).
struct Entry {
  static constexpr unsigned kLengthShift = 5, kValueShift = 9;
  static constexpr std::uint32_t kMatch = 1u << 28, kEnd = 1u << 29;
  static constexpr std::uint32_t kBad = 1u << 30;   // invalid
  static constexpr std::uint32_t kLong = 1u << 31;  // prefix of a longer code word
  __device__ static unsigned total(std::uint32_t e) { return e & 31; }
  __device__ static std::uint32_t value(std::uint32_t e) { return e >> kValueShift & 0xFFFF; }
  // `low`: the code word's bits, and those after it.
  __device__ static std::uint32_t value_with_extra(std::uint32_t e, std::uint32_t low) {
    const unsigned length = e >> kLengthShift & 15;
    return value(e) + (low >> length & ((1u << (total(e) - length)) - 1));
  }
};

__device__ inline std::uint32_t make_entry(unsigned length, unsigned extra, std::uint32_t value, std::uint32_t flags) {
  return (length + extra) | length << Entry::kLengthShift | value << Entry::kValueShift | flags;
}
__device__ inline std::uint32_t literal_entry(unsigned symbol, unsigned length) {
  if (symbol < kEndOfBlock) return make_entry(length, 0, symbol, 0);
  if (symbol == kEndOfBlock) return make_entry(length, 0, 0, Entry::kEnd);
  if (symbol >= kMaxLiterals) return make_entry(length, 0, 0, Entry::kBad);
  const unsigned code = symbol - 257;
  if (code < 8) return make_entry(length, 0, 3 + code, Entry::kMatch);
  if (code == 28) return make_entry(length, 0, 258, Entry::kMatch);
  const unsigned extra = code / 4 - 1;
  return make_entry(length, extra, 3 + ((4 + code % 4) << extra), Entry::kMatch);
}
__device__ inline std::uint32_t distance_entry(unsigned symbol, unsigned length) {
  if (symbol >= kMaxDistances) return make_entry(length, 0, 0, Entry::kBad);
  if (symbol < 4) return make_entry(length, 0, 1 + symbol, 0);
  const unsigned extra = symbol / 2 - 1;
  return make_entry(length, extra, 1 + ((2 + symbol % 2) << extra), 0);
}

inline constexpr unsigned kDistances = 1u << kLiteralLog, kEntries = kDistances + (1u << kDistanceLog);

// A block's codes, in shared memory.
struct Codes {
  std::uint32_t entries[kEntries];           // of literals and lengths, followed by those of distances
  std::uint16_t sorted[kSymbols];            // symbols by code word; those of distances follow those of literals
  std::uint32_t ends[2][kMaxLength + 1];     // end of each length's code words, as numbers of 15 bits
  std::uint32_t offsets[2][kMaxLength + 1];  // added to a code word, gives its index in `sorted`
  std::uint32_t next[2][kMaxLength + 1];
  Byte precode[1 << kPrecodeLog];  // symbol; bits of its code word from bit 5 on
  Byte lengths[kSymbols];          // of code words; those of distances follow those of literals
};

template <unsigned kWhich>
__device__ inline std::uint32_t long_entry(const Codes& codes, std::uint32_t low) {
  constexpr unsigned kLog = kWhich == 0 ? kLiteralLog : kDistanceLog;
  const std::uint32_t word = __brev(low) >> (32 - kMaxLength);
  for (unsigned length = kLog + 1; length <= kMaxLength; ++length) {
    if (word >= codes.ends[kWhich][length]) continue;
    const std::uint32_t at = (word >> (kMaxLength - length)) + codes.offsets[kWhich][length];
    const unsigned symbol = codes.sorted[(kWhich == 0 ? 0 : kLiteralSymbols) + at];
    return kWhich == 0 ? literal_entry(symbol, length) : distance_entry(symbol, length);
  }
  return Entry::kBad | 1;  // unreachable: the code is complete
}
__device__ inline std::uint32_t next_literal(const Codes& codes, std::uint32_t low) {
  const std::uint32_t entry = codes.entries[low & (kDistances - 1)];
  return (entry & Entry::kLong) == 0 ? entry : long_entry<0>(codes, low);
}
__device__ inline std::uint32_t next_distance(const Codes& codes, std::uint32_t low) {
  const std::uint32_t entry = codes.entries[kDistances + (low & ((1u << kDistanceLog) - 1))];
  return (entry & Entry::kLong) == 0 ? entry : long_entry<1>(codes, low);
}
// The next entry of either table.
__device__ inline std::uint32_t next_entry(const Codes& codes, bool distance, std::uint32_t low) {
  const std::uint32_t mask = distance ? (1u << kDistanceLog) - 1 : kDistances - 1;
  const std::uint32_t entry = codes.entries[(distance ? kDistances : 0) + (low & mask)];
  if ((entry & Entry::kLong) == 0) return entry;
  return distance ? long_entry<1>(codes, low) : long_entry<0>(codes, low);
}

// ---- tables ----

// By a warp: builds the table of literals (0) or distances (1) from codes.lengths. Returns whether such a code is
// valid. Codes must be complete, except that the code of distances may have a single code word of one bit, or none: its
// missing codes become bad entries. libdeflate also accepts such codes of literals; zlib does not.
template <unsigned kWhich>
__device__ inline DecodeReason build_table(Codes& codes, unsigned lane) {
  constexpr unsigned kLog = kWhich == 0 ? kLiteralLog : kDistanceLog;
  constexpr unsigned kFirst = kWhich == 0 ? 0 : kLiteralSymbols;
  constexpr unsigned kCount = kWhich == 0 ? kLiteralSymbols : kDistanceSymbols;
  std::uint32_t* const table = codes.entries + (kWhich == 0 ? 0 : kDistances);
  std::uint32_t* const next = codes.next[kWhich];
  const Byte* const lengths = codes.lengths + kFirst;
  __syncwarp();
  if (lane <= kMaxLength) next[lane] = 0;
  __syncwarp();
  for (unsigned symbol = lane; symbol < kCount; symbol += 32) {
    if (lengths[symbol] != 0) atomicAdd(&next[lengths[symbol]], 1u);
  }
  __syncwarp();
  // Lane k has the code words of k bits.
  const std::uint32_t count = lane >= 1 && lane <= kMaxLength ? next[lane] : 0;
  const unsigned shift = lane <= kMaxLength ? kMaxLength - lane : 0;
  const std::uint32_t end = sum_upto(count << shift, lane), symbols = sum_upto(count, lane);
  const std::uint32_t space = __shfl_sync(kAllLanes, end, 31), used = __shfl_sync(kAllLanes, symbols, 31);
  const bool single = used <= 1 && space != 1u << kMaxLength && (used == 0 || space == 1u << (kMaxLength - 1));
  if (space > 1u << kMaxLength) return DecodeReason::kHeader;
  if (space < 1u << kMaxLength) {
    if (!single) return DecodeReason::kHeader;
    if (kWhich == 0) return DecodeReason::kHostOnly;
  }
  __syncwarp();
  if (lane >= 1 && lane <= kMaxLength) {
    const std::uint32_t first = (end >> shift) - count;
    codes.ends[kWhich][lane] = end;
    codes.offsets[kWhich][lane] = symbols - count - first;
    next[lane] = first;
  }
  const std::uint32_t filler = single ? Entry::kBad | 1 : Entry::kLong;
  for (unsigned i = lane; i < 1u << kLog; i += 32) table[i] = filler;
  __syncwarp();
  for (unsigned base = 0; base < kCount; base += 32) {
    const unsigned symbol = base + lane, length = lengths[symbol];
    const unsigned same = __match_any_sync(kAllLanes, length);
    const auto before = static_cast<std::uint32_t>(__popc(same & lanes_below(lane)));
    const std::uint32_t word = length == 0 ? 0 : next[length] + before;
    __syncwarp();
    std::uint32_t entry = 0, at = 0, entries = 0;
    if (length != 0) {
      if (before == 0) next[length] = word + static_cast<std::uint32_t>(__popc(same));
      codes.sorted[kFirst + word + codes.offsets[kWhich][length]] = static_cast<std::uint16_t>(symbol);
      entry = kWhich == 0 ? literal_entry(symbol, length) : distance_entry(symbol, length);
      at = __brev(word) >> (32 - length);
      entries = length <= kLog ? 1u << (kLog - length) : 0;
    }
    constexpr std::uint32_t kManyEntries = 16;  // runs above this are filled in by all lanes
    if (entries <= kManyEntries) {
      for (std::uint32_t k = 0; k < entries; ++k) table[at + (k << length)] = entry;
    }
    for (unsigned wanted = __ballot_sync(kAllLanes, entries > kManyEntries); wanted != 0; wanted &= wanted - 1) {
      const unsigned owner = lowest_bit(wanted);
      const std::uint32_t its_entry = __shfl_sync(kAllLanes, entry, owner), its_at = __shfl_sync(kAllLanes, at, owner);
      const std::uint32_t its_entries = __shfl_sync(kAllLanes, entries, owner);
      const unsigned its_length = __shfl_sync(kAllLanes, length, owner);
      for (std::uint32_t k = lane; k < its_entries; k += 32) table[its_at + (k << its_length)] = its_entry;
    }
    __syncwarp();
  }
  return DecodeReason::kNone;
}

__device__ inline DecodeReason build_tables(Codes& codes, unsigned lane) {
  const DecodeReason reason = build_table<0>(codes, lane);
  return reason != DecodeReason::kNone ? reason : build_table<1>(codes, lane);
}

// The code of fixed blocks (3.2.6).
__device__ inline void fixed_lengths(Codes& codes, unsigned lane) {
  __syncwarp();
  for (unsigned i = lane; i < kSymbols; i += 32) {
    codes.lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : i < kLiteralSymbols ? 8 : 5;
  }
  __syncwarp();
}

// ---- descriptions ----

// Where a precode symbol's length is in the transmitted order (3.2.7).
__host__ __device__ constexpr unsigned precode_place(unsigned symbol) {
  if (symbol >= 16) return symbol - 16;
  if (symbol == 0) return 3;
  return symbol >= 8 ? 2 * symbol - 12 : 19 - 2 * symbol;
}
// 32 bits of a window.
__device__ inline std::uint32_t window_bits(const BitSpan& window, std::uint32_t at) {
  const std::uint32_t bit = at - window.first;
  return __funnelshift_r(window.words[bit / 32], window.words[bit / 32 + 1], bit % 32);
}

struct Description {
  DecodeReason reason;
  std::uint32_t end;  // bit after it
};

// By a warp: reads a dynamic block's description (3.2.7) into codes.lengths. It begins at bit `at`, after the block's
// three header bits; `window` begins there.
__device__ inline Description read_description(Codes& codes, const BitSpan& window, std::uint32_t at,
                                               std::uint32_t end_of_input, unsigned lane) {
  const std::uint32_t fixed = window_bits(window, at);
  const unsigned literals = (fixed & 31) + 257, distances = (fixed >> 5 & 31) + 1, present = (fixed >> 10 & 15) + 4;
  at += 14;
  // libdeflate accepts more symbols than the format has.
  if (literals > kMaxLiterals || distances > kMaxDistances) return {DecodeReason::kHostOnly, at};
  for (unsigned i = lane; i < kSymbols; i += 32) codes.lengths[i] = 0;
  for (unsigned i = lane; i < 1u << kPrecodeLog; i += 32) codes.precode[i] = 0;
  const unsigned place = precode_place(lane);
  const unsigned own = lane < kPrecodeSymbols && place < present ? window_bits(window, at + 3 * place) & 7 : 0;
  at += 3 * present;
  // Code words as numbers of 7 bits: the space used by shorter and smaller symbols.
  std::uint32_t word = 0, space = 0, used = 0;
  for (unsigned k = 0; k < kPrecodeSymbols; ++k) {
    const unsigned length = __shfl_sync(kAllLanes, own, k);
    const std::uint32_t share = length == 0 ? 0 : 1u << (kPrecodeLog - length);
    space += share;
    used += length != 0;
    if (length < own || (length == own && k < lane)) word += share;
  }
  if (space != 1u << kPrecodeLog) {
    const bool single = used == 0 || (used == 1 && space == 1u << (kPrecodeLog - 1));
    return {single ? DecodeReason::kHostOnly : DecodeReason::kHeader, at};
  }
  __syncwarp();
  if (own != 0) {
    const std::uint32_t first = __brev(word) >> (32 - kPrecodeLog);
    for (std::uint32_t k = 0; k < 1u << (kPrecodeLog - own); ++k) {
      codes.precode[first + (k << own)] = static_cast<Byte>(lane | own << 5);
    }
  }
  __syncwarp();
  // Each lane decodes the symbol that would begin at its bit; then the true ones are selected.
  const unsigned total = literals + distances;
  DecodeReason reason = DecodeReason::kNone;
  unsigned before = 0;
  for (unsigned done = 0; done < total && reason == DecodeReason::kNone;) {
    const std::uint32_t low = window_bits(window, at + lane);
    const unsigned entry = codes.precode[low & ((1u << kPrecodeLog) - 1)], symbol = entry & 31, take = entry >> 5;
    const unsigned extra = symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
    const unsigned more = symbol < 16 ? 1 : symbol == 18 ? 11 : 3;
    const unsigned repeat = more + (low >> take & ((1u << extra) - 1)), next = lane + take + extra;
    unsigned begins = 0;
    for (unsigned k = 0; k < 32; k = __shfl_sync(kAllLanes, next, k)) begins |= 1u << k;
    const unsigned counted = (begins >> lane & 1) != 0 ? repeat : 0;
    const unsigned i = done + sum_upto(counted, lane) - counted;
    const bool there = counted != 0 && i < total;
    const unsigned all = __ballot_sync(kAllLanes, there), last = top_bit(all);
    // A repeat refers to the last length that is not itself a repeat.
    const unsigned told = __ballot_sync(kAllLanes, there && symbol != 16) & lanes_below(lane);
    unsigned length = symbol < 16 ? symbol : 0;
    const unsigned its_length = __shfl_sync(kAllLanes, length, told == 0 ? 0 : top_bit(told));
    if (symbol == 16) length = told == 0 ? before : its_length;
    // The format forbids a repeat that extends past the last length; some versions of libdeflate accept it.
    if (__any_sync(kAllLanes, there && repeat > total - i)) reason = DecodeReason::kHostOnly;
    unsigned end = __shfl_sync(kAllLanes, next, last);
    if (done == 0 && __shfl_sync(kAllLanes, symbol, 0) == 16) {
      reason = DecodeReason::kHeader;
      end = __shfl_sync(kAllLanes, next, 0);
    }
    if (reason == DecodeReason::kNone && there && length != 0) {  // the others are zero already
      for (unsigned x = i; x < i + repeat; ++x) {
        codes.lengths[x < literals ? x : kLiteralSymbols + x - literals] = static_cast<Byte>(length);
      }
    }
    at += end;
    done = __shfl_sync(kAllLanes, i + repeat, last);
    before = __shfl_sync(kAllLanes, length, last);
  }
  __syncwarp();
  if (at > end_of_input) return {DecodeReason::kTruncated, at};
  if (reason != DecodeReason::kNone) return {reason, at};
  // Without an end symbol, a block would continue to the end of the input.
  if (codes.lengths[kEndOfBlock] == 0) return {DecodeReason::kHeader, at};
  return {DecodeReason::kNone, at};
}

// ---- lengths in memory ----

__device__ inline void store_lengths(const Codes& codes, std::uint32_t* to, unsigned lane) {
  for (unsigned i = lane; i < kSymbols / 8; i += 32) {
    std::uint32_t word = 0;
    for (unsigned k = 0; k < 8; ++k) word |= static_cast<std::uint32_t>(codes.lengths[8 * i + k]) << (4 * k);
    to[i] = word;
  }
}
__device__ inline void load_lengths(Codes& codes, const std::uint32_t* from, unsigned lane) {
  __syncwarp();
  for (unsigned i = lane; i < kSymbols / 8; i += 32) {
    const std::uint32_t word = from[i];
    for (unsigned k = 0; k < 8; ++k) codes.lengths[8 * i + k] = static_cast<Byte>(word >> (4 * k) & 15);
  }
  __syncwarp();
}

}  // namespace headrace::codec::gpu::deflate

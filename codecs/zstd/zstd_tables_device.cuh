// FSE tables: reads descriptions (RFC 8878, 4.1.1), spreads cells, and gives the meaning of sequence codes
// (3.1.1.3.2.1). Device code without a CUDA header.
#pragma once

#include "zstd_job_device.cuh"

namespace headrace::codec::gpu::zstd {

// Bits of a description, lowest first, followed by zeros. Loads aligned words, each one step ahead of its use.
// REQUIRES: the three bytes before it are readable.
class ForwardBits {
 public:
  __device__ ForwardBits(const Byte* at, std::uint32_t bytes) : end_(at + bytes) {
    const auto off = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at) & 3);
    next_ = at - off;
    window_ = word() >> (8 * off);
    have_ = 32 - 8 * off;
    ahead_ = word();
  }
  // The next 32 bits or more.
  __device__ std::uint32_t peek() {
    if (have_ < 32) {
      window_ |= static_cast<std::uint64_t>(ahead_) << have_;
      have_ += 32;
      ahead_ = word();
    }
    return static_cast<std::uint32_t>(window_);
  }
  // REQUIRES: peek() has been called since the last skip.
  __device__ void skip(unsigned bits) {
    window_ >>= bits;
    have_ -= bits;
    used_ += bits;
  }
  __device__ std::uint32_t used_bytes() const { return (used_ + 7) / 8; }

 private:
  __device__ std::uint32_t word() {
    const Byte* const at = next_;
    next_ += 4;
    return word_before(at, end_);
  }

  const Byte *next_, *end_;
  std::uint32_t ahead_ = 0, used_ = 0;
  std::uint64_t window_ = 0;
  unsigned have_ = 0;
};

struct Description {
  DecodeReason reason;
  unsigned log;
  std::uint32_t bytes;
};

// Reads a table's description. Calls `found(symbol, count)` for each symbol that occurs, with its number of cells, or
// -1 for "less than one". Counts are right only if the reason is kNone.
template <class Found>
__device__ inline Description read_description(const Byte* at, std::uint32_t bytes, unsigned last_symbol,
                                               unsigned max_log, Found&& found) {
  ForwardBits bits(at, bytes);
  Description out{DecodeReason::kNone, (bits.peek() & 15) + 5, 0};
  bits.skip(4);
  if (bytes == 0) return {DecodeReason::kTruncated, 0, 0};
  if (out.log > max_log) return {DecodeReason::kHeader, 0, 0};
  std::int32_t left = (1 << out.log) + 1, threshold = 1 << out.log;  // left: remaining cells plus one
  unsigned width = out.log + 1, symbol = 0;
  while (left > 1 && symbol <= last_symbol) {
    const std::int32_t short_ones = 2 * threshold - 1 - left;
    const auto word = static_cast<std::int32_t>(bits.peek() & ((1u << width) - 1));
    std::int32_t count = word & (threshold - 1);
    if (count < short_ones) {
      bits.skip(width - 1);
    } else {
      count = word;
      if (count >= threshold) count -= short_ones;
      bits.skip(width);
    }
    --count;
    left -= count < 0 ? 1 : count;
    if (count != 0) found(symbol, count);
    ++symbol;
    while (left < threshold && left > 1) {
      threshold >>= 1;
      --width;
    }
    if (count != 0) continue;
    for (unsigned more = 3; more == 3 && symbol <= last_symbol;) {
      more = bits.peek() & 3;
      bits.skip(2);
      symbol += more;
    }
  }
  out.bytes = bits.used_bytes();
  // libzstd reads some bytes twice when a description exceeds its bytes.
  if (out.bytes > bytes) return {DecodeReason::kHostOnly, 0, 0};
  if (left != 1) out.reason = DecodeReason::kHeader;
  return out;
}

// ---- meaning of codes ----

__host__ __device__ constexpr unsigned last_symbol(unsigned table) {
  return table == kLiteralLengths ? 35 : table == kOffsets ? 31 : 52;
}
__host__ __device__ constexpr unsigned max_log(unsigned table) { return table == kOffsets ? 8 : 9; }

// Number of extra bits of a literal length code.
__device__ inline unsigned literal_extra(unsigned code) {
  if (code < 16) return 0;
  if (code < 20) return 1;
  if (code < 24) return code < 22 ? 2 : 3;
  return code == 24 ? 4 : code - 19;
}
__device__ inline std::uint32_t literal_base(unsigned code) {
  if (code < 16) return code;
  if (code < 20) return 16 + 2 * (code - 16);
  if (code < 22) return 24 + 4 * (code - 20);
  if (code < 24) return 32 + 8 * (code - 22);
  return code == 24 ? 48 : 1u << (code - 19);
}
__device__ inline unsigned match_extra(unsigned code) {
  if (code < 32) return 0;
  if (code < 36) return 1;
  if (code < 40) return code < 38 ? 2 : 3;
  if (code < 42) return 4;
  return code == 42 ? 5 : code - 36;
}
__device__ inline std::uint32_t match_base(unsigned code) {
  if (code < 32) return code + 3;
  if (code < 36) return 35 + 2 * (code - 32);
  if (code < 38) return 43 + 4 * (code - 36);
  if (code < 40) return 51 + 8 * (code - 38);
  if (code < 42) return 67 + 16 * (code - 40);
  return code == 42 ? 99 : (1u << (code - 36)) + 3;
}

// The predefined distributions (3.1.1.3.2.2): number of cells per symbol, or -1.
struct Predefined {
  unsigned log, symbols;
};
__device__ inline Predefined predefined(unsigned table) {
  return table == kLiteralLengths ? Predefined{6, 36} : table == kOffsets ? Predefined{5, 29} : Predefined{6, 53};
}
__device__ inline std::int32_t predefined_count(unsigned table, unsigned symbol) {
  if (table == kLiteralLengths) {
    if (symbol >= 32) return -1;
    if (symbol == 0) return 4;
    if (symbol == 1 || symbol == 25) return 3;
    return (symbol >= 13 && symbol <= 15) || symbol >= 27 ? 1 : 2;
  }
  if (table == kOffsets) {
    if (symbol >= 24) return -1;
    return symbol >= 6 && symbol <= 8 ? 2 : 1;
  }
  if (symbol >= 46) return -1;
  if (symbol == 1) return 4;
  if (symbol == 2) return 3;
  return symbol >= 3 && symbol <= 8 ? 2 : 1;
}

// ---- cells ----

// A description in shared memory, in a form from which a warp builds a table. For symbols below kSymbols, of which a
// table of 64 cells has at most 64.
template <unsigned kSymbols>
struct TableCounts {
  std::uint16_t next[kSymbols];  // by symbol: the number of its next cell
  std::uint16_t starts[64];      // runs of cells in dealing order: one for each symbol with a positive count
  Byte names[64];
  Byte low_names[64];  // symbols of less than one cell, which get the table's last cells
  std::uint32_t runs, lows;
};
inline constexpr unsigned kMaxCells = 512;

// Collects the symbols, by one lane, in rising order.
template <unsigned kSymbols>
class CellCounts {
 public:
  __device__ explicit CellCounts(TableCounts<kSymbols>& to) : to_(to) {}
  __device__ void operator()(unsigned symbol, std::int32_t count) {
    if (symbol >= kSymbols) return;
    if (count < 0) {
      if (++lows_ > 64) return;
      to_.low_names[lows_ - 1] = static_cast<Byte>(symbol);
      to_.next[symbol] = 1;
      return;
    }
    if (++runs_ > 64) return;  // a table of 2^6 cells has no more symbols, and sequences have 53
    to_.starts[runs_ - 1] = static_cast<std::uint16_t>(dealt_);
    to_.names[runs_ - 1] = static_cast<Byte>(symbol);
    dealt_ += static_cast<std::uint32_t>(count);
    to_.next[symbol] = static_cast<std::uint16_t>(count);
  }
  // Returns whether the counts fill a table of that size.
  __device__ bool finish(unsigned log) {
    to_.runs = runs_;
    to_.lows = lows_;
    return runs_ <= 64 && lows_ <= 64 && lows_ + dealt_ == 1u << log;
  }

 private:
  TableCounts<kSymbols>& to_;
  std::uint32_t lows_ = 0, runs_ = 0, dealt_ = 0;
};

// By a warp: assigns cells to symbols (4.1.1), including those of "less than one". REQUIRES: finish() returned true;
// log is at least 5, as the format guarantees.
template <unsigned kSymbols>
__device__ inline void deal_cells(const TableCounts<kSymbols>& counts, Byte* cells, unsigned log, unsigned lane) {
  const std::uint32_t size = 1u << log, step = (size >> 1) + (size >> 3) + 3, low = size - counts.lows;
  for (std::uint32_t k = lane; k < counts.lows; k += 32) cells[size - 1 - k] = counts.low_names[k];
  const auto start = [&](std::uint32_t run) { return run < counts.runs ? counts.starts[run] : kNone; };
  const std::uint32_t starts[2] = {start(lane), start(lane + 32)};
  std::uint32_t rank = 0, begun = 0;  // counts of cells dealt so far, and of runs that begin among them
  for (std::uint32_t first = 0; first < size; first += 32) {
    const std::uint32_t cell = (first + lane) * step & (size - 1);
    const bool dealt = cell < low;
    const unsigned votes = __ballot_sync(kAllLanes, dealt);
    // One bit for each run that begins among the next 32.
    unsigned begins = 0;
    for (const std::uint32_t each : starts) begins |= each - rank < 32 ? 1u << (each - rank) : 0;
    begins = __reduce_or_sync(kAllLanes, begins);
    const auto own = static_cast<unsigned>(__popc(votes & lanes_below(lane)));
    if (dealt) cells[cell] = counts.names[begun + static_cast<unsigned>(__popc(begins & ((2u << own) - 1))) - 1];
    const auto count = static_cast<unsigned>(__popc(votes));
    begun += static_cast<std::uint32_t>(__popc(count == 32 ? begins : begins & ((1u << count) - 1)));
    rank += count;
  }
  __syncwarp();
}

// By a warp: calls `entry` for each cell with its symbol, the number of bits of the next state, and the base they are
// added to. All lanes call it together: a table has a multiple of 32 cells.
template <unsigned kSymbols, class Entry>
__device__ inline void number_cells(TableCounts<kSymbols>& counts, const Byte* cells, unsigned log, unsigned lane,
                                    Entry&& entry) {
  const std::uint32_t size = 1u << log;
  for (std::uint32_t cell = lane; cell < size; cell += 32) {
    const std::uint32_t symbol = cells[cell];
    const unsigned same = __match_any_sync(kAllLanes, symbol);
    const unsigned before = same & lanes_below(lane);
    const std::uint32_t first = counts.next[symbol], number = first + static_cast<std::uint32_t>(__popc(before));
    const unsigned bits = log - top_bit(number);
    entry(cell, symbol, bits, (number << bits) - size);
    __syncwarp();
    if (before == 0) counts.next[symbol] = static_cast<std::uint16_t>(first + static_cast<std::uint32_t>(__popc(same)));
    __syncwarp();
  }
}

}  // namespace headrace::codec::gpu::zstd

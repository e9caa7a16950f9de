// CRC-32C, CRC-32, Adler-32 and Fletcher-32 of bytes in device memory, which may be copied meanwhile. Device code
// without a CUDA header.
//
// A warp sums a segment of a stream in rows of 128 bytes: lane l reads word l of every row and sums that column. All
// four checksums are linear, so columns are joined into segments and segments into streams afterwards: a CRC by
// multiplying with a power of x (polynomials over GF(2) modulo the CRC's polynomial P, bits reflected), the others by
// counting the bytes that follow.
//
// Most rows of a CRC need no table. A row is 2^10 bits, and squaring maps roots of P to roots of P, so y = x^(2^10)
// satisfies P(y) = 0: y^32 equals the sum of y^j over P's lower terms j. A word followed by at least 32 rows can
// therefore be XORed into 14 (CRC-32) or 17 (CRC-32C) of the next 32 words of its column instead. A lane keeps 32 words
// in registers and spends seven or nine three-input XORs a word. Only the last 32 rows are summed by tables, whose
// parts have five bits: 32 words, one in each bank of shared memory, so lookups of different lanes never conflict.
#pragma once

#include <cstdint>

#if defined(__CUDACC__) || defined(__clang__)
#define HEADRACE_CHECKSUM_UNROLL _Pragma("unroll")
#else
#define HEADRACE_CHECKSUM_UNROLL
#endif

namespace headrace::codec::gpu {

enum class Checksum : std::uint32_t { kCrc32c, kCrc32, kAdler32, kFletcher32 };

constexpr unsigned kChecksumThreads = 256, kChecksumWarps = kChecksumThreads / 32;
constexpr unsigned kChecksumRowBytes = 4 * 32;  // of a warp
// Most and fewest bytes of a warp's segment. Even, for Fletcher's words.
constexpr std::uint64_t kMaxSegmentBytes = 64 << 10, kMinSegmentBytes = 8 << 10;
constexpr std::uint64_t kChecksumWordBytes = 4;
constexpr std::uint32_t kCrc32cPolynomial = 0x82F63B78, kCrc32Polynomial = 0xEDB88320;

// a * b modulo the polynomial; bit 31 is the coefficient of 1.
__host__ __device__ constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b, std::uint32_t polynomial) {
  std::uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    product ^= (a >> bit & 1) != 0 ? b : 0;
    b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0);
  }
  return product;
}

constexpr unsigned kCrcPartBits = 5, kCrcParts = (32 + kCrcPartBits - 1) / kCrcPartBits;

// A CRC register advanced by a fixed number of bytes: the contribution of each part of the register.
using CrcAdvance = std::uint32_t[kCrcParts][1u << kCrcPartBits];

struct CrcTables {
  std::uint32_t polynomial = 0;
  CrcAdvance row = {};            // by a row
  std::uint32_t column[32] = {};  // x^32 times the columns behind a lane's
  std::uint32_t power[40] = {};   // x^(8 * 2^k)
};

constexpr void make_crc_advance(CrcAdvance& out, std::uint32_t power, std::uint32_t polynomial) {
  for (unsigned k = 0; k < kCrcParts; ++k) {
    // Bit by bit, then all sums of them.
    for (unsigned part = 1; part < 1u << kCrcPartBits; ++part) {
      const unsigned low = part & (0u - part);
      if (part == low) {
        const std::uint64_t bits = std::uint64_t{part} << (kCrcPartBits * k);  // the last part has fewer
        out[k][part] = multiply(static_cast<std::uint32_t>(bits), power, polynomial);
      } else {
        out[k][part] = out[k][low] ^ out[k][part ^ low];
      }
    }
  }
}

constexpr CrcTables make_crc_tables(std::uint32_t polynomial) {
  CrcTables out;
  out.polynomial = polynomial;
  std::uint32_t power = std::uint32_t{1} << 31;
  for (int i = 0; i < 8; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? polynomial : 0);
  for (std::uint32_t& entry : out.power) {
    entry = power;
    power = multiply(power, power, polynomial);
  }
  static_assert(kChecksumRowBytes == 1u << 7);
  make_crc_advance(out.row, out.power[7], polynomial);
  std::uint32_t column = out.power[2];
  for (unsigned lane = 32; lane-- > 0;) {
    out.column[lane] = column;
    column = multiply(column, out.power[2], polynomial);
  }
  return out;
}

struct ChecksumShared {
  CrcAdvance row;  // copy of CrcTables::row
  uint2 warps[kChecksumWarps];
};

namespace checksum {

constexpr std::uint32_t kAdlerModulus = 65521, kFletcherModulus = 65535;

// Modulo 65535, where nothing but zero itself is 0.
__device__ inline std::uint32_t fletcher_fold(std::uint64_t sum) {
  return sum == 0 ? 0 : static_cast<std::uint32_t>((sum - 1) % kFletcherModulus + 1);
}
__device__ inline std::uint32_t reduce(Checksum kind, std::uint64_t sum) {
  return kind == Checksum::kFletcher32 ? fletcher_fold(sum) : static_cast<std::uint32_t>(sum % kAdlerModulus);
}

// x^(8 * bytes)
__device__ inline std::uint32_t power_of(const CrcTables& tables, std::uint64_t bytes) {
  std::uint32_t product = std::uint32_t{1} << 31;
  for (unsigned k = 0; k < 40; ++k) {
    if ((bytes >> k & 1) != 0) product = multiply(product, tables.power[k], tables.polynomial);
  }
  return product;
}

// Copies the row table to shared memory. Called by a whole thread block before it sums CRCs.
__device__ inline void load_tables(const CrcTables& tables, ChecksumShared& shared) {
  constexpr unsigned kPart = 1u << kCrcPartBits;
  for (unsigned i = threadIdx.x; i < kCrcParts * kPart; i += kChecksumThreads) {
    shared.row[i / kPart][i % kPart] = tables.row[i / kPart][i % kPart];
  }
  __syncthreads();
}

// `state` advanced by what `table` is for, plus `more`.
__device__ inline std::uint32_t advance(const CrcAdvance& table, std::uint32_t state, std::uint32_t more) {
  constexpr std::uint32_t kMask = (1u << kCrcPartBits) - 1;
  HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kCrcParts; ++k) {
    more ^= table[k][state >> (kCrcPartBits * k) & kMask];
  }
  return more;
}

// ---- columns: a lane's sums over its words, row by row ----
//
// A turn is 32 rows; the last turn ends with the segment. add<false>(k, word) takes row k of an earlier turn,
// add<true>(k, word) row k of the last one. Rows before the segment count as zeros and may be left out.

constexpr unsigned kTurnRows = 32;

template <std::uint32_t kPolynomial>
struct CrcColumn {
  std::uint32_t rows[kTurnRows] = {};  // the last 32, with everything before them folded in

  // A row that is 32 - j rows older is folded into this one if P has the term y^j. In the last turn nothing is folded
  // out of the turn's own rows: these remain to be summed.
  template <bool kLast>
  __device__ void add(unsigned k, std::uint32_t word) {
    HEADRACE_CHECKSUM_UNROLL for (unsigned lag = 1; lag <= kTurnRows; ++lag) {
      if ((kPolynomial >> (lag - 1) & 1) != 0 && (!kLast || lag > k)) word ^= rows[(k - lag) % kTurnRows];
    }
    rows[k] = word;
  }
  // `first`: the rows before it are zeros.
  __device__ std::uint32_t sum(const CrcAdvance& row_table, unsigned first) const {
    std::uint32_t state = 0;
    HEADRACE_CHECKSUM_UNROLL for (unsigned base = 0; base < kTurnRows; base += 8) {
      if (base + 8 <= first) continue;
      HEADRACE_CHECKSUM_UNROLL for (unsigned k = base; k < base + 8; ++k) {
        state = advance(row_table, state, rows[k]);
      }
    }
    return state;
  }
};

// A byte's weight is the number of bytes from it to the end. Adding up the running sum once a row counts the rows; the
// byte's place in its row is subtracted.
struct AdlerColumn {
  std::uint32_t bytes = 0, sums = 0, places = 0;

  template <bool kLast>
  __device__ void add(unsigned /*k*/, std::uint32_t word) {
    bytes = __dp4a(word, 0x01010101u, bytes);
    sums += bytes;
    places = __dp4a(word, 0x03020100u, places);
  }
  __device__ std::uint32_t first() const { return bytes; }
  __device__ std::uint64_t second(unsigned lane) const {
    return std::uint64_t{sums} * kChecksumRowBytes - std::uint64_t{bytes} * (4 * lane) - places;
  }
};

// The same for 16-bit values, high byte first. `odd`: words begin in the middle of a value.
struct FletcherColumn {
  bool odd;
  std::uint32_t values = 0;
  std::uint64_t sums = 0;
  std::int32_t places = 0;

  template <bool kLast>
  __device__ void add(unsigned /*k*/, std::uint32_t word) {
    if (odd) {
      const std::uint32_t before = word & 0xFF, behind = word >> 16 & 0xFF00;
      values += before + __byte_perm(word, 0, 0x4412) + behind;
      places += static_cast<std::int32_t>(behind) - static_cast<std::int32_t>(before);
    } else {
      const std::uint32_t behind = __byte_perm(word, 0, 0x4423);
      values += __byte_perm(word, 0, 0x4401) + behind;
      places += static_cast<std::int32_t>(behind);
    }
    sums += values;
  }
  __device__ std::uint32_t first() const { return values; }
  __device__ std::uint64_t second(unsigned lane) const {
    return sums * (kChecksumRowBytes / 2) - std::uint64_t{values} * (2 * lane) -
           static_cast<std::uint64_t>(std::int64_t{places});
  }
};

// Rows that are loaded side by side.
constexpr unsigned kRowsAtOnce = 16;

// Some bytes, cut into rows of words. The last row ends with the last word, so the first row may begin before the
// bytes; up to three bytes are left behind the last word. Words are aligned to the destination when copying, otherwise
// to the source. Loads are aligned words, or single bytes where such a word is not all inside.
struct Columns {
  const unsigned char* src;
  unsigned char* to;
  std::uint32_t bytes, body;    // `body`: those in words
  std::uint32_t rows, missing;  // `missing`: bytes of the first row before the bytes
  // Bytes before the first in its aligned word; the first and last aligned words, with zeros outside.
  std::uint32_t lead, first, last;

  __device__ Columns(const unsigned char* from, std::uint32_t count, unsigned char* copy, const unsigned char* aligned)
      : src(from), to(copy), bytes(count) {
    const auto past = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(aligned + count) & 3);
    body = past < count ? count - past : 0;
    rows = (body + kChecksumRowBytes - 1) / kChecksumRowBytes;
    missing = rows * kChecksumRowBytes - body;
    lead = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(src) & 3);
    first = lead != 0 || bytes < 4 ? by_bytes(0) : 0;
    last = (lead + bytes) % 4 != 0 ? by_bytes((lead + bytes) / 4) : 0;
  }
  __device__ std::uint32_t by_bytes(std::uint32_t number) const {
    std::uint32_t out = 0;
    HEADRACE_CHECKSUM_UNROLL for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t place = 4 * number + i - lead;
      if (place < bytes) out |= static_cast<std::uint32_t>(src[place]) << (8 * i);
    }
    return out;
  }
  // By its number; word 0 has the first byte. Zeros outside the bytes.
  __device__ std::uint32_t aligned_word(std::int32_t number) const {
    const std::int32_t place = 4 * number - static_cast<std::int32_t>(lead);
    if (place >= 0 && static_cast<std::uint32_t>(place) + 4 <= bytes) {
      return *reinterpret_cast<const std::uint32_t*>(src + place);
    }
    return number == 0 ? first : number == static_cast<std::int32_t>((lead + bytes) / 4) ? last : 0;
  }
  // The bytes behind the last word, the first of them in the low byte.
  __device__ std::uint32_t rest() const {
    std::uint32_t out = 0;
    HEADRACE_CHECKSUM_UNROLL for (std::uint32_t i = 0; i < 3; ++i) {
      if (body + i < bytes) out |= static_cast<std::uint32_t>(src[body + i]) << (8 * i);
    }
    return out;
  }
};

// Loads rows of aligned words, kRowsAtOnce at a time and a batch ahead, so that loads are in flight while rows are
// summed. Where words are not aligned in the source, each is joined from two aligned ones, the second of which the next
// lane has loaded.
template <bool kCopy>
class RowReader {
 public:
  __device__ RowReader(const Columns& columns, unsigned lane)
      : columns_(columns),
        lane_(lane),
        first_at_(static_cast<std::int32_t>(4 * lane) - static_cast<std::int32_t>(columns.missing)),
        rows_(static_cast<std::int32_t>(columns.rows)) {
    if (kCopy) shift_ = static_cast<std::uint32_t>(first_at_ + static_cast<std::int32_t>(columns.lead)) & 3;
    // The first row whose aligned words are all inside the bytes; at most two come before it.
    const auto before = static_cast<std::int32_t>(columns.missing + shift_);
    whole_ = (before + kRow - 1) / kRow;
    if (whole_ > rows_) whole_ = rows_;
    first_ = whole_ > 0 ? careful(0) : 0;
    second_ = whole_ > 1 ? careful(1) : 0;
    behind_ = shift_ != 0 ? careful(rows_) : 0;
  }

  // Starts to load rows [row, row + kRowsAtOnce). Rows before the first are zeros.
  __device__ void load(std::int32_t row) {
    const auto* const from = reinterpret_cast<const std::uint32_t*>(columns_.src + at(row) - static_cast<int>(shift_));
    if (row >= whole_ && row + kBatch <= rows_) {
      HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kRowsAtOnce; ++k) ahead_[k] = from[k * 32];
      return;
    }
    HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kRowsAtOnce; ++k) {
      const std::int32_t own = row + static_cast<std::int32_t>(k);
      if (own >= whole_ && own < rows_) {
        ahead_[k] = from[k * 32];
      } else {
        ahead_[k] = own == rows_ ? behind_ : own == 0 ? first_ : own == 1 ? second_ : 0;
      }
    }
  }
  // The words of rows [row, row + kRowsAtOnce), which load() was last called for; starts to load the next ones. Copies
  // them if kCopy. REQUIRES: row is at most `rows` - kRowsAtOnce, and some of the rows are not before the first.
  __device__ void take(std::int32_t row, std::uint32_t (&words)[kRowsAtOnce]) {
    HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kRowsAtOnce; ++k) words[k] = ahead_[k];
    load(row + kBatch);
    if constexpr (!kCopy) return;
    if (shift_ != 0) {
      HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kRowsAtOnce; ++k) {
        // Behind lane 31's word is lane 0's of the next row.
        const std::uint32_t next_row = k + 1 < kRowsAtOnce ? words[k + 1] : ahead_[0];
        const std::uint32_t next =
            __shfl_sync(0xFFFFFFFF, lane_ == 0 ? next_row : words[k], static_cast<unsigned>(lane_ + 1) % 32);
        words[k] = __funnelshift_r(words[k], next, 8 * shift_);
      }
    }
    auto* const to = reinterpret_cast<std::uint32_t*>(columns_.to + at(row));
    if (row >= whole_) {
      HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kRowsAtOnce; ++k) to[k * 32] = words[k];
      return;
    }
    HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kRowsAtOnce; ++k) {
      const std::int32_t own = row + static_cast<std::int32_t>(k);
      if (own >= 0 && at(own) >= 0) to[k * 32] = words[k];
    }
  }

 private:
  static constexpr auto kRow = static_cast<std::int32_t>(kChecksumRowBytes);
  static constexpr auto kBatch = static_cast<std::int32_t>(kRowsAtOnce);

  // Where this lane's word of a row begins.
  __device__ std::int32_t at(std::int32_t row) const { return first_at_ + row * kRow; }
  // The aligned word that this lane's word of a row begins in, read without touching others.
  __device__ std::uint32_t careful(std::int32_t row) const {
    return columns_.aligned_word((at(row) + static_cast<std::int32_t>(columns_.lead)) >> 2);
  }

  const Columns& columns_;
  const unsigned lane_;
  const std::int32_t first_at_, rows_;
  std::int32_t whole_ = 0;
  unsigned shift_ = 0;                                 // bytes from an aligned word to a lane's word; the same for all
  std::uint32_t first_ = 0, second_ = 0, behind_ = 0;  // words of rows 0 and 1 if not whole, and of the one behind all
  std::uint32_t ahead_[kRowsAtOnce];
};

// The rows of one turn, which begins with row `base`.
template <bool kLast, bool kCopy, class Column>
__device__ inline void add_turn(RowReader<kCopy>& reader, Column& column, std::int32_t base) {
  HEADRACE_CHECKSUM_UNROLL for (unsigned first = 0; first < kTurnRows; first += kRowsAtOnce) {
    const std::int32_t row = base + static_cast<std::int32_t>(first);
    if (row + static_cast<std::int32_t>(kRowsAtOnce) <= 0) continue;
    std::uint32_t words[kRowsAtOnce];
    reader.take(row, words);
    HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kRowsAtOnce; ++k) {
      column.template add<kLast>(first + k, words[k]);
    }
  }
}

template <bool kCopy, class Column>
__device__ inline void add_rows(const Columns& columns, Column& column, unsigned lane) {
  constexpr auto kTurn = static_cast<std::int32_t>(kTurnRows), kBatch = static_cast<std::int32_t>(kRowsAtOnce);
  const auto rows = static_cast<std::int32_t>(columns.rows);
  if (rows == 0) return;
  RowReader<kCopy> reader(columns, lane);
  std::int32_t base = -((kTurn - rows % kTurn) % kTurn);
  // The first batch that has a row.
  reader.load(base + (-base) / kBatch * kBatch);
  for (; base + kTurn < rows; base += kTurn) add_turn<false>(reader, column, base);
  add_turn<true>(reader, column, base);
}

// The few bytes before the first word that is stored, and behind the last.
__device__ inline void copy_ends(const Columns& columns, unsigned lane) {
  const std::uint32_t before = columns.body % 4, left = columns.bytes - columns.body;
  if (lane < before) columns.to[lane] = columns.src[lane];
  if (lane < left) columns.to[columns.body + lane] = columns.src[columns.body + lane];
}

__device__ inline std::uint32_t xor_of_warp(std::uint32_t value) {
  for (unsigned distance = 16; distance > 0; distance /= 2) value ^= __shfl_xor_sync(0xFFFFFFFF, value, distance);
  return value;
}

template <std::uint32_t kPolynomial, bool kCopy>
__device__ inline uint2 crc_by_warp(const Columns& columns, std::uint32_t rest, const CrcTables& tables,
                                    const CrcAdvance& row_table, unsigned lane) {
  CrcColumn<kPolynomial> column;
  add_rows<kCopy>(columns, column, lane);
  const std::uint32_t own = column.sum(row_table, columns.rows < kTurnRows ? kTurnRows - columns.rows : 0);
  std::uint32_t state = xor_of_warp(multiply(own, tables.column[lane], kPolynomial));
  for (std::uint32_t i = 0; i < columns.bytes - columns.body; ++i) {
    state ^= rest >> (8 * i) & 0xFF;
    for (unsigned bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? kPolynomial : 0);
  }
  return {state, 0};
}

// Sums of at most 128 KiB, the same for all lanes of the warp that calls it; if kCopy, the bytes are copied to `to`.
// REQUIRES: for a CRC, load_tables().
template <Checksum kKind, bool kCopy>
__device__ inline uint2 sum_by_warp(const CrcTables* tables, const ChecksumShared& shared, const unsigned char* src,
                                    std::uint32_t bytes, unsigned char* to) {
  const unsigned lane = threadIdx.x % 32;
  const Columns columns(src, bytes, to, kCopy ? to : src);
  if constexpr (kCopy) copy_ends(columns, lane);
  const std::uint32_t left = columns.bytes - columns.body;  // up to three
  const std::uint32_t rest = columns.rest();
  if constexpr (kKind == Checksum::kCrc32c) {
    return crc_by_warp<kCrc32cPolynomial, kCopy>(columns, rest, *tables, shared.row, lane);
  } else if constexpr (kKind == Checksum::kCrc32) {
    return crc_by_warp<kCrc32Polynomial, kCopy>(columns, rest, *tables, shared.row, lane);
  } else {
    uint2 sums;
    const auto of_warp = [&](const auto& column) {
      sums.x = __reduce_add_sync(0xFFFFFFFF, reduce(kKind, column.first()));
      sums.y = __reduce_add_sync(0xFFFFFFFF, reduce(kKind, column.second(lane)));
    };
    if constexpr (kKind == Checksum::kAdler32) {
      AdlerColumn column;
      add_rows<kCopy>(columns, column, lane);
      of_warp(column);
    } else {
      FletcherColumn column{(columns.body & 1) != 0};
      add_rows<kCopy>(columns, column, lane);
      of_warp(column);
    }
    const auto units = [](std::uint32_t count) { return kKind == Checksum::kAdler32 ? count : (count + 1) / 2; };
    std::uint64_t first = sums.x, second = sums.y + first * (units(bytes) - units(columns.body));
    for (std::uint32_t i = 0; i < left; ++i) {
      const std::uint32_t place = columns.body + i, byte = rest >> (8 * i) & 0xFF;
      const std::uint32_t value = kKind == Checksum::kFletcher32 && place % 2 == 0 ? byte << 8 : byte;
      first += value;
      second += std::uint64_t{value} * (units(bytes) - (kKind == Checksum::kAdler32 ? place : place / 2));
    }
    return {reduce(kKind, first), reduce(kKind, second)};
  }
}

// Sums of a part, seen from `after` bytes behind its end: such sums of a stream's parts add up to the stream's.
// Fletcher requires that the part begins at an even byte of the stream.
template <Checksum kKind>
__device__ inline uint2 move_to_end(const CrcTables* tables, uint2 part, std::uint64_t after) {
  if constexpr (kKind == Checksum::kCrc32c || kKind == Checksum::kCrc32) {
    return {multiply(part.x, power_of(*tables, after), tables->polynomial), 0};
  } else {
    const std::uint64_t following = kKind == Checksum::kFletcher32 ? (after + 1) / 2 : after;
    const std::uint64_t moved = std::uint64_t{part.x} * reduce(kKind, following);
    return {part.x, reduce(kKind, std::uint64_t{part.y} + reduce(kKind, moved))};
  }
}

// The sum of move_to_end() of two parts.
template <Checksum kKind>
__device__ inline uint2 join(uint2 a, uint2 b) {
  if constexpr (kKind == Checksum::kCrc32c || kKind == Checksum::kCrc32) return {a.x ^ b.x, 0};
  return {reduce(kKind, std::uint64_t{a.x} + b.x), reduce(kKind, std::uint64_t{a.y} + b.y)};
}

// The join of all lanes' `own`, for all of them.
template <Checksum kKind>
__device__ inline uint2 join_warp(uint2 own) {
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    uint2 other;
    other.x = __shfl_xor_sync(0xFFFFFFFF, own.x, distance);
    other.y = __shfl_xor_sync(0xFFFFFFFF, own.y, distance);
    own = join<kKind>(own, other);
  }
  return own;
}
// The join of all warps' `own`, for thread 0. By a thread block; `own` is the same for all lanes.
template <Checksum kKind>
__device__ inline uint2 join_block(uint2 own, ChecksumShared& shared) {
  const unsigned t = threadIdx.x;
  __syncthreads();  // earlier values have been read
  if (t % 32 == 0) shared.warps[t / 32] = own;
  __syncthreads();
  for (unsigned w = 1; t == 0 && w < kChecksumWarps; ++w) own = join<kKind>(own, shared.warps[w]);
  return own;
}

// sum_by_warp() by a thread block, for thread 0: each warp takes a part. For when there are too few segments to give
// every warp one.
template <Checksum kKind, bool kCopy>
__device__ inline uint2 sum_by_block(const CrcTables* tables, ChecksumShared& shared, const unsigned char* src,
                                     std::uint32_t bytes, unsigned char* to) {
  static_assert(kKind != Checksum::kFletcher32, "parts may begin at odd bytes");
  const std::uint32_t rows = (bytes + kChecksumRowBytes - 1) / kChecksumRowBytes;
  const std::uint32_t part = (rows + kChecksumWarps - 1) / kChecksumWarps * kChecksumRowBytes;
  // Parts lie flush with the end, so that few bits of the number of bytes behind each are set.
  const std::uint32_t after = (kChecksumWarps - 1 - threadIdx.x / 32) * part;
  uint2 own{0, 0};
  if (after < bytes) {
    const std::uint32_t end = bytes - after, here = end < part ? end : part, begin = end - here;
    own = sum_by_warp<kKind, kCopy>(tables, shared, src + begin, here, kCopy ? to + begin : nullptr);
    own = move_to_end<kKind>(tables, own, after);
  }
  return join_block<kKind>(own, shared);
}

}  // namespace checksum

}  // namespace headrace::codec::gpu

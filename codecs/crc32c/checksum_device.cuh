// Checksums of whole streams on the GPU: CRC-32C, CRC-32, Adler-32 and Fletcher-32, verified while the bytes are
// copied.
//
// Included by checksum_stage.cu, and by tests that run it on the CPU. A thread block takes a segment of a stream. Its
// threads read adjacent words, row by row, and each keeps the sums of its own column. All four checksums are sums of
// independent contributions of each byte, so columns are combined into segments and segments into streams afterwards: a
// CRC by multiplication with a power of x (polynomials over GF(2) modulo the CRC's, bits reflected), the others by
// counting the bytes that follow.
//
// A CRC register is advanced with tables for five of its bits each: 32 words, one in each bank of shared memory, so
// lookups have no bank conflicts.
#pragma once

#include <cstdint>

#include "device/gpu_outcome.h"
#include "device/gpu_stage.h"

#if defined(__CUDACC__) || defined(__clang__)
#define HEADRACE_CHECKSUM_UNROLL _Pragma("unroll")
#else
#define HEADRACE_CHECKSUM_UNROLL
#endif

namespace headrace::codec::gpu {

enum class Checksum : std::uint32_t { kCrc32c, kCrc32, kAdler32, kFletcher32 };

constexpr unsigned kChecksumThreads = 256;
constexpr unsigned kChecksumRowBytes = 4 * kChecksumThreads, kChecksumWarps = kChecksumThreads / 32;
constexpr std::uint64_t kChecksumSegmentBytes = 64 * kChecksumRowBytes;  // even, for Fletcher's words
constexpr std::uint64_t kChecksumWordBytes = 4;

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

// Tables that advance a register by a number of bytes: the contribution of each part of it.
using CrcAdvance = std::uint32_t[kCrcParts][1u << kCrcPartBits];

struct CrcTables {
  std::uint32_t polynomial = 0;
  CrcAdvance row = {};            // by a row
  CrcAdvance across = {};         // by a warp's columns
  std::uint32_t column[32] = {};  // x^32 and all columns from a lane's to the end of its warp's
  std::uint32_t power[40] = {};   // x^(8 * 2^k)
};

constexpr void make_crc_advance(CrcAdvance& out, std::uint32_t power, std::uint32_t polynomial) {
  for (unsigned k = 0; k < kCrcParts; ++k) {
    // First the single bits, then all sums of them.
    for (unsigned part = 1; part < 1u << kCrcPartBits; ++part) {
      const unsigned low = part & (0u - part);
      if (part == low) {
        const std::uint64_t bits = std::uint64_t{part} << (kCrcPartBits * k);  // the last part has fewer bits
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
  static_assert(kChecksumRowBytes == 1u << 10 && kChecksumRowBytes / kChecksumWarps == 1u << 7);
  make_crc_advance(out.row, out.power[10], polynomial);
  make_crc_advance(out.across, out.power[7], polynomial);
  std::uint32_t column = out.power[2];
  for (unsigned lane = 32; lane-- > 0;) {
    out.column[lane] = column;
    column = multiply(column, out.power[2], polynomial);
  }
  return out;
}

struct ChecksumJob {
  Checksum kind = Checksum::kCrc32c;
  bool at_start = false;
  bool exact = true;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t chunks = 0;
  std::uint32_t segments = 1;  // of the largest stream
  device::gpu::Chunk* list = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
  uint2* partials = nullptr;  // [chunk][segment]
  const CrcTables* tables = nullptr;
};

struct ChecksumShared {
  CrcAdvance row, across;                                       // copies of the tables
  std::uint32_t states[kChecksumThreads];                       // of columns
  std::uint32_t first[kChecksumWarps], second[kChecksumWarps];  // sums of warps
};

namespace checksum {

constexpr std::uint32_t kAdlerModulus = 65521, kFletcherModulus = 65535;

// Reduces modulo 65535 to 1 .. 65535; only zero itself becomes 0.
__device__ inline std::uint32_t fletcher_fold(std::uint64_t sum) {
  return sum == 0 ? 0 : static_cast<std::uint32_t>((sum - 1) % kFletcherModulus + 1);
}
__device__ inline std::uint32_t reduce(Checksum kind, std::uint64_t sum) {
  return kind == Checksum::kFletcher32 ? fletcher_fold(sum) : static_cast<std::uint32_t>(sum % kAdlerModulus);
}

struct Payload {
  const unsigned char* data;
  std::uint64_t bytes;
  bool good;
  device::DecodeReason reason;
};

__device__ inline Payload payload_of(const ChecksumJob& job, const device::gpu::Chunk& chunk) {
  Payload out{chunk.src, 0, false, device::DecodeReason::kTruncated};
  if (chunk.src_bytes < kChecksumWordBytes) return out;
  out.bytes = chunk.src_bytes - kChecksumWordBytes;
  if (job.at_start) out.data += kChecksumWordBytes;
  out.good = job.exact ? out.bytes == job.capacity_bytes : out.bytes <= job.capacity_bytes;
  out.reason = device::DecodeReason::kWrongSize;
  return out;
}

// x^(8 * bytes)
__device__ inline std::uint32_t power_of(const CrcTables& tables, std::uint64_t bytes) {
  std::uint32_t product = std::uint32_t{1} << 31;
  for (unsigned k = 0; k < 40; ++k) {
    if ((bytes >> k & 1) != 0) product = multiply(product, tables.power[k], tables.polynomial);
  }
  return product;
}

// By a thread block, before it sums CRCs.
__device__ inline void load_tables(const CrcTables& tables, ChecksumShared& shared) {
  constexpr unsigned kPart = 1u << kCrcPartBits;
  for (unsigned i = threadIdx.x; i < kCrcParts * kPart; i += kChecksumThreads) {
    shared.row[i / kPart][i % kPart] = tables.row[i / kPart][i % kPart];
    shared.across[i / kPart][i % kPart] = tables.across[i / kPart][i % kPart];
  }
  __syncthreads();
}

__device__ inline std::uint32_t advance(const CrcAdvance& table, std::uint32_t state, std::uint32_t more) {
  constexpr std::uint32_t kMask = (1u << kCrcPartBits) - 1;
  HEADRACE_CHECKSUM_UNROLL for (unsigned k = 0; k < kCrcParts; ++k) {
    more ^= table[k][state >> (kCrcPartBits * k) & kMask];
  }
  return more;
}

// ---- columns: a thread's sums over its words, row by row ----

struct CrcColumn {
  const CrcAdvance& row;
  std::uint32_t state = 0;

  __device__ void add(std::uint32_t word) { state = advance(row, state, word); }
};

// A byte's weight is one plus the number of bytes that follow: rows count by adding up running sums, minus the byte's
// position in the row.
struct AdlerColumn {
  std::uint32_t bytes = 0, sums = 0, places = 0;

  __device__ void add(std::uint32_t word) {
    bytes = __dp4a(word, 0x01010101u, bytes);
    sums += bytes;
    places = __dp4a(word, 0x03020100u, places);
  }
  __device__ std::uint32_t first() const { return bytes; }
  __device__ std::uint64_t second(unsigned t) const {
    return std::uint64_t{sums} * kChecksumRowBytes - std::uint64_t{bytes} * (4 * t) - places;
  }
};

// The same for 16-bit values, high byte first. `odd`: words begin in the middle of a value.
struct FletcherColumn {
  bool odd;
  std::uint32_t values = 0, sums = 0;
  std::int32_t places = 0;

  __device__ void add(std::uint32_t word) {
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
  __device__ std::uint64_t second(unsigned t) const {
    return std::uint64_t{sums} * (kChecksumRowBytes / 2) - std::uint64_t{values} * (2 * t) -
           static_cast<std::uint64_t>(std::int64_t{places});
  }
};

// Rows that are loaded concurrently.
constexpr std::uint32_t kRowsAtOnce = 8;

// Divides bytes into words. Columns end with the last word, so the first row may begin before the bytes; up to three
// bytes remain at the end. Words are aligned to the destination when copying, otherwise to the source. Loads are
// aligned words, or single bytes where such a word is not entirely inside. `padded`: an aligned word may be read if it
// contains any of the bytes.
struct Columns {
  const unsigned char* src;
  unsigned char* to;
  std::uint32_t bytes, body;    // `body`: those in words
  std::uint32_t rows, missing;  // bytes before the first
  // Bytes before the first in its aligned word; the first and last aligned word, with zeros outside.
  std::uint32_t lead, first, last;
  bool padded;

  __device__ Columns(const unsigned char* from, std::uint32_t count, unsigned char* copy, const unsigned char* aligned,
                     bool may_read)
      : src(from), to(copy), bytes(count), padded(may_read) {
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
  // By number, counted from the word that contains the first byte.
  __device__ std::uint32_t aligned_word(std::int32_t number) const {
    const std::int32_t place = 4 * number - static_cast<std::int32_t>(lead);
    if (place >= 0 && static_cast<std::uint32_t>(place) + 4 <= bytes) {
      return *reinterpret_cast<const std::uint32_t*>(src + place);
    }
    return number == 0 ? first : number == static_cast<std::int32_t>((lead + bytes) / 4) ? last : 0;
  }
  // A word of four bytes, some of which may be outside the bytes.
  template <bool kAligned>
  __device__ std::uint32_t word(std::int32_t at) const {
    const std::int32_t place = at + static_cast<std::int32_t>(lead);
    const std::uint32_t low = aligned_word(place >> 2);
    return kAligned ? low : __funnelshift_r(low, aligned_word((place >> 2) + 1), 8 * (place & 3));
  }
};

template <bool kCopy, class Column>
__device__ inline void add_rows(const Columns& columns, Column& column) {
  const std::int32_t first_at = static_cast<std::int32_t>(4 * threadIdx.x) - static_cast<std::int32_t>(columns.missing);
  const auto at = [first_at](std::uint32_t row) {
    return first_at + static_cast<std::int32_t>(row * kChecksumRowBytes);
  };
  // Offset from an aligned word; the same for all rows.
  const unsigned shift = kCopy ? static_cast<std::uint32_t>(first_at + static_cast<std::int32_t>(columns.lead)) & 3 : 0;
  const bool beside = shift != 0 && !columns.padded;
  const auto add_slowly = [&](std::uint32_t row) {
    const std::uint32_t word = columns.word<!kCopy>(at(row));
    if (kCopy && at(row) >= 0) *reinterpret_cast<std::uint32_t*>(columns.to + at(row)) = word;
    column.add(word);
  };
  std::uint32_t row = 0;
  for (; row < columns.rows && row * kChecksumRowBytes < columns.missing + (beside ? shift : 0); ++row) {
    add_slowly(row);
  }
  // The aligned word after the last row's last word may contain none of the bytes.
  const std::uint32_t end = beside && row < columns.rows ? columns.rows - 1 : columns.rows;
  for (; row < end; row += kRowsAtOnce) {
    const std::uint32_t here = end - row < kRowsAtOnce ? end - row : kRowsAtOnce;
    const auto* const from = reinterpret_cast<const std::uint32_t*>(columns.src + at(row) - static_cast<int>(shift));
    std::uint32_t words[kRowsAtOnce], behind[kRowsAtOnce];
    HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kRowsAtOnce; ++k) {
      if (k < here) words[k] = from[k * kChecksumThreads];
    }
    if (shift != 0) {
      HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kRowsAtOnce; ++k) {
        if (k < here) behind[k] = from[k * kChecksumThreads + 1];
      }
      HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kRowsAtOnce; ++k) {
        if (k < here) words[k] = __funnelshift_r(words[k], behind[k], 8 * shift);
      }
    }
    if constexpr (kCopy) {
      auto* const to = reinterpret_cast<std::uint32_t*>(columns.to + at(row));
      HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kRowsAtOnce; ++k) {
        if (k < here) to[k * kChecksumThreads] = words[k];
      }
    }
    HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kRowsAtOnce; ++k) {
      if (k < here) column.add(words[k]);
    }
  }
  for (row = end; row < columns.rows; ++row) add_slowly(row);
}

// Copies the few bytes before the first stored word and after the last.
__device__ inline void copy_ends(const Columns& columns) {
  const unsigned t = threadIdx.x;
  const std::uint32_t before = columns.body % 4, left = columns.bytes - columns.body;
  if (t < before) columns.to[t] = columns.src[t];
  if (t < left) columns.to[columns.body + t] = columns.src[columns.body + t];
}

// The total over a thread block's threads, returned to thread 0.
__device__ inline uint2 sums_of_block(Checksum kind, std::uint64_t first, std::uint64_t second,
                                      ChecksumShared& shared) {
  const unsigned t = threadIdx.x;
  const std::uint32_t firsts = __reduce_add_sync(0xFFFFFFFF, reduce(kind, first)),
                      seconds = __reduce_add_sync(0xFFFFFFFF, reduce(kind, second));
  __syncthreads();  // all threads have read the previous sums
  if (t % 32 == 0) {
    shared.first[t / 32] = firsts;
    shared.second[t / 32] = seconds;
  }
  __syncthreads();
  uint2 out{0, 0};
  for (unsigned w = 0; t == 0 && w < kChecksumWarps; ++w) {
    out.x += shared.first[w];
    out.y += shared.second[w];
  }
  return out;
}

__device__ inline std::uint32_t xor_of_warp(std::uint32_t value) {
  for (unsigned distance = 16; distance > 0; distance /= 2) value ^= __shfl_xor_sync(0xFFFFFFFF, value, distance);
  return value;
}

// Sums at most kChecksumSegmentBytes * 2 bytes, and copies them to `to` if kCopy. By a thread block; thread 0 gets the
// result. `padded`: an aligned word may be read if it contains any of the bytes. REQUIRES: for a CRC, its tables have
// been loaded.
template <bool kCopy>
__device__ inline void sum_bytes(Checksum kind, const CrcTables* tables, const unsigned char* src, std::uint32_t bytes,
                                 unsigned char* to, ChecksumShared& shared, uint2& partial, bool padded = false) {
  const unsigned t = threadIdx.x;
  const Columns columns(src, bytes, to, kCopy ? to : src, padded);
  if constexpr (kCopy) copy_ends(columns);
  const std::uint32_t left = columns.bytes - columns.body;  // up to three bytes, which thread 0 adds
  if (kind == Checksum::kCrc32c || kind == Checksum::kCrc32) {
    CrcColumn column{shared.row};
    add_rows<kCopy>(columns, column);
    __syncthreads();  // all threads have read the previous states
    shared.states[t] = column.state;
    __syncthreads();
    if (t >= 32) return;
    std::uint32_t state = 0;
    for (unsigned w = 0; w < kChecksumWarps; ++w) state = advance(shared.across, state, shared.states[32 * w + t]);
    state = xor_of_warp(multiply(state, tables->column[t], tables->polynomial));
    if (t != 0) return;
    const std::uint32_t rest = left != 0 ? columns.word<false>(static_cast<std::int32_t>(columns.body)) : 0;
    for (std::uint32_t i = 0; i < left; ++i) {
      state ^= rest >> (8 * i) & 0xFF;
      for (unsigned bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? tables->polynomial : 0);
    }
    partial = {state, 0};
    return;
  }
  uint2 sums;
  if (kind == Checksum::kAdler32) {
    AdlerColumn column;
    add_rows<kCopy>(columns, column);
    sums = sums_of_block(kind, column.first(), column.second(t), shared);
  } else {
    FletcherColumn column{(columns.body & 1) != 0};
    add_rows<kCopy>(columns, column);
    sums = sums_of_block(kind, column.first(), column.second(t), shared);
  }
  if (t != 0) return;
  const std::uint32_t rest = left != 0 ? columns.word<false>(static_cast<std::int32_t>(columns.body)) : 0;
  const auto units = [kind](std::uint32_t count) { return kind == Checksum::kAdler32 ? count : (count + 1) / 2; };
  std::uint64_t first = sums.x, second = sums.y + first * (units(bytes) - units(columns.body));
  for (std::uint32_t i = 0; i < left; ++i) {
    const std::uint32_t place = columns.body + i, byte = rest >> (8 * i) & 0xFF;
    const std::uint32_t value = kind == Checksum::kFletcher32 && place % 2 == 0 ? byte << 8 : byte;
    first += value;
    second += std::uint64_t{value} * (units(bytes) - (kind == Checksum::kAdler32 ? place : place / 2));
  }
  partial = {reduce(kind, first), reduce(kind, second)};
}

// Sums one segment of a stream.
__device__ inline void segment(const ChecksumJob& job, const Payload& payload, unsigned char* dst, std::uint64_t begin,
                               ChecksumShared& shared, uint2& partial) {
  const std::uint64_t left = payload.bytes - begin;
  const auto bytes = static_cast<std::uint32_t>(left < kChecksumSegmentBytes ? left : kChecksumSegmentBytes);
  sum_bytes<true>(job.kind, job.tables, payload.data + begin, bytes, dst + begin, shared, partial);
}

}  // namespace checksum

// REQUIRES: thread blocks have kChecksumThreads.
__device__ inline void checksum_segments_body(const ChecksumJob& job, ChecksumShared& shared) {
  if (job.tables != nullptr) checksum::load_tables(*job.tables, shared);
  const std::uint64_t total = static_cast<std::uint64_t>(job.chunks) * job.segments;
  for (std::uint64_t item = blockIdx.x; item < total; item += gridDim.x) {
    const auto chunk = static_cast<std::uint32_t>(item / job.segments);
    const std::uint64_t begin = item % job.segments * kChecksumSegmentBytes;
    // This launch changes no outcome and no chunk, so all threads agree.
    if (job.outcomes[chunk] != device::DecodeOutcome::kOk) continue;
    const checksum::Payload payload = checksum::payload_of(job, job.list[chunk]);
    if (!payload.good || begin >= payload.bytes) continue;
    checksum::segment(job, payload, job.list[chunk].dst, begin, shared, job.partials[item]);
  }
}

// One block per chunk: combines its segments and compares.
__device__ inline void checksum_verdict_body(const ChecksumJob& job, ChecksumShared& shared) {
  const std::uint32_t chunk = blockIdx.x;
  const unsigned t = threadIdx.x;
  // The same for all threads: only the end of this block changes it.
  if (job.outcomes[chunk] != device::DecodeOutcome::kOk) return;
  const bool crc = job.kind == Checksum::kCrc32c || job.kind == Checksum::kCrc32;
  device::gpu::Chunk& item = job.list[chunk];
  const checksum::Payload payload = checksum::payload_of(job, item);
  std::uint64_t first = 0, second = 0;
  if (payload.good) {
    const std::uint64_t segments = (payload.bytes + kChecksumSegmentBytes - 1) / kChecksumSegmentBytes;
    for (std::uint64_t s = t; s < segments; s += kChecksumThreads) {
      const uint2 partial = job.partials[static_cast<std::uint64_t>(chunk) * job.segments + s];
      const std::uint64_t end = (s + 1) * kChecksumSegmentBytes;
      const std::uint64_t after = end < payload.bytes ? payload.bytes - end : 0;
      if (crc) {
        first ^= multiply(partial.x, checksum::power_of(*job.tables, after), job.tables->polynomial);
      } else {
        const std::uint64_t following = job.kind == Checksum::kFletcher32 ? (after + 1) / 2 : after;
        first += partial.x;
        second += partial.y + checksum::reduce(job.kind, static_cast<std::uint64_t>(partial.x) *
                                                             checksum::reduce(job.kind, following));
      }
    }
  }
  if (crc) {
    shared.states[t] = static_cast<std::uint32_t>(first);
    __syncthreads();
    for (unsigned w = 1; t < 32 && w < kChecksumWarps; ++w) first ^= shared.states[32 * w + t];
    if (t < 32) first = checksum::xor_of_warp(static_cast<std::uint32_t>(first));
  } else {
    const uint2 sums = checksum::sums_of_block(job.kind, first, second, shared);
    first = sums.x;
    second = sums.y;
  }
  if (t != 0) return;
  device::DecodeReason reason = payload.reason;
  std::uint64_t position = 0;
  if (payload.good) {
    std::uint32_t computed;
    if (crc) {
      const std::uint32_t start =
          multiply(0xFFFFFFFF, checksum::power_of(*job.tables, payload.bytes), job.tables->polynomial);
      computed = ~(static_cast<std::uint32_t>(first) ^ start);
    } else if (job.kind == Checksum::kAdler32) {
      const std::uint64_t low = (first + 1) % checksum::kAdlerModulus;
      const std::uint64_t high = (second + payload.bytes % checksum::kAdlerModulus) % checksum::kAdlerModulus;
      computed = static_cast<std::uint32_t>(high << 16 | low);
    } else {
      computed = checksum::fletcher_fold(second) << 16 | checksum::fletcher_fold(first);
    }
    position = job.at_start ? 0 : payload.bytes;
    std::uint32_t stored = 0;
    for (unsigned i = 0; i < 4; ++i) stored |= static_cast<std::uint32_t>(item.src[position + i]) << (8 * i);
    reason = stored == computed ? device::DecodeReason::kNone : device::DecodeReason::kChecksum;
  }
  if (reason == device::DecodeReason::kNone) {
    item.dst_bytes = payload.bytes;
  } else {
    job.outcomes[chunk] = device::gpu::pack_outcome(job.stage, position, reason);
  }
}

}  // namespace headrace::codec::gpu

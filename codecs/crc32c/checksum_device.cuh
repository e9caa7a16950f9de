// Checksums of whole streams on the GPU: CRC-32C, CRC-32, Adler-32 and Fletcher-32, checked while the bytes are copied.
//
// Included by checksum_stage.cu, and by tests that run it on the CPU. A thread block takes a segment of a stream: its
// threads read neighbouring words, row by row, and each keeps the sums of its own column. All four checksums are sums
// of what each byte gives by itself, so columns are joined into segments and segments into streams afterwards: a CRC by
// multiplying with a power of x (polynomials over GF(2) modulo the CRC's, bits reflected), the others by counting what
// follows.
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
constexpr unsigned kChecksumRowBytes = 4 * kChecksumThreads;
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

struct CrcTables {
  std::uint32_t polynomial = 0;
  std::uint32_t advance[4][256] = {};           // byte k of a register, moved on by a row
  std::uint32_t column[kChecksumThreads] = {};  // x^32 and all columns from this one to the end of the row
  std::uint32_t power[40] = {};                 // x^(8 * 2^k)
};

constexpr CrcTables make_crc_tables(std::uint32_t polynomial) {
  CrcTables out;
  out.polynomial = polynomial;
  std::uint32_t power = std::uint32_t{1} << 31;
  for (int i = 0; i < 8; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? polynomial : 0);
  for (std::uint32_t& entry : out.power) {
    entry = power;
    power = multiply(power, power, polynomial);
  }
  const std::uint32_t word = out.power[2];
  std::uint32_t column = word;
  for (unsigned t = kChecksumThreads; t-- > 0;) {
    out.column[t] = column;
    column = multiply(column, word, polynomial);
  }
  const std::uint32_t row = out.column[0];
  for (unsigned k = 0; k < 4; ++k) {
    // Bit by bit, then all sums of them.
    for (unsigned bit = 0; bit < 8; ++bit) {
      out.advance[k][1u << bit] = multiply(std::uint32_t{1} << (8 * k + bit), row, polynomial);
    }
    for (unsigned byte = 1; byte < 256; ++byte) {
      const unsigned low = byte & (0u - byte);
      out.advance[k][byte] = out.advance[k][low] ^ (byte == low ? 0 : out.advance[k][byte ^ low]);
    }
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
  std::uint32_t advance[4][256];
  std::uint64_t first[kChecksumThreads], second[kChecksumThreads];
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

// Sums of at most kChecksumSegmentBytes * 2 bytes, which are copied to `to` if kCopy: columns of words that end with
// the bytes, so that the first row may begin before them. By a thread block.
template <bool kCopy>
__device__ inline void sum_bytes(Checksum kind, const CrcTables* tables, const unsigned char* src, std::uint32_t bytes,
                                 unsigned char* to, ChecksumShared& shared, uint2& partial) {
  const unsigned t = threadIdx.x;
  const bool crc = kind == Checksum::kCrc32c || kind == Checksum::kCrc32;
  const std::uint32_t rows = (bytes + kChecksumRowBytes - 1) / kChecksumRowBytes;
  const auto missing = static_cast<std::int32_t>(rows * kChecksumRowBytes - bytes);  // before the first word
  const auto misaligned = [&](const unsigned char* at) {
    return ((reinterpret_cast<std::uintptr_t>(at) - static_cast<std::uintptr_t>(missing)) & 3) != 0;
  };
  const bool load_words = !misaligned(src), store_words = kCopy && !misaligned(to);
  std::uint32_t state = 0;
  std::uint64_t first = 0, second = 0;
  const std::uint32_t words16 = (bytes + 1) / 2;
  const auto add = [&](std::uint32_t word, std::int32_t at) {
    if (crc) {
      state = shared.advance[0][state & 0xFF] ^ shared.advance[1][state >> 8 & 0xFF] ^
              shared.advance[2][state >> 16 & 0xFF] ^ shared.advance[3][state >> 24] ^ word;
    } else if (at > -4) {
      for (int i = 0; i < 4; ++i) {
        const std::int32_t position = at + i;
        if (position < 0) continue;
        const std::uint32_t byte = word >> (8 * i) & 0xFF;
        if (kind == Checksum::kAdler32) {
          first += byte;
          second += static_cast<std::uint64_t>(byte) * (bytes - static_cast<std::uint32_t>(position));
        } else {
          const std::uint32_t value = (position & 1) == 0 ? byte << 8 : byte;
          first += value;
          second += static_cast<std::uint64_t>(value) * (words16 - static_cast<std::uint32_t>(position) / 2);
        }
      }
    }
  };
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::int32_t at = static_cast<std::int32_t>(row * kChecksumRowBytes + 4 * t) - missing;
    if constexpr (!kCopy) {
      // Rows that are loaded side by side, by aligned words, which are all inside where another row follows.
      constexpr std::uint32_t kAtOnce = 8;
      if (row != 0 && rows - row > kAtOnce) {
        const auto shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(src + at) & 3);
        const auto* const from = reinterpret_cast<const std::uint32_t*>(src + at - shift);
        std::uint32_t words[kAtOnce];
        HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kAtOnce; ++k) words[k] = from[k * kChecksumThreads];
        if (shift != 0) {
          std::uint32_t behind[kAtOnce];
          HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kAtOnce; ++k) {
            behind[k] = from[k * kChecksumThreads + 1];
          }
          HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kAtOnce; ++k) {
            words[k] = __funnelshift_r(words[k], behind[k], 8 * shift);
          }
        }
        HEADRACE_CHECKSUM_UNROLL for (std::uint32_t k = 0; k < kAtOnce; ++k) {
          add(words[k], at + static_cast<std::int32_t>(k * kChecksumRowBytes));
        }
        row += kAtOnce - 1;
        continue;
      }
    }
    std::uint32_t word = 0;
    if (at >= 0) {
      if (load_words) {
        word = *reinterpret_cast<const std::uint32_t*>(src + at);
      } else {
        for (int i = 0; i < 4; ++i) word |= static_cast<std::uint32_t>(src[at + i]) << (8 * i);
      }
      if (store_words) {
        *reinterpret_cast<std::uint32_t*>(to + at) = word;
      } else if (kCopy) {
        for (int i = 0; i < 4; ++i) to[at + i] = static_cast<unsigned char>(word >> (8 * i));
      }
    } else if (at > -4) {
      for (int i = -at; i < 4; ++i) {
        word |= static_cast<std::uint32_t>(src[at + i]) << (8 * i);
        if (kCopy) to[at + i] = src[at + i];
      }
    }
    add(word, at);
  }
  shared.first[t] = crc ? multiply(state, tables->column[t], tables->polynomial) : first;
  shared.second[t] = second;
  __syncthreads();
  for (unsigned half = kChecksumThreads / 2; half > 0; half /= 2) {
    if (t < half) {
      shared.first[t] = crc ? shared.first[t] ^ shared.first[t + half] : shared.first[t] + shared.first[t + half];
      shared.second[t] += shared.second[t + half];
    }
    __syncthreads();
  }
  if (t == 0) {
    partial.x = crc ? static_cast<unsigned>(shared.first[0]) : reduce(kind, shared.first[0]);
    partial.y = crc ? 0 : reduce(kind, shared.second[0]);
  }
  __syncthreads();
}

// One segment of a stream.
__device__ inline void segment(const ChecksumJob& job, const Payload& payload, unsigned char* dst, std::uint64_t begin,
                               ChecksumShared& shared, uint2& partial) {
  const std::uint64_t left = payload.bytes - begin;
  const auto bytes = static_cast<std::uint32_t>(left < kChecksumSegmentBytes ? left : kChecksumSegmentBytes);
  sum_bytes<true>(job.kind, job.tables, payload.data + begin, bytes, dst + begin, shared, partial);
}

}  // namespace checksum

// REQUIRES: blocks of kChecksumThreads.
__device__ inline void checksum_segments_body(const ChecksumJob& job, ChecksumShared& shared) {
  const unsigned t = threadIdx.x;
  if (job.tables != nullptr) {
    for (unsigned k = 0; k < 4; ++k) shared.advance[k][t] = job.tables->advance[k][t];
  }
  __syncthreads();
  const std::uint64_t total = static_cast<std::uint64_t>(job.chunks) * job.segments;
  for (std::uint64_t item = blockIdx.x; item < total; item += gridDim.x) {
    const auto chunk = static_cast<std::uint32_t>(item / job.segments);
    const std::uint64_t begin = item % job.segments * kChecksumSegmentBytes;
    // Nothing in this launch changes an outcome or a chunk, so all threads agree.
    if (job.outcomes[chunk] != device::DecodeOutcome::kOk) continue;
    const checksum::Payload payload = checksum::payload_of(job, job.list[chunk]);
    if (!payload.good || begin >= payload.bytes) continue;
    checksum::segment(job, payload, job.list[chunk].dst, begin, shared, job.partials[item]);
  }
}

// A block a chunk: joins its segments and compares.
__device__ inline void checksum_verdict_body(const ChecksumJob& job, ChecksumShared& shared) {
  const std::uint32_t chunk = blockIdx.x;
  const unsigned t = threadIdx.x;
  if (job.outcomes[chunk] != device::DecodeOutcome::kOk) return;  // the same for the block: only its end changes it
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
  shared.first[t] = first;
  shared.second[t] = second;
  __syncthreads();
  for (unsigned half = kChecksumThreads / 2; half > 0; half /= 2) {
    if (t < half) {
      shared.first[t] = crc ? shared.first[t] ^ shared.first[t + half] : shared.first[t] + shared.first[t + half];
      shared.second[t] += shared.second[t + half];
    }
    __syncthreads();
  }
  if (t != 0) return;
  device::DecodeReason reason = payload.reason;
  std::uint64_t position = 0;
  if (payload.good) {
    std::uint32_t computed;
    if (crc) {
      const std::uint32_t start =
          multiply(0xFFFFFFFF, checksum::power_of(*job.tables, payload.bytes), job.tables->polynomial);
      computed = ~(static_cast<std::uint32_t>(shared.first[0]) ^ start);
    } else if (job.kind == Checksum::kAdler32) {
      const std::uint64_t low = (shared.first[0] + 1) % checksum::kAdlerModulus;
      const std::uint64_t high = (shared.second[0] + payload.bytes % checksum::kAdlerModulus) % checksum::kAdlerModulus;
      computed = static_cast<std::uint32_t>(high << 16 | low);
    } else {
      computed = checksum::fletcher_fold(shared.second[0]) << 16 | checksum::fletcher_fold(shared.first[0]);
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

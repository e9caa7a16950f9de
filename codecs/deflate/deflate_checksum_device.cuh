// Last steps of the DEFLATE decoder: verify the checksums and sizes at the end of members, CRC-32 or Adler-32. Device
// code without a CUDA header.
//
// A thread block computes the sums of a piece, and writes its output if its stream consists of stored blocks only. CRCs
// of pieces are combined as if they extended to the stream's end rather than their member's, since the number of bytes
// to the stream's end is known. This multiplies a CRC by a power of x, so the expected CRC is multiplied by the same
// power.
#pragma once

#include "codecs/crc32c/checksum_device.cuh"
#include "deflate_job_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr std::uint32_t kAdlerModulus = checksum::kAdlerModulus;

__device__ inline std::uint32_t u32_at(const Byte* at) {
  return at[0] | static_cast<std::uint32_t>(at[1]) << 8 | static_cast<std::uint32_t>(at[2]) << 16 |
         static_cast<std::uint32_t>(at[3]) << 24;
}

// Of these three launches, only the last changes outcomes, so all threads agree.

// REQUIRES: all rounds are done; thread blocks have kChecksumThreads.
__device__ inline void sums_body(const Job& job, const CrcTables& tables, ChecksumShared& shared) {
  checksum::load_tables(tables, shared);
  const std::uint32_t count = job.totals->pieces;
  for (std::uint32_t x = blockIdx.x; x < count; x += gridDim.x) {
    const OutputRun& piece = job.pieces[x];
    const DeflateStream& stream = job.streams[piece.stream];
    if (piece.bytes == 0 || !fine(job, stream.chunk)) continue;
    uint2 partial{0, 0};
    const Checksum kind = stream.kind == DeflateKind::kGzip ? Checksum::kCrc32 : Checksum::kAdler32;
    Byte* const out = stream.dst + piece.out;
    if (job.states[piece.stream].units == 0) {
      // LEN and NLEN precede it; the next block or the member's trailer follows.
      checksum::sum_bytes<true>(kind, &tables, stream.src + piece.at, piece.bytes, out, shared, partial, true);
    } else {
      checksum::sum_bytes<false>(kind, &tables, out, piece.bytes, nullptr, shared, partial);
    }
    if (threadIdx.x != 0) continue;
    job.sums[x].first = partial.x;
    job.sums[x].second = partial.y;
  }
}

__device__ inline void join_body(const Job& job, const CrcTables& tables) {
  const std::uint32_t count = job.totals->pieces;
  for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x < count; x += gridDim.x * blockDim.x) {
    const OutputRun& piece = job.pieces[x];
    const DeflateStream& stream = job.streams[piece.stream];
    if (piece.bytes == 0 || !fine(job, stream.chunk)) continue;
    const std::uint64_t after = stream.dst_bytes - piece.out - piece.bytes;
    const Sums own = job.sums[x];
    Sums& member = job.sums[piece.member_piece];
    unsigned long long first = own.first, second = own.second;
    if (stream.kind == DeflateKind::kGzip) {
      first = multiply(own.first, checksum::power_of(tables, after), tables.polynomial);
      atomicXor(&member.member_first, first);
      continue;
    }
    second += first * (after % kAdlerModulus) % kAdlerModulus;
    atomicAdd(&member.member_first, first);
    atomicAdd(&member.member_second, second);
  }
}

__device__ inline DecodeReason judge_member(const OutputRun& piece, const DeflateStream& stream, const Sums& sums,
                                            const CrcTables& tables) {
  const std::uint64_t end = std::uint64_t{piece.out} + piece.bytes, bytes = end - piece.member_out;
  const Byte* const trailer = stream.src + piece.trailer_at;
  if (stream.kind == DeflateKind::kGzip) {
    const std::uint32_t start = multiply(kNone, checksum::power_of(tables, bytes), tables.polynomial);
    const std::uint32_t want =
        multiply(~u32_at(trailer) ^ start, checksum::power_of(tables, stream.dst_bytes - end), tables.polynomial);
    if (want != static_cast<std::uint32_t>(sums.member_first)) return DecodeReason::kChecksum;
    return u32_at(trailer + 4) == static_cast<std::uint32_t>(bytes) ? DecodeReason::kNone : DecodeReason::kWrongSize;
  }
  const std::uint64_t low = (sums.member_first + 1) % kAdlerModulus,
                      high = (sums.member_second + bytes) % kAdlerModulus;
  const auto adler = static_cast<std::uint32_t>(high << 16 | low);
  return __byte_perm(u32_at(trailer), 0, 0x0123) == adler ? DecodeReason::kNone : DecodeReason::kChecksum;
}

__device__ inline void verdict_body(const Job& job, const CrcTables& tables) {
  const std::uint32_t count = job.totals->pieces;
  for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x < count; x += gridDim.x * blockDim.x) {
    const OutputRun& piece = job.pieces[x];
    if (piece.trailer_at == kNone) continue;
    const DeflateStream& stream = job.streams[piece.stream];
    if (!fine(job, stream.chunk)) continue;
    const DecodeReason reason = judge_member(piece, stream, job.sums[piece.member_piece], tables);
    if (reason != DecodeReason::kNone) give_up(job, stream.chunk, piece.trailer_at, reason);
  }
}

}  // namespace headrace::codec::gpu::deflate

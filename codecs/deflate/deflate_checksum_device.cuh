// Last steps of the DEFLATE decoder: checksums and sizes that members end with, CRC-32 or Adler-32. Device code without
// a CUDA header.
//
// A warp sums a piece, and writes its output if all blocks of the stream are stored. Pieces are joined as seen from the
// stream's end rather than their member's, because the number of bytes up to there is known: a CRC is multiplied with a
// power of x, and so is the CRC that the member's trailer states.
#pragma once

#include "codecs/crc32c/checksum_sums_device.cuh"
#include "deflate_job_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr std::uint32_t kAdlerModulus = checksum::kAdlerModulus;

__device__ inline std::uint32_t u32_at(const Byte* at) {
  return at[0] | static_cast<std::uint32_t>(at[1]) << 8 | static_cast<std::uint32_t>(at[2]) << 16 |
         static_cast<std::uint32_t>(at[3]) << 24;
}

// Nothing in these three launches but the last changes an outcome, so all threads agree.

// Sums of a piece; writes its output if the stream has only stored blocks. By a warp, or by a thread block for thread
// 0.
template <Checksum kKind, bool kByBlock>
__device__ inline uint2 sum_piece(const Job& job, const CrcTables& tables, ChecksumShared& shared,
                                  const OutputRun& piece, const DeflateStream& stream) {
  Byte* const out = stream.dst + piece.out;
  const bool copy = job.states[piece.stream].units == 0;
  const Byte* const from = stream.src + piece.at;
  if constexpr (kByBlock) {
    return copy ? checksum::sum_by_block<kKind, true>(&tables, shared, from, piece.bytes, out)
                : checksum::sum_by_block<kKind, false>(&tables, shared, out, piece.bytes, nullptr);
  } else {
    return copy ? checksum::sum_by_warp<kKind, true>(&tables, shared, from, piece.bytes, out)
                : checksum::sum_by_warp<kKind, false>(&tables, shared, out, piece.bytes, nullptr);
  }
}

template <bool kByBlock>
__device__ inline void sum_pieces(const Job& job, const CrcTables& tables, ChecksumShared& shared) {
  const std::uint32_t count = job.totals->pieces;
  const std::uint32_t own = kByBlock ? blockIdx.x : blockIdx.x * kChecksumWarps + threadIdx.x / 32;
  const std::uint32_t all = kByBlock ? gridDim.x : gridDim.x * kChecksumWarps;
  const unsigned rank = kByBlock ? threadIdx.x : threadIdx.x % 32;
  for (std::uint32_t x = own; x < count; x += all) {
    const OutputRun& piece = job.pieces[x];
    const DeflateStream& stream = job.streams[piece.stream];
    if (piece.bytes == 0 || !fine(job, stream.chunk)) continue;
    const uint2 sums = stream.kind == DeflateKind::kGzip
                           ? sum_piece<Checksum::kCrc32, kByBlock>(job, tables, shared, piece, stream)
                           : sum_piece<Checksum::kAdler32, kByBlock>(job, tables, shared, piece, stream);
    if (rank != 0) continue;
    job.sums[x].first = sums.x;
    job.sums[x].second = sums.y;
  }
}

// A warp a piece, or a thread block where there are too few pieces for all warps. REQUIRES: all rounds are done; blocks
// of kChecksumThreads.
__device__ inline void sums_body(const Job& job, const CrcTables& tables, ChecksumShared& shared) {
  checksum::load_tables(tables, shared);
  if (job.totals->pieces < gridDim.x * kChecksumWarps) {
    sum_pieces<true>(job, tables, shared);
  } else {
    sum_pieces<false>(job, tables, shared);
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

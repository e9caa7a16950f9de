// Stored blocks of the DEFLATE decoder (RFC 1951, 3.2.4), read one by one or, if an encoder wrote many of one length,
// 32 at a time. Device code without a CUDA header.
#pragma once

#include "deflate_job_device.cuh"

namespace headrace::codec::gpu::deflate {

// Header of a block that begins at a byte boundary: type, LEN and NLEN.
inline constexpr std::uint32_t kStoredHeadBytes = 5;
// After two consecutive blocks of one length, at least this long, more of that length are expected. A failed guess
// costs as much as a block.
inline constexpr std::uint32_t kAlikeBytes = 1024;

struct StoredBlock {
  DecodeReason reason = DecodeReason::kNone;
  std::uint32_t at = 0;  // its first byte of content; on failure, the position of the error
  std::uint32_t bytes = 0;
};

// Reads the block whose first three bits are at bit `begin`.
__device__ inline StoredBlock read_stored(const Input& input, std::uint32_t begin) {
  const std::uint32_t at = (begin + 3 + 7) / 8;
  if (at > input.bytes || input.bytes - at < 4) return {DecodeReason::kTruncated, at};
  const std::uint32_t word = input.bits(at * 8), length = word & 0xFFFF;
  if ((word >> 16) != (~length & 0xFFFF)) return {DecodeReason::kHeader, at};
  if (input.bytes - at - 4 < length) return {DecodeReason::kTruncated, at};
  return {DecodeReason::kNone, at + 4, length};
}

// Number of consecutive stored blocks of `length` bytes from byte `at` on, none of them a member's last; at most 32. By
// a warp.
__device__ inline std::uint32_t count_alike(const Input& input, std::uint32_t at, std::uint32_t length, unsigned lane) {
  const std::uint32_t each = kStoredHeadBytes + length, own = at + lane * each;
  bool alike = own + each <= input.bytes;
  if (alike) {
    const std::uint32_t type = input.bits(own * 8) & 7, lengths = input.bits(own * 8 + 8);
    alike = type == 0 && lengths == (length | (~length & 0xFFFF) << 16);
  }
  const unsigned others = __ballot_sync(kAllLanes, !alike);
  return others == 0 ? 32 : lowest_bit(others);
}

// Stored blocks are skipped in turns: kPassTurns, plus one for each kBytesPerPassTurn skipped; searching costs less
// than turns that skip fewer bytes. A turn takes as long as all thread blocks take to search kBatchBytesPerPassTurn, so
// the limit (Job::max_pass_turns) is kPassTurns plus one for each of those in the batch.
inline constexpr std::uint32_t kPassTurns = 8, kBytesPerPassTurn = 8192, kBatchBytesPerPassTurn = 256 << 10;

// Skips stored blocks from bit `begin` on, in at most `max_turns` turns and up to a member's last block. Returns the
// bit after the last one skipped. By a warp. The result is a hint: runs follow the blocks as they are
// (deflate_trace_device.cuh).
__device__ inline std::uint32_t pass_stored(const Input& input, std::uint32_t begin, std::uint32_t max_turns,
                                            unsigned lane) {
  std::uint32_t at = begin, before = 0;
  for (std::uint32_t turn = 0; turn < max_turns && turn < kPassTurns + (at - begin) / 8 / kBytesPerPassTurn; ++turn) {
    if (input.bytes * 8 - at < 3) return at;
    const std::uint32_t head = input.bits(at);
    if ((head >> 1 & 3) != 0) return at;
    const StoredBlock block = read_stored(input, at);
    if (block.reason != DecodeReason::kNone) return at;
    at = (block.at + block.bytes) * 8;
    if ((head & 1) != 0) return at;
    const bool again = block.bytes == before;
    before = block.bytes;
    if (block.bytes < kAlikeBytes || !again) continue;
    for (std::uint32_t count = 32; count == 32;) {
      count = count_alike(input, at / 8, block.bytes, lane);
      at += count * (kStoredHeadBytes + block.bytes) * 8;
    }
  }
  return at;
}

}  // namespace headrace::codec::gpu::deflate

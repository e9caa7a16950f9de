// Stored blocks of the DEFLATE decoder (RFC 1951, 3.2.4): read one by one, and, where encoders write many of the same
// length, 32 at a time. Device code without a CUDA header.
#pragma once

#include "deflate_job_device.cuh"

namespace headrace::codec::gpu::deflate {

// Of a block that begins with a byte: its type, LEN and NLEN.
inline constexpr std::uint32_t kStoredHeadBytes = 5;
// Where two of one length follow one another, others are expected behind them, unless they are shorter than that. A
// guess that fails costs as much as a block.
inline constexpr std::uint32_t kAlikeBytes = 1024;

struct StoredBlock {
  DecodeReason reason = DecodeReason::kNone;
  std::uint32_t at = 0;  // its first byte; or where it is wrong
  std::uint32_t bytes = 0;
};

// The one whose first three bits are at bit `begin`.
__device__ inline StoredBlock read_stored(const Input& input, std::uint32_t begin) {
  const std::uint32_t at = (begin + 3 + 7) / 8;
  if (at > input.bytes || input.bytes - at < 4) return {DecodeReason::kTruncated, at};
  const std::uint32_t word = input.bits(at * 8), length = word & 0xFFFF;
  if ((word >> 16) != (~length & 0xFFFF)) return {DecodeReason::kHeader, at};
  if (input.bytes - at - 4 < length) return {DecodeReason::kTruncated, at};
  return {DecodeReason::kNone, at + 4, length};
}

// How many stored blocks of `length` bytes follow one another from byte `at` on, none of them a member's last: 32 at
// most. By a warp.
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

// Stored blocks are passed in turns: so many, and one more for each so many bytes. Bytes that are searched instead cost
// less than turns that pass fewer. And a turn takes as long as all thread blocks take to search so many bytes of the
// batch, so it has no more turns than such parts.
inline constexpr std::uint32_t kPassTurns = 8, kBytesPerPassTurn = 8192, kBatchBytesPerPassTurn = 256 << 10;

// The bit behind stored blocks that begin at bit `begin`, or behind the first of them, in `max_turns` at most. A
// member's last block is the last. By a warp. Whatever it says, blocks are followed as they are
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

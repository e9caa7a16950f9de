// Runs of bytes that one warp writes: copies, and matches that may overlap themselves. Device code without a CUDA
// header.
//
// All functions write aligned words where they can, and read only words that lie wholly inside readable memory.
#pragma once

#include "lz77_device.cuh"

namespace headrace::codec::gpu::lz77 {

inline constexpr std::uint32_t kWordBytes = 4;
// Words that a lane copies per turn, so that their loads overlap; and bytes that a warp copies per turn.
inline constexpr unsigned kWordsAtOnce = 4;
inline constexpr std::uint32_t kTurnBytes = 32 * kWordsAtOnce * kWordBytes;

__device__ inline unsigned misaligned(const void* at) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at) & (kWordBytes - 1));
}

// Copies `words` words to the aligned address `to`. REQUIRES: four bytes before and after the source are readable. With
// kInTurns the source may overlap the destination if it begins at least kTurnBytes + 8 before it: later turns then read
// what earlier turns have written.
template <bool kInTurns>
__device__ inline void copy_words(Byte* to, const Byte* from, std::uint32_t words, unsigned lane) {
  const unsigned shift = 8 * misaligned(from);
  const auto* const source = reinterpret_cast<const std::uint32_t*>(from - shift / 8);
  auto* const target = reinterpret_cast<std::uint32_t*>(to);
  for (std::uint32_t turn = 0; turn < words; turn += 32 * kWordsAtOnce) {
    std::uint32_t held[kWordsAtOnce];
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kWordsAtOnce; ++k) {
      const std::uint32_t i = turn + 32 * k + lane;
      if (i < words) held[k] = shift == 0 ? source[i] : __funnelshift_r(source[i], source[i + 1], shift);
    }
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kWordsAtOnce; ++k) {
      const std::uint32_t i = turn + 32 * k + lane;
      if (i < words) target[i] = held[k];
    }
    if (kInTurns) __syncwarp();
  }
}

// By a warp. REQUIRES: the ranges do not overlap.
__device__ inline void copy_by_warp(Byte* to, const Byte* from, std::uint32_t bytes, unsigned lane) {
  if (((reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from)) & 15) == 0 && bytes >= 64) {
    const auto head = static_cast<std::uint32_t>(-reinterpret_cast<std::uintptr_t>(to) & 15);
    if (lane < head) to[lane] = from[lane];
    const std::uint32_t words = (bytes - head) / 16;
    auto* const to_words = reinterpret_cast<uint4*>(to + head);
    const auto* const from_words = reinterpret_cast<const uint4*>(from + head);
    for (std::uint32_t i = lane; i < words; i += 32) to_words[i] = from_words[i];
    for (std::uint32_t i = head + words * 16 + lane; i < bytes; i += 32) to[i] = from[i];
    return;
  }
  // Byte by byte: the first four bytes and those up to the next aligned address, and the last four or more.
  const std::uint32_t head = kWordBytes + (kWordBytes - misaligned(to)) % kWordBytes;
  const std::uint32_t words = bytes > head + kWordBytes ? (bytes - head - kWordBytes) / kWordBytes : 0;
  if (words == 0) {
    for (std::uint32_t i = lane; i < bytes; i += 32) to[i] = from[i];
    return;
  }
  if (lane < head) to[lane] = from[lane];
  copy_words<false>(to + head, from + head, words, lane);
  const std::uint32_t rest = head + kWordBytes * words;
  if (rest + lane < bytes) to[rest + lane] = from[rest + lane];
}

// Writes `bytes` bytes to `to`: byte i is byte i % period of `pattern`. By a warp; `period` is 1, 2, 4, 8 or 16.
__device__ inline void fill_by_warp(Byte* to, const Byte* pattern, std::uint32_t period, std::uint32_t bytes,
                                    unsigned lane) {
  const auto at = [=](std::uint32_t i) { return pattern[i & (period - 1)]; };
  const std::uint32_t to_aligned = (kWordBytes - misaligned(to)) % kWordBytes,
                      head = to_aligned < bytes ? to_aligned : bytes;
  if (lane < head) to[lane] = at(lane);
  // All words of a lane are equal, because 32 words are a whole number of periods.
  std::uint32_t word = 0;
  for (unsigned k = 0; k < kWordBytes; ++k) {
    word |= static_cast<std::uint32_t>(at(head + kWordBytes * lane + k)) << (8 * k);
  }
  const std::uint32_t words = (bytes - head) / kWordBytes, rest = head + kWordBytes * words;
  auto* const target = reinterpret_cast<std::uint32_t*>(to + head);
  for (std::uint32_t i = lane; i < words; i += 32) target[i] = word;
  if (rest + lane < bytes) to[rest + lane] = at(rest + lane);
}

// Writes a match: copies from `offset` bytes before `to`. By a warp.
__device__ inline void match_by_warp(Byte* to, std::uint32_t offset, std::uint32_t bytes, unsigned lane) {
  const Byte* const source = to - offset;
  if (offset <= 16 && (offset & (offset - 1)) == 0) {
    fill_by_warp(to, source, offset, bytes, lane);
    return;
  }
  // Copies from a larger multiple of the offset before, so that no turn reads bytes that it writes.
  constexpr std::uint32_t kMin = kTurnBytes + 2 * kWordBytes;
  const std::uint32_t distance = offset >= kMin ? offset : (kMin + offset - 1) / offset * offset;
  std::uint32_t head = distance - offset + kWordBytes;
  head += (kWordBytes - misaligned(to + head)) % kWordBytes;
  if (head > bytes) head = bytes;
  for (std::uint32_t i = lane; i < head; i += 32) to[i] = source[offset < head ? i % offset : i];
  __syncwarp();
  const std::uint32_t words = (bytes - head) / kWordBytes, rest = head + kWordBytes * words;
  copy_words<true>(to + head, to + head - distance, words, lane);
  if (rest + lane < bytes) to[rest + lane] = *(to + rest + lane - distance);
}

}  // namespace headrace::codec::gpu::lz77

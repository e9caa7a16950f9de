// Shared by the two in-order LZ4 decoders (token by token and by steps): bounded input, copies by a warp, and a fully
// checked step for half a token. Device code without a CUDA header, run on the CPU by tests.
//
// Accepts exactly what LZ4_decompress_safe accepts (liblz4 1.9 and 1.10), with the output exactly filled. Near the end
// of a block, this differs from the format's text in both directions: see slow_step().
#pragma once

#include <cstddef>
#include <cstdint>

#include "lz4_device.cuh"

#if defined(__CUDACC__) || defined(__clang__)
#define HEADRACE_PRAGMA(text) _Pragma(#text)
#define HEADRACE_UNROLL(times) HEADRACE_PRAGMA(unroll times)
#else
#define HEADRACE_UNROLL(times)
#endif

namespace headrace::codec::gpu {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

// Lowers a chunk's outcome. `position` is in the stream.
__device__ __forceinline__ void lz4_give_up(std::uint64_t* outcomes, std::uint32_t chunk, unsigned stage,
                                            std::uint32_t position, device::DecodeReason reason) {
  const std::uint64_t word = static_cast<std::uint64_t>(stage & 15) << 52 | static_cast<std::uint64_t>(position) << 8 |
                             static_cast<std::uint64_t>(reason);
  atomicMin(reinterpret_cast<unsigned long long*>(&outcomes[chunk]), static_cast<unsigned long long>(word));
}

namespace inorder {

using Byte = unsigned char;

// Matches up to this many bytes are copied by the stream's own lanes; literals by Shape::kShortLiterals.
inline constexpr std::uint32_t kShort = 32;
// slow_step() writes the last bytes of the output, so no other code has to check the format's rules for them.
inline constexpr std::uint32_t kLastOutput = 12;

template <unsigned kLanes>
struct Shape {
  static_assert(kLanes == 4 || kLanes == 8 || kLanes == 16 || kLanes == 32);
  static constexpr unsigned kGroups = 32 / kLanes;
  // 16 lanes are for streams of mostly literals: a sixth of their runs is longer than 32 bytes, 3 % than 96.
  static constexpr std::uint32_t kShortLiterals = kLanes == 16 ? 96 : 32;
  // A token with short literals has at most 5 other bytes: its length bytes and offset. The ring always holds this many
  // bytes of input, or all that remain.
  static constexpr std::uint32_t kLookahead = kShortLiterals + 16;
  static constexpr unsigned kUnitBytes = kLanes >= 16 ? 128 : 64;
  static constexpr unsigned kLaneWords = kUnitBytes / kLanes / 4;
  static constexpr unsigned kRingBytes = 2 * kUnitBytes;
  static_assert(kRingBytes >= kUnitBytes + kLookahead);
  // The ring's first unit is repeated after its end, so that the lookahead is contiguous.
  static constexpr unsigned kRingRoom = kRingBytes + kUnitBytes;
  static_assert(kUnitBytes >= kLookahead);
};

// One lane's part of a unit of input.
template <unsigned kWords>
struct Words {
  std::uint32_t w[kWords];
};

// place % period, for places up to a thousand. The exact quotient is at least 0.5 / period away from the nearest whole
// number, so an approximate division suffices.
__device__ __forceinline__ std::uint32_t repeated_near(std::uint32_t place, std::uint32_t period) {
  const float quotient = __fdividef(static_cast<float>(place) + 0.5f, static_cast<float>(period));
  return place - period * static_cast<std::uint32_t>(quotient);
}
__device__ __forceinline__ std::uint32_t repeated(std::uint32_t place, std::uint32_t period) {
  return place < period ? place : repeated_near(place, period);
}

__device__ __forceinline__ unsigned lane_id() { return threadIdx.x & 31; }

// The input as seen by one group: position 0 is the address before `src` that is aligned to a unit.
struct Input {
  const Byte* base;
  std::uint32_t begin, end;  // readable positions: [begin, end)
};

// The words of [at, at + 4 * kWords). Bytes outside the input are not read; they are returned as zeros.
template <unsigned kWords>
__device__ __forceinline__ Words<kWords> load_unit(const Input& in, std::uint32_t at) {
  Words<kWords> out;
  const Byte* const from = in.base + at;
  if (at >= in.begin && at + 4 * kWords <= in.end) {
    if constexpr (kWords == 4) {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      out.w[0] = v.x, out.w[1] = v.y, out.w[2] = v.z, out.w[3] = v.w;
    } else if constexpr (kWords == 2) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      out.w[0] = v.x, out.w[1] = v.y;
    } else {
      out.w[0] = *reinterpret_cast<const std::uint32_t*>(from);
    }
    return out;
  }
  for (unsigned k = 0; k < kWords; ++k) {
    std::uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t position = at + 4 * k + i;
      if (position >= in.begin && position < in.end) word |= static_cast<std::uint32_t>(from[4 * k + i]) << (8 * i);
    }
    out.w[k] = word;
  }
  return out;
}

// The 16 bytes that begin at byte `first` (below 16) of 32.
__device__ __forceinline__ uint4 bytes_from(const uint4& low, const uint4& high, unsigned first) {
  std::uint32_t a = low.x, b = low.y, c = low.z, d = low.w, e = high.x;
  if ((first & 8) != 0) a = low.z, b = low.w, c = high.x, d = high.y, e = high.z;
  if ((first & 4) != 0) a = b, b = c, c = d, d = e, e = (first & 8) != 0 ? high.w : high.y;
  const unsigned shift = 8 * (first & 3);
  return make_uint4(__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift),
                    __funnelshift_r(d, e, shift));
}

// By all lanes of a warp. REQUIRES: the ranges do not overlap. Except at both ends, stores are aligned words of 16
// bytes; loads are aligned too and stay inside [from, from + bytes).
__device__ __forceinline__ void copy_plain(Byte* to, const Byte* from, std::uint32_t bytes, unsigned lane) {
  if (bytes < 256) {
    HEADRACE_UNROLL(2)
    for (std::uint32_t i = lane; i < bytes; i += 32) to[i] = from[i];
    return;
  }
  // Leaves at least 16 bytes before and after the words, because the aligned loads reach there.
  const std::uint32_t head = 16 + (-static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to)) & 15);
  const std::uint32_t words = (bytes - head - 16) / 16;
  if (lane < head) to[lane] = from[lane];
  const unsigned shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from + head) & 15);
  const auto* const source = reinterpret_cast<const uint4*>(from + head - shift);
  auto* const target = reinterpret_cast<uint4*>(to + head);
  std::uint32_t i = lane;
  HEADRACE_UNROLL(1)
  for (; i + 32 < words; i += 64) {
    const uint4 low = bytes_from(source[i], source[i + 1], shift);
    const uint4 high = bytes_from(source[i + 32], source[i + 33], shift);
    target[i] = low;
    target[i + 32] = high;
  }
  if (i < words) target[i] = bytes_from(source[i], source[i + 1], shift);
  const std::uint32_t done = head + 16 * words;
  if (done + lane < bytes) to[done + lane] = from[done + lane];
}

// Used instead of an offset if the copy is not a match.
inline constexpr std::uint32_t kPlain = 0xFFFFFFFF;

// Writes zeros (offset 0), or repeats the `offset` (1, 2 or 4) bytes before `to`.
__device__ __forceinline__ void fill_pattern(Byte* to, std::uint32_t offset, std::uint32_t bytes, unsigned lane) {
  std::uint32_t pattern = 0;
  if (offset != 0) {
    for (unsigned i = 0; i < 4; ++i) {
      pattern |= static_cast<std::uint32_t>(*(to - offset + (i & (offset - 1)))) << (8 * i);
    }
  }
  const std::uint32_t head = -static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to)) & 15;  // < bytes
  if (lane < head) to[lane] = static_cast<Byte>(pattern >> (8 * (lane & 3)));
  const std::uint32_t turned = __funnelshift_r(pattern, pattern, 8 * (head & 3));
  auto* const target = reinterpret_cast<uint4*>(to + head);
  const std::uint32_t words = (bytes - head) / 16;
  HEADRACE_UNROLL(1)
  for (std::uint32_t i = lane; i < words; i += 32) target[i] = make_uint4(turned, turned, turned, turned);
  const std::uint32_t done = head + 16 * words;
  if (done + lane < bytes) to[done + lane] = static_cast<Byte>(turned >> (8 * (lane & 3)));
}

// By all lanes of a warp: copies a match from `offset` bytes before `to`, or from other memory if `offset` is kPlain.
// Offset 0 gives zeros.
__device__ __forceinline__ void copy_by_warp(Byte* to, const Byte* from, std::uint32_t bytes, std::uint32_t offset,
                                             unsigned lane) {
  if (offset >= bytes) return copy_plain(to, from, bytes, lane);
  if (bytes >= 32 && (offset <= 2 || offset == 4)) return fill_pattern(to, offset, bytes, lane);
  if (offset == 0) {
    if (lane < bytes) to[lane] = 0;
    return;
  }
  // Copies a few periods byte by byte, then doubles the copied part repeatedly.
  std::uint32_t done = offset >= 128 ? offset : offset * ((127 + offset) / offset);
  if (done > bytes) done = bytes;
  HEADRACE_UNROLL(1)
  for (std::uint32_t i = lane; i < done; i += 32) to[i] = from[repeated(i, offset)];
  while (done < bytes) {
    __syncwarp();
    const std::uint32_t more = done < bytes - done ? done : bytes - done;
    copy_plain(to + done, to, more, lane);
    done += more;
  }
}

__device__ __forceinline__ const Byte* pointer_from_lane(const Byte* value, unsigned lane) {
  const auto bits = reinterpret_cast<std::uintptr_t>(value);
  const std::uint32_t low = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(bits), lane);
  const std::uint32_t high = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(bits >> 32), lane);
  return reinterpret_cast<const Byte*>(static_cast<std::uintptr_t>(high) << 32 | low);
}

// Values of Walk::pending: kNoToken between tokens, kEnded at the end of the block. Otherwise the low 4 bits of a token
// whose match is next, with flags that record where its literals lie relative to the end of the block.
inline constexpr std::uint32_t kNoToken = 0x80, kFarFromEnd = 0x10, kShortToken = 0x20, kEnded = 0x100;

// The state of one stream. The same in all lanes of its group.
struct Walk {
  Input in;
  std::uint32_t at;  // next byte of input
  Byte* dst;
  std::uint32_t done, end;  // output written or being written; size of the output
  std::uint32_t pending;    // kNoToken, kEnded, or the second half of a token whose literals are done: see slow_step()
  __device__ __forceinline__ bool live() const { return pending != kEnded; }

  // The copy that a whole warp has to make next: literals, whose input ends at `at`, or a match. Its output ends at
  // `done`.
  std::uint32_t copy_bytes, copy_offset;
  __device__ __forceinline__ Byte* copy_to() const { return dst + (done - copy_bytes); }
  __device__ __forceinline__ const Byte* copy_from() const {
    return copy_offset == kPlain ? in.base + (at - copy_bytes) : copy_to() - copy_offset;
  }
};

// Processes one half of a token with every check: its literals, of any length, or its match.
//
// liblz4 refuses a match that begins in the last 12 bytes of the output or ends in the last 5, and literals, other than
// the last ones, that end in the last 8 bytes of the input. But its fast path, for a token that fits in 18 + 14 bytes
// of output and 17 of input and has an offset of at least 8, skips these checks. An offset of 0 gives zeros.
__device__ __forceinline__ device::DecodeReason slow_step(Walk& walk) {
  using device::DecodeReason;
  const Byte* const in = walk.in.base;
  const std::uint32_t end = walk.in.end;
  std::uint32_t at = walk.at;
  if (walk.pending == kNoToken) {
    if (at == end) return DecodeReason::kTruncated;
    const std::uint32_t token = in[at++];
    const std::uint32_t first = at;
    std::uint32_t literals = token >> 4;
    if (literals == 15) {
      std::uint32_t more;
      do {
        if (at == end) return DecodeReason::kTruncated;
        more = in[at++];
        literals += more;
        if (literals > walk.end - walk.done) return DecodeReason::kLength;
      } while (more == 255);
    }
    if (literals > end - at) return DecodeReason::kTruncated;
    if (literals > walk.end - walk.done) return DecodeReason::kLength;
    const bool short_token = token < 0xF0 && walk.end - walk.done >= 32 && end - first > 16;
    walk.copy_bytes = literals;
    walk.copy_offset = kPlain;
    at += literals;
    walk.done += literals;
    walk.at = at;
    if (at == end) {
      walk.pending = kEnded;
      return walk.done == walk.end ? DecodeReason::kNone : DecodeReason::kWrongSize;
    }
    const bool far_from_end = walk.end - walk.done >= 12 && end - at >= 8;
    if (!far_from_end && !short_token) return DecodeReason::kWrongSize;
    walk.pending = (token & 15) | (far_from_end ? kFarFromEnd : 0) | (short_token ? kShortToken : 0);
    return DecodeReason::kNone;
  }
  // Each flag guarantees that three bytes of input follow.
  const std::uint32_t offset = in[at] | static_cast<std::uint32_t>(in[at + 1]) << 8;
  at += 2;
  std::uint32_t length = walk.pending & 15;
  const bool extended = length == 15;
  if (extended) {
    std::uint32_t more;
    do {
      if (at == end) return DecodeReason::kTruncated;
      more = in[at++];
      length += more;
      if (length > walk.end - walk.done) return DecodeReason::kLength;
    } while (more == 255);
  }
  length += 4;
  if (offset > walk.done) return DecodeReason::kOffset;
  if (length > walk.end - walk.done) return DecodeReason::kLength;
  const bool far_from_end = (walk.pending & kFarFromEnd) != 0 && walk.end - walk.done - length >= 5;
  const bool short_token = (walk.pending & kShortToken) != 0 && !extended && offset >= 8;
  if (!far_from_end && !short_token) return DecodeReason::kLength;
  walk.copy_bytes = length;
  walk.copy_offset = offset;
  walk.done += length;
  walk.at = at;
  walk.pending = kNoToken;
  return DecodeReason::kNone;
}

// Initialises one stream's walk. Stored and empty streams are handled here; invalid sizes are refused.
__device__ __forceinline__ device::DecodeReason begin(const Lz4Stream& stream, unsigned unit_bytes, Walk& walk) {
  using device::DecodeReason;
  constexpr std::uint32_t kMaxBytes = 0x7FFFFFFF;  // liblz4's sizes are int
  if (stream.kind == Lz4Kind::kStored) {
    if (stream.src_bytes != stream.dst_bytes) return DecodeReason::kWrongSize;
    walk.in.base = stream.src;
    walk.dst = stream.dst;
    walk.at = walk.done = walk.copy_bytes = stream.dst_bytes;
    walk.copy_offset = kPlain;
    return DecodeReason::kNone;
  }
  if (stream.src_bytes > kMaxBytes || stream.dst_bytes > kMaxBytes) return DecodeReason::kHeader;
  if (stream.src_bytes == 0) return DecodeReason::kTruncated;
  if (stream.dst_bytes == 0) {
    return stream.src_bytes == 1 && stream.src[0] == 0 ? DecodeReason::kNone : DecodeReason::kWrongSize;
  }
  const auto misfit =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(stream.src) & (std::uintptr_t{unit_bytes} - 1));
  walk.in.base = stream.src - misfit;
  walk.in.begin = misfit;
  walk.at = misfit + (stream.kind == Lz4Kind::kBegun ? stream.src_done : 0);
  walk.in.end = misfit + stream.src_bytes;
  walk.dst = stream.dst;
  walk.done = stream.kind == Lz4Kind::kBegun ? stream.dst_done : 0;
  walk.end = stream.dst_bytes;
  walk.pending = kNoToken;
  return DecodeReason::kNone;
}

}  // namespace inorder
}  // namespace headrace::codec::gpu

// LZ4 streams decoded in order by groups of lanes: device code without a CUDA header, run on the CPU by tests.
//
// A group of 4 to 32 lanes walks one stream, token by token; a warp's groups go in step. All lanes of a group parse the
// same token from a ring of input bytes in shared memory, which is filled one unit ahead, and copy short literals and
// matches a byte a lane. Whatever is long (above kShort bytes) is left to the whole warp, one copy after the other.
// docs/design/gpu_decode.md tells why.
//
// What is accepted is what LZ4_decompress_safe accepts (liblz4 1.9 and 1.10), with the output exactly filled. Near the
// end of a block that is a little less and a little more than the format's text: see slow_step().
#pragma once

#include <cstddef>
#include <cstdint>

#include "lz4_device.cuh"

namespace headrace::codec::gpu {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

// One stretch to be copied by a whole warp. The source is plain memory, or `offset` bytes before the destination.
struct Lz4Copy {
  static constexpr std::uint32_t kPlain = 0xFFFFFFFF;

  const unsigned char* from = nullptr;
  unsigned char* to = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t offset = kPlain;  // 0: zeros
};

// Lowers a chunk's outcome. `position` is in the stream.
__device__ __forceinline__ void lz4_give_up(std::uint64_t* outcomes, std::uint32_t chunk, unsigned stage,
                                            std::uint32_t position, device::DecodeReason reason) {
  const std::uint64_t word = static_cast<std::uint64_t>(stage & 15) << 52 | static_cast<std::uint64_t>(position) << 8 |
                             static_cast<std::uint64_t>(reason);
  atomicMin(reinterpret_cast<unsigned long long*>(&outcomes[chunk]), static_cast<unsigned long long>(word));
}

namespace inorder {

using Byte = unsigned char;

// Literals and matches up to this many bytes are copied by the stream's own lanes.
inline constexpr std::uint32_t kShort = 32;
// A token with short literals needs at most 37 bytes, its length bytes and offset included. As many are in the ring, or
// all that are left.
inline constexpr std::uint32_t kLookahead = 48;
// Output that is left to slow_step(), so that the format's rules for the last bytes need no test elsewhere.
inline constexpr std::uint32_t kLastOutput = 12;

template <unsigned kLanes>
struct Shape {
  static_assert(kLanes == 4 || kLanes == 8 || kLanes == 16 || kLanes == 32);
  static constexpr unsigned kGroups = 32 / kLanes;
  static constexpr unsigned kUnitBytes = kLanes == 32 ? 128 : 64;
  static constexpr unsigned kLaneWords = kUnitBytes / kLanes / 4;
  static constexpr unsigned kRingBytes = 2 * kUnitBytes;  // >= kUnitBytes + kLookahead: see fill()
  static_assert(kRingBytes >= kUnitBytes + kLookahead);
};

// One lane's part of a unit of input.
template <unsigned kWords>
struct Words {
  std::uint32_t w[kWords];
};

__device__ __forceinline__ unsigned lane_id() { return threadIdx.x & 31; }

// The input as seen by one group: position 0 is the address before `src` that is aligned to a unit.
struct Input {
  const Byte* base;
  std::uint32_t begin, end;  // what may be read
};

// The words of [at, at + 4 * kWords); bytes outside the input are not read and come as zeros.
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

// 16 bytes from any of the first 16 positions of 32.
__device__ __forceinline__ uint4 bytes_from(const uint4& low, const uint4& high, unsigned first) {
  std::uint32_t a = low.x, b = low.y, c = low.z, d = low.w, e = high.x;
  if ((first & 8) != 0) a = low.z, b = low.w, c = high.x, d = high.y, e = high.z;
  if ((first & 4) != 0) a = b, b = c, c = d, d = e, e = (first & 8) != 0 ? high.w : high.y;
  const unsigned shift = 8 * (first & 3);
  return make_uint4(__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift),
                    __funnelshift_r(d, e, shift));
}

// By all lanes of a warp; the ranges do not overlap. Stores are aligned words of 16 bytes but for both ends; loads are
// aligned too and stay inside [from, from + bytes).
__device__ __forceinline__ void copy_plain(Byte* to, const Byte* from, std::uint32_t bytes, unsigned lane) {
  if (bytes < 256) {
    for (std::uint32_t i = lane; i < bytes; i += 32) to[i] = from[i];
    return;
  }
  // At least 16 bytes before and behind the words, where the aligned loads reach.
  const std::uint32_t head = 16 + (-static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to)) & 15);
  const std::uint32_t words = (bytes - head - 16) / 16;
  if (lane < head) to[lane] = from[lane];
  const unsigned shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from + head) & 15);
  const auto* const source = reinterpret_cast<const uint4*>(from + head - shift);
  auto* const target = reinterpret_cast<uint4*>(to + head);
  std::uint32_t i = lane;
  for (; i + 96 < words; i += 128) {
    uint4 v[4];
    for (unsigned k = 0; k < 4; ++k) v[k] = bytes_from(source[i + 32 * k], source[i + 32 * k + 1], shift);
    for (unsigned k = 0; k < 4; ++k) target[i + 32 * k] = v[k];
  }
  for (; i < words; i += 32) target[i] = bytes_from(source[i], source[i + 1], shift);
  const std::uint32_t done = head + 16 * words;
  if (done + lane < bytes) to[done + lane] = from[done + lane];
}

// Zeros, or a pattern of 1, 2 or 4 bytes repeated.
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
  for (std::uint32_t i = lane; i < words; i += 32) target[i] = make_uint4(turned, turned, turned, turned);
  const std::uint32_t done = head + 16 * words;
  if (done + lane < bytes) to[done + lane] = static_cast<Byte>(turned >> (8 * (lane & 3)));
}

// By all lanes of a warp, with the same copy.
__device__ __forceinline__ void copy_by_warp(const Lz4Copy& copy, unsigned lane) {
  if (copy.offset >= copy.bytes) return copy_plain(copy.to, copy.from, copy.bytes, lane);
  const std::uint32_t offset = copy.offset;
  if (copy.bytes >= 32 && (offset <= 2 || offset == 4)) return fill_pattern(copy.to, offset, copy.bytes, lane);
  if (offset == 0) {
    if (lane < copy.bytes) copy.to[lane] = 0;
    return;
  }
  // A few periods byte by byte, then twice as many each time.
  std::uint32_t done = offset >= 128 ? offset : offset * ((127 + offset) / offset);
  if (done > copy.bytes) done = copy.bytes;
  for (std::uint32_t i = lane; i < done; i += 32) copy.to[i] = copy.from[i % offset];
  while (done < copy.bytes) {
    __syncwarp();
    const std::uint32_t bytes = done < copy.bytes - done ? done : copy.bytes - done;
    copy_plain(copy.to + done, copy.to, bytes, lane);
    done += bytes;
  }
}

__device__ __forceinline__ const Byte* pointer_from_lane(const Byte* value, unsigned lane) {
  const auto bits = reinterpret_cast<std::uintptr_t>(value);
  const std::uint32_t low = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(bits), lane);
  const std::uint32_t high = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(bits >> 32), lane);
  return reinterpret_cast<const Byte*>(static_cast<std::uintptr_t>(high) << 32 | low);
}

// The copies of all groups, one after the other. `wanted` has one bit for each group that has one.
__device__ __forceinline__ void run_copies(Lz4Copy& copy, unsigned wanted, unsigned lane) {
  while (wanted != 0) {
    const unsigned owner = static_cast<unsigned>(__ffs(wanted)) - 1;
    wanted &= wanted - 1;
    Lz4Copy one;
    one.from = pointer_from_lane(copy.from, owner);
    one.to = const_cast<Byte*>(pointer_from_lane(copy.to, owner));
    one.bytes = __shfl_sync(kAllLanes, copy.bytes, owner);
    one.offset = __shfl_sync(kAllLanes, copy.offset, owner);
    copy_by_warp(one, lane);
  }
  copy.bytes = 0;
}

// Where one stream is. All lanes of its group have the same.
struct Walk {
  Input in;
  std::uint32_t at;  // next byte of input
  Byte* dst;
  std::uint32_t done, end;  // output written or about to be, and to be written
  std::uint32_t fast_end;   // up to which outputs need no look at the rules for a block's end
  std::uint32_t pending;    // kNoToken, or what is left of the token whose literals are done: see slow_step()
  bool live;
};
// A token's match half, with what its first half has shown about the end of the block.
inline constexpr std::uint32_t kNoToken = 0x80, kFarFromEnd = 0x10, kShortToken = 0x20;

// One half of a token with every check: its literals, of any length, or its match.
//
// liblz4 refuses a match that begins in the last 12 bytes of the output or ends in the last 5, and literals that are
// not the last ones in the last 8 bytes of the input; but a token that fits in 18 + 14 bytes of output, and 17 of
// input, takes a short way there that does not look, if its offset is 8 or more. An offset of 0 gives zeros.
__device__ inline device::DecodeReason slow_step(Walk& walk, Lz4Copy& copy) {
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
    copy.from = in + at;
    copy.to = walk.dst + walk.done;
    copy.bytes = literals;
    copy.offset = Lz4Copy::kPlain;
    at += literals;
    walk.done += literals;
    walk.at = at;
    if (at == end) {
      walk.live = false;
      return walk.done == walk.end ? DecodeReason::kNone : DecodeReason::kWrongSize;
    }
    const bool far_from_end = walk.end - walk.done >= 12 && end - at >= 8;
    if (!far_from_end && !short_token) return DecodeReason::kWrongSize;
    walk.pending = (token & 15) | (far_from_end ? kFarFromEnd : 0) | (short_token ? kShortToken : 0);
    return DecodeReason::kNone;
  }
  // Either flag promises three bytes.
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
  copy.to = walk.dst + walk.done;
  copy.from = copy.to - offset;
  copy.bytes = length;
  copy.offset = offset;
  walk.done += length;
  walk.at = at;
  walk.pending = kNoToken;
  return DecodeReason::kNone;
}

// Sets up one stream's walk; what can be done or refused at once is.
__device__ inline device::DecodeReason begin(const Lz4Stream& stream, unsigned unit_bytes, Walk& walk, Lz4Copy& copy) {
  using device::DecodeReason;
  constexpr std::uint32_t kMostBytes = 0x7FFFFFFF;  // liblz4 counts in int
  if (stream.kind == Lz4Kind::kStored) {
    if (stream.src_bytes != stream.dst_bytes) return DecodeReason::kWrongSize;
    copy.from = stream.src;
    copy.to = stream.dst;
    copy.bytes = stream.dst_bytes;
    return DecodeReason::kNone;
  }
  if (stream.src_bytes > kMostBytes || stream.dst_bytes > kMostBytes) return DecodeReason::kHeader;
  if (stream.src_bytes == 0) return DecodeReason::kTruncated;
  if (stream.dst_bytes == 0) {
    return stream.src_bytes == 1 && stream.src[0] == 0 ? DecodeReason::kNone : DecodeReason::kWrongSize;
  }
  const auto misfit =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(stream.src) & (std::uintptr_t{unit_bytes} - 1));
  walk.in.base = stream.src - misfit;
  walk.in.begin = walk.at = misfit;
  walk.in.end = misfit + stream.src_bytes;
  walk.dst = stream.dst;
  walk.done = 0;
  walk.end = stream.dst_bytes;
  walk.fast_end = stream.dst_bytes > kLastOutput ? stream.dst_bytes - kLastOutput : 0;
  walk.pending = kNoToken;
  walk.live = true;
  return DecodeReason::kNone;
}

// Decodes the streams of one warp's groups. `mine` says whether this group has one. `ring` is the group's own.
template <unsigned kLanes>
__device__ inline void decode_streams(const Lz4Stream* stream, bool mine, Byte* ring, std::uint64_t* outcomes,
                                      unsigned stage) {
  using device::DecodeReason;
  using S = Shape<kLanes>;
  constexpr std::uint32_t kMask = S::kRingBytes - 1;
  const unsigned lane = lane_id(), group_lane = lane % kLanes;
  Walk walk;
  walk.live = false;
  Lz4Copy copy;
  std::uint32_t chunk = 0;
  if (mine && stream->kind != Lz4Kind::kNone) {
    chunk = stream->chunk;
    if (*static_cast<const volatile std::uint64_t*>(&outcomes[chunk]) == device::DecodeOutcome::kOk) {
      const DecodeReason reason = begin(*stream, S::kUnitBytes, walk, copy);
      if (reason != DecodeReason::kNone && group_lane == 0) lz4_give_up(outcomes, chunk, stage, 0, reason);
    }
  }
  // Input up to here is in the ring; `ahead` holds this lane's part of the unit that follows.
  std::uint32_t filled = 0;
  Words<S::kLaneWords> ahead{};
  const unsigned unit_at = group_lane * 4 * S::kLaneWords;
  if (walk.live) ahead = load_unit<S::kLaneWords>(walk.in, unit_at);

  for (;;) {
    const unsigned special = __ballot_sync(kAllLanes, copy.bytes != 0 || !walk.live);
    if (special != 0) {
      __syncwarp();
      const unsigned wanted = __ballot_sync(kAllLanes, copy.bytes != 0 && group_lane == 0);
      if (wanted != 0) run_copies(copy, wanted, lane);
      if (!__any_sync(kAllLanes, walk.live)) break;
    }
    if (walk.live) {
      // Overwrites what lies a ring before: all of it is behind `at`, as less than the lookahead is in front of it.
      while (filled < walk.at + kLookahead && filled < walk.in.end) {
        auto* const slot = reinterpret_cast<std::uint32_t*>(ring + ((filled + unit_at) & kMask));
        for (unsigned k = 0; k < S::kLaneWords; ++k) slot[k] = ahead.w[k];
        filled += S::kUnitBytes;
        ahead = load_unit<S::kLaneWords>(walk.in, filled + unit_at);
      }
    }
    __syncwarp();

    std::uint32_t match = 0, offset = 0;
    if (walk.live) {
      std::uint32_t at = walk.at, literals = 0, token = walk.pending;
      bool fast = walk.in.end - at >= kLookahead;
      if (fast) {
        if (token == kNoToken) {
          token = ring[at++ & kMask];
          literals = token >> 4;
          if (literals == 15) literals += ring[at++ & kMask];
        }
        fast = literals <= kShort;
      }
      std::uint32_t next = at + literals;
      if (fast) {
        offset = ring[next & kMask] | static_cast<std::uint32_t>(ring[(next + 1) & kMask]) << 8;
        next += 2;
        match = (token & 15) + 4;
        if (match == 19) match += ring[next++ & kMask];
        const std::uint32_t written = walk.done + literals;
        fast = offset - 1 < written && written + match <= walk.fast_end && match != 19 + 255;
      }
      if (fast) {
        for (std::uint32_t i = group_lane; i < literals; i += kLanes) {
          walk.dst[walk.done + i] = ring[(at + i) & kMask];
        }
        walk.done += literals;
        walk.at = next;
        walk.pending = kNoToken;
      } else {
        match = 0;
        const DecodeReason reason = slow_step(walk, copy);
        if (reason != DecodeReason::kNone) {
          if (group_lane == 0) lz4_give_up(outcomes, chunk, stage, walk.at - walk.in.begin, reason);
          walk.live = false;
          copy.bytes = 0;
        } else if (walk.at >= filled + S::kUnitBytes) {
          filled = walk.at & ~(S::kUnitBytes - 1);
          ahead = load_unit<S::kLaneWords>(walk.in, filled + unit_at);
        }
      }
    }
    __syncwarp();

    if (match != 0) {
      Byte* const to = walk.dst + walk.done;
      const Byte* const from = to - offset;
      if (match > kShort) {
        copy.from = from;
        copy.to = to;
        copy.bytes = match;
        copy.offset = offset;
      } else if (offset >= match) {
        Byte v[S::kGroups];
        for (unsigned k = 0; k < S::kGroups; ++k) {
          if (k * kLanes + group_lane < match) v[k] = from[k * kLanes + group_lane];
        }
        for (unsigned k = 0; k < S::kGroups; ++k) {
          if (k * kLanes + group_lane < match) to[k * kLanes + group_lane] = v[k];
        }
      } else {
        for (std::uint32_t i = group_lane; i < match; i += kLanes) to[i] = from[i % offset];
      }
      walk.done += match;
    }
  }
}

}  // namespace inorder

// Bytes of shared memory, aligned to 16, that a block of so many threads needs.
template <unsigned kLanes, unsigned kThreads>
inline constexpr unsigned kLz4InorderSharedBytes = kThreads / kLanes* inorder::Shape<kLanes>::kRingBytes;

// A kernel's body; blocks of whole warps. The streams of a warp's groups are far apart in the list, so that the planes
// of one shuffled block, which differ in length of work, do not wait for each other.
template <unsigned kLanes>
__device__ inline void lz4_inorder_body(const Lz4Stream* streams, std::uint32_t count, std::uint64_t* outcomes,
                                        unsigned stage, unsigned char* shared) {
  using S = inorder::Shape<kLanes>;
  const unsigned warps_a_block = blockDim.x / 32;
  const unsigned group = inorder::lane_id() / kLanes;
  unsigned char* const ring = shared + (threadIdx.x / kLanes) * S::kRingBytes;
  const std::uint32_t a_group = S::kGroups == 1 ? count : ((count + S::kGroups - 1) / S::kGroups + 15) / 16 * 16;
  for (std::uint32_t i = blockIdx.x * warps_a_block + threadIdx.x / 32; i < a_group; i += gridDim.x * warps_a_block) {
    const std::uint64_t own = i + static_cast<std::uint64_t>(group) * a_group;
    inorder::decode_streams<kLanes>(&streams[own < count ? own : 0], own < count, ring, outcomes, stage);
    __syncwarp();
  }
}

}  // namespace headrace::codec::gpu

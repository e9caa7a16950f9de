// Device code for Blosc's own inner formats, BloscLZ and raw Snappy: one warp per stream.
//
// All lanes read the same control bytes and take the same branches; they share the copying. Accepts and refuses the
// same streams as decode_blosclz() and decode_snappy() in blosc_inner.cc, which describes the formats.
#pragma once

#include "codecs/blosc/blosc_device.cuh"

namespace headrace::codec::gpu::blosc {

// Copies by all lanes of the warp; afterwards all lanes can read the result.
__device__ inline void warp_literals(Byte* out, const Byte* in, U64 length, unsigned lane) {
  for (U64 i = lane; i < length; i += 32) out[i] = in[i];
  __syncwarp();
}
// A distance below the length repeats the bytes. REQUIRES: 0 < distance <= bytes before `out`.
__device__ inline void warp_match(Byte* out, U64 distance, U64 length, unsigned lane) {
  const Byte* const from = out - distance;
  if (distance >= length) {
    for (U64 i = lane; i < length; i += 32) out[i] = from[i];
  } else {
    const unsigned period = static_cast<unsigned>(distance);
    for (unsigned i = lane; i < length; i += 32) out[i] = from[i % period];
  }
  __syncwarp();
}

__device__ inline bool decode_blosclz(const Byte* src, std::uint32_t src_bytes, Byte* dst, std::uint32_t dst_bytes,
                                      unsigned lane) {
  constexpr U64 kMaxNear = 8191;
  if (src_bytes == 0) return false;
  U64 in = 0, out = 0;
  unsigned control = src[in++] & 31;
  for (;;) {
    const U64 room = dst_bytes - out, left = src_bytes - in;
    if (control < 32) {
      const unsigned length = control + 1;
      if (length > room || length > left) return false;
      warp_literals(dst + out, src + in, length, lane);
      out += length;
      in += length;
      if (in == src_bytes) return out == dst_bytes;
    } else {
      U64 length = (control >> 5) - 1;
      const unsigned high = (control & 31) << 8;
      if (length == 6) {
        unsigned more = 255;
        while (more == 255) {
          if (in == src_bytes || length > room) return false;
          more = src[in++];
          length += more;
        }
      }
      length += 3;
      if (in == src_bytes) return false;
      const unsigned low = src[in++];
      U64 distance = high + low + 1;
      if (low == 255 && high == 31 << 8) {
        if (src_bytes - in < 2) return false;
        distance = (static_cast<unsigned>(src[in]) << 8) + src[in + 1] + kMaxNear + 1;
        in += 2;
      }
      if (length > room || distance > out || in == src_bytes) return false;
      warp_match(dst + out, distance, length, lane);
      out += length;
    }
    control = src[in++];
  }
}

__device__ inline bool decode_snappy(const Byte* src, std::uint32_t src_bytes, Byte* dst, std::uint32_t dst_bytes,
                                     unsigned lane) {
  U64 in = 0, out = 0, declared = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (in == src_bytes || shift > 28) return false;
    const U64 byte = src[in++];
    declared |= (byte & 127) << shift;
    if (byte < 128) break;
  }
  if (declared != dst_bytes) return false;
  while (in != src_bytes) {
    const unsigned tag = src[in++];
    const U64 room = dst_bytes - out, left = src_bytes - in;
    if ((tag & 3) == 0) {
      U64 length = (tag >> 2) + 1;
      unsigned extra = 0;
      if (length > 60) {  // 1 to 4 bytes of length follow
        extra = static_cast<unsigned>(length) - 60;
        if (extra > left) return false;
        length = 0;
        for (unsigned i = 0; i < extra; ++i) length |= static_cast<U64>(src[in + i]) << (8 * i);
        ++length;
        in += extra;
      }
      if (length > room || length > left - extra) return false;
      warp_literals(dst + out, src + in, length, lane);
      out += length;
      in += length;
      continue;
    }
    unsigned length = (tag >> 2) + 1;
    U64 distance = 0;
    if ((tag & 3) == 1) {
      if (left < 1) return false;
      length = (tag >> 2 & 7) + 4;
      distance = (tag >> 5) << 8 | src[in];
      in += 1;
    } else if ((tag & 3) == 2) {
      if (left < 2) return false;
      distance = src[in] | static_cast<unsigned>(src[in + 1]) << 8;
      in += 2;
    } else {
      if (left < 4) return false;
      distance = u32_at(src + in);
      in += 4;
    }
    if (length > room || distance == 0 || distance > out) return false;
    warp_match(dst + out, distance, length, lane);
    out += length;
  }
  return out == dst_bytes;
}

// Decodes the streams tagged with these two formats.
__device__ inline void inner_body(const Job& job) {
  if (*job.others == 0) return;
  const std::uint32_t total = job.totals->streams;
  const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (std::uint32_t x = blockIdx.x * warps + threadIdx.x / 32; x < total; x += gridDim.x * warps) {
    const Tag tag = job.tags[x];
    if (tag != Tag::kBlosclz && tag != Tag::kSnappy) continue;
    const Lz4Stream stream = job.streams[x];
    const bool fine = tag == Tag::kBlosclz
                          ? decode_blosclz(stream.src, stream.src_bytes, stream.dst, stream.dst_bytes, lane)
                          : decode_snappy(stream.src, stream.src_bytes, stream.dst, stream.dst_bytes, lane);
    if (!fine && lane == 0) {
      const auto at = static_cast<U64>(stream.src - job.chunks[stream.chunk].src);
      lower_outcome(job.outcomes, stream.chunk, outcome_word(job.stage, at, DecodeReason::kHeader));
    }
  }
}

}  // namespace headrace::codec::gpu::blosc

// Checksums as a stage of a GPU decoder: sums of segments, which are copied meanwhile, and a verdict on each chunk.
// Device code without a CUDA header: included by checksum_stage.cu, and by tests that run it on the CPU.
#pragma once

#include <cstdint>

#include "checksum_sums_device.cuh"
#include "device/gpu_outcome.h"
#include "device/gpu_stage.h"

namespace headrace::codec::gpu {

// Of a batch whose longest stream has `bytes`, one at least.
constexpr std::uint64_t segment_count(std::uint64_t bytes, std::uint64_t segment_bytes) {
  return bytes <= segment_bytes ? 1 : (bytes + segment_bytes - 1) / segment_bytes;
}
// Segments are so short that this many warps of each multiprocessor get one, unless a chunk would have more than
// kManySegments.
constexpr std::uint64_t kBusyWarps = 16, kManySegments = 8192;
// The length of segments of `chunks` streams, the longest of which has `bytes`; a power of two.
constexpr std::uint64_t segment_bytes(std::uint64_t bytes, std::uint64_t chunks, std::uint64_t multiprocessors) {
  std::uint64_t out = kMaxSegmentBytes;
  while (out > kMinSegmentBytes && segment_count(bytes, out / 2) <= kManySegments &&
         chunks * segment_count(bytes, out) < multiprocessors * kBusyWarps) {
    out /= 2;
  }
  return out;
}
// Segments of a stream of at most `bytes`, in batches of any size.
constexpr std::uint64_t max_segments(std::uint64_t bytes) {
  const std::uint64_t longest = segment_count(bytes, kMaxSegmentBytes),
                      shortest = segment_count(bytes, kMinSegmentBytes);
  return longest > kManySegments ? longest : shortest < kManySegments ? shortest : kManySegments;
}

struct ChecksumJob {
  Checksum kind = Checksum::kCrc32c;
  bool at_start = false;
  bool exact = true;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t chunks = 0;
  std::uint64_t segment_bytes = kMaxSegmentBytes;
  std::uint32_t segments = 1;  // of the largest stream
  device::gpu::Chunk* list = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
  uint2* partials = nullptr;  // [chunk][segment]
  const CrcTables* tables = nullptr;
};

namespace checksum {

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

}  // namespace checksum

// A warp a segment. REQUIRES: blocks of kChecksumThreads; job.kind is kKind.
template <Checksum kKind>
__device__ inline void checksum_segments_body(const ChecksumJob& job, ChecksumShared& shared) {
  if (job.tables != nullptr) checksum::load_tables(*job.tables, shared);
  const std::uint64_t total = static_cast<std::uint64_t>(job.chunks) * job.segments;
  const std::uint64_t warps = std::uint64_t{gridDim.x} * kChecksumWarps;
  for (std::uint64_t item = std::uint64_t{blockIdx.x} * kChecksumWarps + threadIdx.x / 32; item < total;
       item += warps) {
    const auto chunk = static_cast<std::uint32_t>(item / job.segments);
    const std::uint64_t begin = item % job.segments * job.segment_bytes;
    // Nothing in this launch changes an outcome or a chunk, so all lanes agree.
    if (job.outcomes[chunk] != device::DecodeOutcome::kOk) continue;
    const checksum::Payload payload = checksum::payload_of(job, job.list[chunk]);
    if (!payload.good || begin >= payload.bytes) continue;
    const std::uint64_t left = payload.bytes - begin;
    const auto bytes = static_cast<std::uint32_t>(left < job.segment_bytes ? left : job.segment_bytes);
    const uint2 sums = checksum::sum_by_warp<kKind, true>(job.tables, shared, payload.data + begin, bytes,
                                                          job.list[chunk].dst + begin);
    if (threadIdx.x % 32 == 0) job.partials[item] = sums;
  }
}

// Chunks with more segments are judged by a thread block each.
constexpr std::uint32_t kSegmentsByWarp = 64;

// Joins the segments of a chunk and compares. A warp a chunk, or a thread block. REQUIRES: blocks of kChecksumThreads.
template <Checksum kKind, bool kByBlock>
__device__ inline void checksum_verdict_body(const ChecksumJob& job, ChecksumShared& shared) {
  const std::uint32_t chunk = kByBlock ? blockIdx.x : blockIdx.x * kChecksumWarps + threadIdx.x / 32;
  const unsigned t = kByBlock ? threadIdx.x : threadIdx.x % 32, threads = kByBlock ? kChecksumThreads : 32;
  if (chunk >= job.chunks) return;
  // The same for all threads: only the end of this function changes it.
  if (job.outcomes[chunk] != device::DecodeOutcome::kOk) return;
  device::gpu::Chunk& item = job.list[chunk];
  const checksum::Payload payload = checksum::payload_of(job, item);
  uint2 sums{0, 0};
  if (payload.good) {
    const std::uint64_t segments = (payload.bytes + job.segment_bytes - 1) / job.segment_bytes;
    // Each thread joins some neighbours, from the first to the last.
    const std::uint64_t each = (segments + threads - 1) / threads;
    std::uint64_t end = 0;
    for (std::uint64_t s = t * each; s < segments && s < (t + 1) * each; ++s) {
      const uint2 partial = job.partials[static_cast<std::uint64_t>(chunk) * job.segments + s];
      end = (s + 1) * job.segment_bytes < payload.bytes ? (s + 1) * job.segment_bytes : payload.bytes;
      sums =
          checksum::join<kKind>(checksum::move_to_end<kKind>(job.tables, sums, end - s * job.segment_bytes), partial);
    }
    if (end != 0) sums = checksum::move_to_end<kKind>(job.tables, sums, payload.bytes - end);
  }
  sums = checksum::join_warp<kKind>(sums);
  if constexpr (kByBlock) sums = checksum::join_block<kKind>(sums, shared);
  if (t != 0) return;
  device::DecodeReason reason = payload.reason;
  std::uint64_t position = 0;
  if (payload.good) {
    std::uint32_t computed;
    if constexpr (kKind == Checksum::kCrc32c || kKind == Checksum::kCrc32) {
      const std::uint32_t start =
          multiply(0xFFFFFFFF, checksum::power_of(*job.tables, payload.bytes), job.tables->polynomial);
      computed = ~(sums.x ^ start);
    } else if constexpr (kKind == Checksum::kAdler32) {
      const std::uint64_t low = (sums.x + std::uint64_t{1}) % checksum::kAdlerModulus;
      const std::uint64_t high = (sums.y + payload.bytes % checksum::kAdlerModulus) % checksum::kAdlerModulus;
      computed = static_cast<std::uint32_t>(high << 16 | low);
    } else {
      computed = sums.y << 16 | sums.x;
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

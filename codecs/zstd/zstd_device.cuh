// Decodes Zstandard streams (RFC 8878) on the GPU, for every codec that contains them.
//
// A batch is a list of streams: lz77_streams.h. zstd_job_device.cuh describes the steps.
//
// Accepts and refuses the same streams as zstd_codec.cc, or leaves the chunk to the CPU (kHostOnly), which then
// decides. It leaves to the CPU: what the versions of libzstd disagree about and no encoder writes, dictionaries,
// streams above 1 GiB, and streams with more blocks than Allowance permits.
//
// Safety: all stream bytes are untrusted. A damaged stream lowers its chunk's outcome and writes nothing outside its
// dst.
#pragma once

#include <cstdint>

#include "codecs/lz77/lz77_streams.h"

namespace headrace::codec::gpu {

enum class ZstdKind : std::uint32_t {
  kFrames,  // concatenated frames and skippable frames
  kNone,    // nothing to do
};

struct ZstdStream {
  const unsigned char* src;
  unsigned char* dst;
  std::uint64_t src_bytes;
  std::uint64_t dst_bytes;  // in: capacity; out: bytes produced, if the chunk is good
  std::uint32_t chunk;      // index into outcomes; a chunk that is already bad is skipped
  ZstdKind kind;
  std::uint64_t enough = 0;  // decode only this many first bytes; dst still has room for all; 0: decode all
};
static_assert(sizeof(ZstdStream) == 48);

struct ZstdJob : lz77::StreamJob<ZstdStream> {
  bool single_frame = false;       // a stream is exactly one frame
  device::gpu::IndexMemory index;  // per chunk; the streams of a chunk are adjacent
};

// Upper bound on the size of a chunk's index: 1.05 % of its decoded size.
std::uint64_t zstd_index_bytes(std::uint64_t dst_bytes) noexcept;
// Scratch that one batch within these limits needs; defined in zstd_job_device.cuh.
inline std::uint64_t zstd_scratch_bytes(const lz77::StreamLimits& limits) noexcept;
// Queues the launches. Returns a cudaError_t.
int enqueue_zstd(const ZstdJob& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu

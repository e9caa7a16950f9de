// Zstandard streams (RFC 8878) decoded on the GPU, for every codec that contains them.
//
// A batch is a list of streams: lz77_streams.h. zstd_job_device.cuh says how it is done.
//
// Accepts and refuses what zstd_codec.cc does, or leaves the chunk to the CPU (kHostOnly), upon which the CPU decides.
// That is so for what the versions of libzstd disagree about and no encoder writes, for dictionaries, for streams
// above 1 GiB, and for those with more blocks than Allowance.
//
// Safety: every stream's bytes are hostile. A bad one lowers its chunk's outcome and writes nothing outside its dst.
#pragma once

#include <cstdint>

#include "codecs/lz77/lz77_streams.h"

namespace headrace::codec::gpu {

enum class ZstdKind : std::uint32_t {
  kFrames,  // frames and skippable frames, one behind the other
  kNone,    // nothing to do
};

struct ZstdStream {
  const unsigned char* src;
  unsigned char* dst;
  std::uint64_t src_bytes;
  std::uint64_t dst_bytes;  // in: room; out: produced, if the chunk is good
  std::uint32_t chunk;      // index into outcomes; a chunk that is bad already is left alone
  ZstdKind kind;
  std::uint64_t enough = 0;  // of the first bytes, with room for all; 0: all are wanted
};
static_assert(sizeof(ZstdStream) == 48);

struct ZstdJob : lz77::StreamJob<ZstdStream> {
  bool single_frame = false;       // a stream is one frame and nothing else
  device::gpu::IndexMemory index;  // by chunk, whose streams are neighbours
};

// Most bytes of a chunk's index: 1.05 % of what it decodes to.
std::uint64_t zstd_index_bytes(std::uint64_t dst_bytes) noexcept;
// What one batch of these limits takes; zstd_job_device.cuh.
inline std::uint64_t zstd_scratch_bytes(const lz77::StreamLimits& limits) noexcept;
// Queues the launches; a cudaError_t.
int enqueue_zstd(const ZstdJob& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu

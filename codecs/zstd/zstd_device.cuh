// Zstandard streams (RFC 8878) decoded on the GPU, for every codec that contains them.
//
// A batch is a list of streams in device memory, made there or on the host. The number of streams need not be known on
// the host, only a bound. zstd_job.cuh says how it is done.
//
// Accepts and refuses what zstd_codec.cc does, or leaves the chunk to the CPU (kHostOnly), upon which the CPU decides.
// That is so for what the versions of libzstd disagree about and no encoder writes, for dictionaries, for streams
// above 1 GiB, and for those with more blocks than Allowance.
//
// Safety: every stream's bytes are hostile. A bad one lowers its chunk's outcome and writes nothing outside its dst.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu_stage.h"

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

struct ZstdLimits {
  std::uint32_t streams = 0;                   // at most
  std::uint32_t least_streams = 0;             // at least, as far as the host knows
  std::uint64_t src_bytes = 0, dst_bytes = 0;  // of all streams together, at most
};

struct ZstdJob {
  ZstdStream* streams = nullptr;         // device memory, any alignment of src and dst
  const std::uint32_t* count = nullptr;  // device memory; at most limits.streams
  ZstdLimits limits;
  bool exact = true;                  // streams must fill their dst
  bool single_frame = false;          // a stream is one frame and nothing else
  std::uint64_t* outcomes = nullptr;  // device memory, by chunk
  unsigned stage = 0;
  std::byte* scratch = nullptr;  // device memory, aligned to 256 bytes
  std::uint64_t scratch_bytes = 0;
  int multiprocessors = 1;
  device::gpu::Marks marks;
  device::gpu::IndexMemory index;  // by chunk, whose streams are neighbours
};

// Most bytes of a chunk's index: 1.05 % of what it decodes to.
std::uint64_t zstd_index_bytes(std::uint64_t dst_bytes) noexcept;
// What one batch of these limits takes; zstd_job_device.cuh.
inline std::uint64_t zstd_scratch_bytes(const ZstdLimits& limits) noexcept;
// Queues the launches; a cudaError_t.
int enqueue_zstd(const ZstdJob& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu

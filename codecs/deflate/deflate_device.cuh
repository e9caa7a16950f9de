// DEFLATE streams (RFC 1951) in their zlib (RFC 1950) and gzip (RFC 1952) wrappers decoded on the GPU, for every codec
// that contains them.
//
// A batch is a list of streams: lz77_streams.h. deflate_job_device.cuh says how it is done.
//
// Accepts and refuses what gzip_codec.cc and zlib_codec.cc do, or leaves the chunk to the CPU (kHostOnly), upon which
// the CPU decides. That is so for what libdeflate takes and zlib does not, for gzip headers above 1 KiB, for streams
// above 256 MiB (decoded: 1 GiB), and for those with more blocks than Allowance.
//
// Safety: every stream's bytes are hostile. A bad one lowers its chunk's outcome and writes nothing outside its dst.
#pragma once

#include <cstdint>

#include "codecs/lz77/lz77_streams.h"

namespace headrace::codec::gpu {

enum class DeflateKind : std::uint32_t {
  kGzip,  // members, one behind the other
  kZlib,
  kNone,  // nothing to do
};

struct DeflateStream {
  const unsigned char* src;
  unsigned char* dst;
  std::uint64_t src_bytes;
  std::uint64_t dst_bytes;  // in: room; out: produced, if the chunk is good
  std::uint32_t chunk;      // index into outcomes; a chunk that is bad already is left alone
  DeflateKind kind;
};
static_assert(sizeof(DeflateStream) == 40);

using DeflateJob = lz77::StreamJob<DeflateStream>;

// What one batch of these limits takes; deflate_job_device.cuh.
inline std::uint64_t deflate_scratch_bytes(const lz77::StreamLimits& limits) noexcept;
// Queues the launches; a cudaError_t.
int enqueue_deflate(const DeflateJob& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu

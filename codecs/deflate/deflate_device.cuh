// Decodes DEFLATE streams (RFC 1951) in zlib (RFC 1950) and gzip (RFC 1952) wrappers on the GPU, for every codec that
// contains them.
//
// A batch is a list of streams: lz77_streams.h. deflate_job_device.cuh describes the steps.
//
// Accepts and refuses the same streams as gzip_codec.cc and zlib_codec.cc, or leaves the chunk to the CPU (kHostOnly),
// which then decides. It leaves to the CPU: what libdeflate accepts and zlib does not, gzip headers above 1 KiB,
// streams above 256 MiB (decoded: 1 GiB), and streams with more blocks than Allowance permits.
//
// Safety: all stream bytes are untrusted. A damaged stream lowers its chunk's outcome and writes nothing outside its
// dst.
#pragma once

#include <cstdint>

#include "codecs/lz77/lz77_streams.h"

namespace headrace::codec::gpu {

enum class DeflateKind : std::uint32_t {
  kGzip,  // concatenated members
  kZlib,
  kNone,  // nothing to do
};

struct DeflateStream {
  const unsigned char* src;
  unsigned char* dst;
  std::uint64_t src_bytes;
  std::uint64_t dst_bytes;  // in: capacity; out: bytes produced, if the chunk is good
  std::uint32_t chunk;      // index into outcomes; a chunk that is already bad is skipped
  DeflateKind kind;
};
static_assert(sizeof(DeflateStream) == 40);

using DeflateJob = lz77::StreamJob<DeflateStream>;

// Scratch that one batch within these limits needs; defined in deflate_job_device.cuh.
inline std::uint64_t deflate_scratch_bytes(const lz77::StreamLimits& limits) noexcept;
// Queues the launches. Returns a cudaError_t.
int enqueue_deflate(const DeflateJob& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu

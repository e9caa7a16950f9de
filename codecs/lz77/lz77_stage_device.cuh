// Builds the list of streams for codecs with one stream per chunk: device code without a CUDA header.
//
// A codec describes its streams by a type `Format` with
//   using Stream, Job                                           a StreamJob<Stream>, or a type derived from one
//   Stream stream(const device::gpu::Chunk&, std::uint32_t i) const    of chunk i, on the device
//   static std::uint64_t scratch_bytes(const StreamLimits&)     scratch that one batch needs
// and, for StreamStage:
//   static int enqueue(const Job&, device::gpu::NativeStream)   a cudaError_t
//   static std::uint64_t index_bytes(std::uint64_t dst_bytes)   see GpuCodec
//   static constexpr bool kEndsEarly
#pragma once

#include "lz77_layout.h"
#include "lz77_streams.h"

namespace headrace::codec::gpu::lz77 {

inline StreamLimits limits_of(const device::gpu::Limits& limits) {
  StreamLimits out;
  out.streams = out.min_streams = limits.chunks;
  out.src_bytes = limits.src_bytes;
  out.dst_bytes = limits.dst_bytes;
  return out;
}

template <class Format>
std::uint64_t stage_scratch_bytes(const device::gpu::Limits& limits) {
  return device::gpu::max_scratch(limits, TileLayout::kMaxStreams, [](const device::gpu::Limits& batch) {
    return device::gpu::StreamList<typename Format::Stream>::end(batch.chunks) +
           Format::scratch_bytes(limits_of(batch));
  });
}

// One thread per chunk.
template <class Format>
__device__ inline void list_streams_body(const Format& format, const device::gpu::Chunk* chunks, std::uint32_t count,
                                         typename Format::Stream* streams, std::uint32_t* streams_count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *streams_count = count;
  if (i < count) streams[i] = format.stream(chunks[i], i);
}

// Stores the decoded sizes in the chunks. One thread per chunk.
template <class Stream>
__device__ inline void tell_sizes_body(device::gpu::Chunk* chunks, std::uint32_t count, const Stream* streams,
                                       const std::uint64_t* outcomes) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && outcomes[i] == device::DecodeOutcome::kOk) chunks[i].dst_bytes = streams[i].dst_bytes;
}

}  // namespace headrace::codec::gpu::lz77

// The streams of a batch, as input of the zstd and DEFLATE decoders: a list in device memory, built there or on the
// host. The host needs to know only an upper bound on the number of streams.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu_stage.h"

namespace headrace::codec::gpu::lz77 {

struct StreamLimits {
  std::uint32_t streams = 0;                   // upper bound
  std::uint32_t min_streams = 0;               // lower bound that the host knows
  std::uint64_t src_bytes = 0, dst_bytes = 0;  // upper bounds, of all streams together
};

template <class Stream>
struct StreamJob {
  Stream* streams = nullptr;             // device memory, any alignment of src and dst
  const std::uint32_t* count = nullptr;  // device memory; at most limits.streams
  StreamLimits limits;
  bool exact = true;                  // streams must fill their dst
  std::uint64_t* outcomes = nullptr;  // device memory, by chunk
  unsigned stage = 0;
  std::byte* scratch = nullptr;  // device memory, aligned to 256 bytes
  std::uint64_t scratch_bytes = 0;
  int multiprocessors = 1;
  device::gpu::Marks marks;
};

}  // namespace headrace::codec::gpu::lz77

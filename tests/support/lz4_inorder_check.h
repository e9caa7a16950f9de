// Runs the device code of the in-order decoder on the CPU and compares it with liblz4: same verdict, same bytes, no
// access outside the buffers. Included by a test and a fuzz target, once per program.
#pragma once

// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <span>

#include "codecs/lz4/lz4_inorder_device.cuh"
#include "tests/support/lz4_blocks.h"

namespace headrace::test {

// Decodes a list of streams, one per outcome.
template <unsigned kLanes>
void decode_in_order(std::span<const codec::gpu::Lz4Stream> streams, std::span<std::uint64_t> outcomes,
                     unsigned blocks = 1, unsigned stage = 0) {
  constexpr unsigned kThreads = 32;
  alignas(128) static unsigned char shared[codec::gpu::kLz4InorderSharedBytes<kLanes, kThreads>];
  testing::gpu::launch(blocks, kThreads, [&] {
    codec::gpu::lz4_inorder_body<kLanes>(streams.data(), static_cast<std::uint32_t>(streams.size()), outcomes.data(),
                                         stage, shared);
  });
}

inline void decode_in_order(unsigned lanes, std::span<const codec::gpu::Lz4Stream> streams,
                            std::span<std::uint64_t> outcomes, unsigned blocks = 1, unsigned stage = 0) {
  switch (lanes) {
    case 4:
      return decode_in_order<4>(streams, outcomes, blocks, stage);
    case 8:
      return decode_in_order<8>(streams, outcomes, blocks, stage);
    case 16:
      return decode_in_order<16>(streams, outcomes, blocks, stage);
    default:
      return decode_in_order<32>(streams, outcomes, blocks, stage);
  }
}

// Compares with liblz4, with the given number of lanes per stream.
class InorderBeside : public Lz4Beside {
 public:
  using Lz4Beside::Lz4Beside;
  const char* check(std::span<const std::byte> block, std::size_t plain_bytes, unsigned lanes, Flush flush) {
    return Lz4Beside::check(block, plain_bytes, flush, [&](auto streams, auto outcomes, unsigned stage) {
      decode_in_order(lanes, streams, outcomes, 1, stage);
    });
  }
};

}  // namespace headrace::test

// Runs the device code of the decoder of small LZ4 streams on the CPU and compares it with liblz4. The in-order decoder
// takes the streams it leaves, as on a GPU. Included by a test and a fuzz target, once per program.
#pragma once

// clang-format off: gives the device code its keywords
#include "tests/support/lz4_inorder_check.h"
// clang-format on

#include <memory>
#include <span>
#include <vector>

#include "codecs/lz4/lz4_cluster_device.cuh"

namespace headrace::test {

// A block of one warp, with windows so small that few bytes cross them; and the shape that a GPU uses (lz4_small.cu).
using OneWarp = codec::gpu::small::Shape<16384, 1024, 512, 32>;
using Large = codec::gpu::small::Shape<262144, 16384, 24576, 512>;

// The same shapes for clusters.
using ClusterOneWarp = codec::gpu::small::Shape<16384, 1024, 512, 32, std::uint32_t>;
using ClusterLarge = codec::gpu::small::Shape<262144, 16384, 32768, 1024, std::uint32_t>;

inline constexpr std::uint32_t kMaxSmallStreams = 100;  // largest batch that decode_small() takes
// How many streams the last decode_small() or decode_clusters() decoded itself.
inline std::size_t small_decoded = 0;
// The state of the first stream after it.
inline codec::gpu::Lz4Stream small_left{};

template <class S>
void decode_small(std::span<const codec::gpu::Lz4Stream> streams, std::span<std::uint64_t> outcomes,
                  unsigned blocks = 1, unsigned stage = 0) {
  static const auto shared = std::make_unique<codec::gpu::small::Shared<S>>();
  std::memset(static_cast<void*>(shared.get()), 0xCD, sizeof *shared);
  std::vector<codec::gpu::Lz4Stream> list(streams.begin(), streams.end());
  std::uint32_t ticket = 0;
  testing::gpu::launch(blocks, S::kThreads, [&] {
    codec::gpu::small::decode_small_body<S>(list.data(), static_cast<std::uint32_t>(list.size()), kMaxSmallStreams,
                                            &ticket, outcomes.data(), *shared);
  });
  small_decoded = static_cast<std::size_t>(std::count_if(
      list.begin(), list.end(), [](const auto& stream) { return stream.kind == codec::gpu::Lz4Kind::kNone; }));
  small_left = list.front();
  decode_in_order<32>(list, outcomes, 1, stage);
}

template <class S, unsigned kBlocks>
void decode_clusters(std::span<const codec::gpu::Lz4Stream> streams, std::span<std::uint64_t> outcomes,
                     unsigned clusters = 1, unsigned stage = 0) {
  using Shared = codec::gpu::small::ClusterShared<S>;
  static const auto shared = std::make_unique<Shared[]>(kBlocks);
  std::memset(static_cast<void*>(shared.get()), 0xCD, kBlocks * sizeof(Shared));
  std::vector<codec::gpu::Lz4Stream> list(streams.begin(), streams.end());
  testing::gpu::launch_clusters<Shared>(clusters, kBlocks, S::kThreads, shared.get(), [&](Shared& of_block) {
    codec::gpu::small::decode_cluster_body<S>(list.data(), static_cast<std::uint32_t>(list.size()),
                                              codec::gpu::small::kMaxTurns, outcomes.data(), of_block);
  });
  small_decoded = static_cast<std::size_t>(std::count_if(
      list.begin(), list.end(), [](const auto& stream) { return stream.kind == codec::gpu::Lz4Kind::kNone; }));
  small_left = list.front();
  decode_in_order<32>(list, outcomes, 1, stage);
}

// Compares with liblz4.
class SmallBeside : public Lz4Beside {
 public:
  using Lz4Beside::Lz4Beside;
  template <class S>
  const char* check(std::span<const std::byte> block, std::size_t plain_bytes, Flush flush) {
    return Lz4Beside::check(block, plain_bytes, flush, [&](auto streams, auto outcomes, unsigned stage) {
      decode_small<S>(streams, outcomes, 1, stage);
    });
  }
  template <class S, unsigned kBlocks>
  const char* check_clusters(std::span<const std::byte> block, std::size_t plain_bytes, Flush flush) {
    return Lz4Beside::check(block, plain_bytes, flush, [&](auto streams, auto outcomes, unsigned stage) {
      decode_clusters<S, kBlocks>(streams, outcomes, 1, stage);
    });
  }
};

}  // namespace headrace::test

// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include "codecs/zstd/zstd_checksum_device.cuh"
#include "codecs/zstd/zstd_entropy_device.cuh"
#include "codecs/zstd/zstd_output_device.cuh"
#include "codecs/zstd/zstd_segments_device.cuh"
#include "tests/support/zstd_on_cpu.h"

namespace headrace::test {
namespace {

namespace zstd = codec::gpu::zstd;

constexpr unsigned kThreads = 64;

template <class Body>
void kernel(unsigned blocks, unsigned threads, const Body& body) {
  testing::gpu::launch(blocks, threads, body);
}
template <class Body>
void launch(unsigned blocks, const Body& body) {
  testing::gpu::launch(blocks, kThreads, body);
}
template <std::int32_t kShareBits>
void literals_by_warp(const zstd::Job& job, std::uint32_t r, unsigned blocks) {
  static zstd::WarpLiteralsSpace<kShareBits> spaces[kThreads / 32];
  launch(blocks, [&] { zstd::literals_by_warp_body(job, r, spaces[threadIdx.x / 32]); });
}
template <unsigned kBlocks>
void walk(const zstd::Job& job, std::uint32_t r, unsigned blocks) {
  static zstd::WalkSpace<kBlocks> spaces[kThreads / 32];
  launch(blocks, [&] { zstd::walk_body<kBlocks>(job, r, spaces); });
}

}  // namespace

void ZstdOnCpu::run(const zstd::Job& job) {
  static std::uint32_t words[kThreads / 32];
  static std::uint64_t long_words[kThreads / 32];
  static zstd::EntropySpace entropy;
  static zstd::ExtractSpace<kThreads> extract;
  static std::uint32_t ticket;
  if (part_bytes != 0) {
    static zstd::ChainSpace chains;
    launch(1, [&] { zstd::chains_body(job, 1, chains); });
  }
  launch(blocks, [&] { zstd::frames_body(job); });
  launch(1, [&] { zstd::scan_blocks_body(job, words); });
  launch(blocks, [&] { zstd::parse_body(job); });
  launch(blocks, [&] { zstd::sources_body(job); });
  launch(1, [&] { zstd::scan_units_body(job, long_words); });
  launch(blocks, [&] { zstd::place_body(job); });
  launch(blocks, [&] { zstd::list_body(job); });
  static zstd::IndexedSpace<4> few;
  static zstd::IndexedSpace<8> many;
  for (std::uint32_t r = 0; r < job.rounds.count; ++r) {
    if (job.index.any_given && walks == 1) {
      kernel(blocks + 1, zstd::kLiteralsWarps * 32, [&] { zstd::indexed_body<4>(job, r, blocks, few); });
    } else if (job.index.any_given) {
      kernel(blocks + 1, zstd::kLiteralsWarps * 32, [&] { zstd::indexed_body<8>(job, r, blocks, many); });
    }
    if (walks == 1) {
      kernel(blocks + 1, zstd::kLiteralsWarps * 32, [&] { zstd::entropy_body(job, r, blocks, entropy); });
    } else {
      if (walks == 4) literals_by_warp<zstd::kLaneBits>(job, r, blocks);
      if (walks == 8) literals_by_warp<zstd::kShortLaneBits>(job, r, blocks);
    }
    if (walks == 4) walk<4>(job, r, blocks);
    if (walks == 8) walk<8>(job, r, blocks);
    if (walks == 1) {
      static zstd::ExtractSpace<8 * kThreads> large;
      kernel(blocks, 8 * kThreads, [&] { zstd::extract_body(job, r, large); });
    } else {
      launch(blocks, [&] { zstd::extract_body(job, r, extract); });
    }
    launch(blocks, [&] { zstd::settle_body(job, r); });
    launch(blocks, [&] { zstd::check_body(job, r, ticket); });
    Lz77OnCpu::write(zstd::Output{job, r}, job.tiles, job.round[r].output, way, blocks);
  }
  launch(blocks, [&] { zstd::checksums_body(job); });
}

}  // namespace headrace::test

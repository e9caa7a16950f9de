// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include "codecs/deflate/deflate_chain_device.cuh"
#include "codecs/deflate/deflate_checksum_device.cuh"
#include "codecs/deflate/deflate_find_device.cuh"
#include "codecs/deflate/deflate_output_device.cuh"
#include "codecs/deflate/deflate_pieces_device.cuh"
#include "tests/support/deflate_on_cpu.h"

namespace headrace::test {
namespace {

namespace deflate = codec::gpu::deflate;

constexpr unsigned kThreads = 64;

template <class Body>
void launch(unsigned blocks, const Body& body) {
  testing::gpu::launch(blocks, kThreads, body);
}

}  // namespace

void DeflateOnCpu::run(const deflate::Job& job) {
  static codec::gpu::lz77::ScanShared<deflate::StreamShares> shares;
  static codec::gpu::lz77::ScanShared<deflate::StreamOutput> outputs;
  static std::uint64_t sums[kThreads / 32];
  static deflate::FindSpace find;
  static deflate::TraceSpace<1> spaces[kThreads / 32];
  static deflate::TraceSpace<deflate::kWidth> wide_space;
  static deflate::ChainSpace chain_spaces[kThreads / 32];
  static deflate::DecodeSpace<1> decode_spaces[kThreads / 32];
  static deflate::DecodeSpace<deflate::kWidth> wide_decode_space;
  const auto wide = [&](const auto& body) { testing::gpu::launch(blocks, 32 * deflate::kWidth, body); };
  static const codec::gpu::CrcTables tables = codec::gpu::make_crc_tables(codec::gpu::kCrc32Polynomial);
  static codec::gpu::ChecksumShared checksum;
  launch(blocks, [&] { deflate::begin_body(job); });
  testing::gpu::launch(blocks, codec::gpu::lz77::kScanTileThreads, [&] { deflate::share_body(job, shares); });
  launch(blocks, [&] { deflate::find_body(job, find); });
  wide([&] { deflate::trace_body<deflate::kWidth>(job, wide_space); });
  launch(blocks, [&] { deflate::trace_body<1>(job, spaces[threadIdx.x / 32]); });
  launch(blocks, [&] { deflate::chain_body(job, chain_spaces[threadIdx.x / 32]); });
  testing::gpu::launch(blocks, codec::gpu::lz77::kScanTileThreads, [&] { deflate::scan_body(job, outputs); });
  launch(blocks, [&] { deflate::list_body(job); });
  launch(1, [&] { deflate::rounds_body(job, sums); });
  launch(blocks, [&] { deflate::place_body(job); });
  for (std::uint32_t r = 0; r < job.rounds.count; ++r) {
    wide([&] { deflate::decode_body<deflate::kWidth>(job, r, wide_decode_space); });
    launch(blocks, [&] { deflate::decode_body<1>(job, r, decode_spaces[threadIdx.x / 32]); });
    Lz77OnCpu::write(deflate::Output{job, r}, job.tiles, job.round[r].output, way, blocks);
  }
  testing::gpu::launch(blocks, codec::gpu::kChecksumThreads, [&] { deflate::sums_body(job, tables, checksum); });
  launch(blocks, [&] { deflate::join_body(job, tables); });
  launch(blocks, [&] { deflate::verdict_body(job, tables); });
}

}  // namespace headrace::test

// The zstd decoder's device code run on the CPU, launch by launch as zstd.cu does it.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "codecs/lz77/lz77_inorder_device.cuh"
#include "codecs/lz77/lz77_tiles_device.cuh"
#include "codecs/lz77/lz77_windows_device.cuh"
#include "codecs/zstd/zstd_checksum_device.cuh"
#include "codecs/zstd/zstd_entropy_device.cuh"
#include "codecs/zstd/zstd_output_device.cuh"
#include "tests/support/guard_buffer.h"

namespace headrace::test {

class ZstdOnCpu {
 public:
  struct Item {
    std::span<const std::byte> stream;
    std::span<std::byte> dst;
    device::DecodeOutcome outcome;  // out
    std::size_t produced = 0;       // out
  };

  // More blocks than on a GPU, so that small ones are decoded here and not left to the CPU.
  codec::gpu::zstd::Allowance allowance{.base = 64, .bytes_per_block = 4};
  std::uint64_t most_bytes = ~std::uint64_t{0};  // of places; 0: as few as there may be, so as many rounds
  unsigned blocks = 2;                           // of each launch
  enum class Way { kInOrder, kWindows, kTiles };
  Way way = Way::kInOrder;  // in which the output is written
  unsigned walks = 1;       // blocks side by side: 4, 8, or 1 and literals in the same launch

  // One chunk for each item.
  void decode(std::span<Item> items, bool exact) {
    namespace zstd = codec::gpu::zstd;
    std::vector<codec::gpu::ZstdStream> streams;
    std::vector<std::uint64_t> outcomes(items.size(), device::DecodeOutcome::kOk);
    codec::gpu::ZstdLimits limits;
    for (const Item& item : items) {
      streams.push_back({reinterpret_cast<const unsigned char*>(item.stream.data()),
                         reinterpret_cast<unsigned char*>(item.dst.data()), item.stream.size(), item.dst.size(),
                         static_cast<std::uint32_t>(streams.size()), codec::gpu::ZstdKind::kFrames});
      limits.src_bytes += item.stream.size();
      limits.dst_bytes += item.dst.size();
    }
    limits.streams = static_cast<std::uint32_t>(items.size());
    decode_streams(streams, limits, exact, false, outcomes, kStage);
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].outcome.word = outcomes[i];
      items[i].produced = streams[i].dst_bytes;
    }
  }

  // As enqueue_zstd does it.
  void decode_streams(std::span<codec::gpu::ZstdStream> streams, const codec::gpu::ZstdLimits& limits, bool exact,
                      bool single_frame, std::span<std::uint64_t> outcomes, unsigned stage) {
    namespace zstd = codec::gpu::zstd;
    namespace lz77 = codec::gpu::lz77;
    const auto count = static_cast<std::uint32_t>(streams.size());
    const zstd::Layout layout(limits, allowance, most_bytes,
                              lz77::TileLayout(0, limits.streams, limits.dst_bytes, kWindow, kSlice));
    zstd::Job job;
    job.streams = streams.data();
    job.count = &count;
    job.most_streams = limits.streams;
    job.outcomes = outcomes.data();
    job.stage = stage;
    job.exact = exact;
    job.single_frame = single_frame;
    job.allowance = allowance;
    if (scratch_ == nullptr || scratch_->size() != layout.end) {
      scratch_ = std::make_unique<GuardBuffer>(layout.end, Flush::kRight);
    }
    if (reinterpret_cast<std::uintptr_t>(scratch_->data()) % 16 != 0) std::abort();
    layout.fill_in(job, scratch_->data());
    std::memset(scratch_->data(), 0, layout.zeroed_bytes);
    run(job);
    rounds_used = 0;
    for (std::uint32_t r = 0; r < job.rounds; ++r) rounds_used += job.round[r].first != job.round[r + 1].first;
    for (std::uint32_t x = 0; x < job.totals->blocks; ++x) last_blocks.push_back(job.blocks[x]);
  }

  static constexpr unsigned kStage = 3;
  std::uint32_t rounds_used = 0;                     // of the last batch
  std::vector<codec::gpu::zstd::Block> last_blocks;  // of all batches since it was cleared

 private:
  static constexpr unsigned kThreads = 64;
  static constexpr std::uint32_t kWindow = 1024, kSlice = 10;  // so that blocks have many, and several slices
  template <class Body>
  static void launch(unsigned blocks, const Body& body) {
    testing::gpu::launch(blocks, kThreads, body);
  }
  void run(const codec::gpu::zstd::Job& job) {
    namespace zstd = codec::gpu::zstd;
    namespace lz77 = codec::gpu::lz77;
    static std::uint32_t words[kThreads];
    static std::uint64_t long_words[kThreads];
    static zstd::EntropySpace entropy;
    static zstd::ExtractSpace<kThreads> extract;
    static std::uint32_t ticket;
    static lz77::WindowSpace<kWindow> window;
    static lz77::PlanSpace plan;
    static lz77::TileSpace<kWindow> tile;
    launch(1, [&] { zstd::share_body(job, words); });
    launch(blocks, [&] { zstd::frames_body(job); });
    launch(1, [&] { zstd::scan_blocks_body(job, words); });
    launch(blocks, [&] { zstd::parse_body(job); });
    launch(blocks, [&] { zstd::sources_body(job); });
    launch(1, [&] { zstd::scan_units_body(job, long_words); });
    launch(blocks, [&] { zstd::place_body(job); });
    launch(blocks, [&] { zstd::list_body(job); });
    for (std::uint32_t r = 0; r < job.rounds; ++r) {
      if (walks == 1) {
        launch(blocks + 1, [&] { zstd::entropy_body(job, r, blocks, entropy); });
      } else {
        launch(blocks, [&] { zstd::literals_body(job, r, entropy.literals); });
      }
      if (walks == 4) walk<4>(job, r);
      if (walks == 8) walk<8>(job, r);
      launch(blocks, [&] { zstd::extract_body(job, r, extract); });
      launch(blocks, [&] { zstd::settle_body(job, r); });
      launch(blocks, [&] { zstd::check_body(job, r, ticket); });
      const zstd::Output output{job, r};
      lz77::Progress& progress = job.round[r].output;
      const std::uint32_t count = job.stream_count();
      const lz77::Choice choice{way == Way::kTiles ? count : 0, way == Way::kInOrder ? 0 : count};
      launch(1, [&] { lz77::plan_tiles_body<kWindow>(output, choice, job.tiles, progress, plan); });
      launch(blocks, [&] { lz77::tiles_body(output, choice, job.tiles, progress, tile); });
      launch(blocks, [&] { lz77::windows_body(output, choice, progress, window); });
      launch(blocks, [&] { lz77::inorder_body(output, choice.most_by_windows, progress); });
    }
    launch(blocks, [&] { zstd::checksums_body(job); });
  }
  template <unsigned kBlocks>
  void walk(const codec::gpu::zstd::Job& job, std::uint32_t r) {
    namespace zstd = codec::gpu::zstd;
    static zstd::WalkSpace<kBlocks> spaces[kThreads / 32];
    launch(blocks, [&] { zstd::walk_body<kBlocks>(job, r, spaces); });
  }
  std::unique_ptr<GuardBuffer> scratch_;
};

}  // namespace headrace::test

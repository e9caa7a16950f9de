// The DEFLATE decoder's device code run on the CPU, launch by launch as deflate.cu does it.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "codecs/deflate/deflate_chain_device.cuh"
#include "codecs/deflate/deflate_checksum_device.cuh"
#include "codecs/deflate/deflate_find_device.cuh"
#include "codecs/deflate/deflate_output_device.cuh"
#include "codecs/deflate/deflate_pieces_device.cuh"
#include "codecs/lz77/lz77_inorder_device.cuh"
#include "codecs/lz77/lz77_tiles_device.cuh"
#include "codecs/lz77/lz77_windows_device.cuh"
#include "tests/support/guard_buffer.h"

namespace headrace::test {

class DeflateOnCpu {
 public:
  struct Item {
    std::span<const std::byte> stream;
    std::span<std::byte> dst;
    device::DecodeOutcome outcome;  // out
    std::size_t produced = 0;       // out
  };

  // More blocks than on a GPU, so that small ones are decoded here and not left to the CPU.
  codec::gpu::deflate::Allowance allowance{.blocks_per_segment = 512};
  codec::gpu::DeflateKind kind = codec::gpu::DeflateKind::kGzip;
  std::uint64_t most_bytes = ~std::uint64_t{0};  // of places; 0: as few as there may be, so as many rounds
  unsigned blocks = 2;                           // of each launch
  enum class Way { kInOrder, kWindows, kTiles };
  Way way = Way::kInOrder;  // in which the output is written
  bool search = true;       // for blocks

  // One chunk for each item.
  void decode(std::span<Item> items, bool exact) {
    std::vector<codec::gpu::DeflateStream> streams;
    std::vector<std::uint64_t> outcomes(items.size(), device::DecodeOutcome::kOk);
    codec::gpu::DeflateLimits limits;
    for (const Item& item : items) {
      streams.push_back({reinterpret_cast<const unsigned char*>(item.stream.data()),
                         reinterpret_cast<unsigned char*>(item.dst.data()), item.stream.size(), item.dst.size(),
                         static_cast<std::uint32_t>(streams.size()), kind});
      limits.src_bytes += item.stream.size();
      limits.dst_bytes += item.dst.size();
    }
    limits.streams = static_cast<std::uint32_t>(items.size());
    decode_streams(streams, limits, exact, outcomes, kStage);
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].outcome.word = outcomes[i];
      items[i].produced = streams[i].dst_bytes;
    }
  }

  // As enqueue_deflate does it.
  void decode_streams(std::span<codec::gpu::DeflateStream> streams, const codec::gpu::DeflateLimits& limits, bool exact,
                      std::span<std::uint64_t> outcomes, unsigned stage) {
    namespace deflate = codec::gpu::deflate;
    namespace lz77 = codec::gpu::lz77;
    const auto count = static_cast<std::uint32_t>(streams.size());
    const deflate::Layout layout(limits, allowance, most_bytes,
                                 lz77::TileLayout(0, limits.streams, limits.dst_bytes, kWindow, kSlice));
    deflate::Job job;
    job.streams = streams.data();
    job.count = &count;
    job.most_streams = limits.streams;
    job.outcomes = outcomes.data();
    job.stage = stage;
    job.exact = exact;
    job.allowance = allowance;
    job.most_searched = search ? count : 0;
    if (scratch_ == nullptr || scratch_->size() != layout.end) {
      scratch_ = std::make_unique<GuardBuffer>(layout.end, Flush::kRight);
    }
    if (reinterpret_cast<std::uintptr_t>(scratch_->data()) % 16 != 0) std::abort();
    layout.fill_in(job, scratch_->data());
    std::memset(scratch_->data(), 0, layout.zeroed_bytes);
    run(job);
    if (!scratch_->intact()) std::abort();
    if (job.totals->pieces > layout.piece_count || job.totals->segments > layout.segment_count) std::abort();
    for (std::uint32_t i = 0; i < count; ++i) {
      const deflate::StreamState& state = job.states[i];
      if (state.first_block + state.blocks > layout.block_count) std::abort();
      if (state.first_cell + state.cells > layout.cell_count) std::abort();
    }
    for (std::uint32_t x = 0; x < job.totals->pieces; ++x) {
      const deflate::Piece& piece = job.pieces[x];
      const std::uint64_t units = deflate::literal_units(piece.literal_bytes) + deflate::slot_units(piece.sequences) +
                                  deflate::checkpoint_units(piece.sequences);
      if (piece.bytes > deflate::kMaxPieceBytes) std::abort();
      if (layout.places + (piece.place + units) * deflate::kUnitBytes > layout.tiles) std::abort();
    }
    rounds_used = 0;
    for (std::uint32_t r = 0; r < job.rounds; ++r) rounds_used += job.round[r].first != job.round[r + 1].first;
    runs += job.totals->runs;
    pieces += job.totals->pieces;
    for (std::uint32_t x = 0; x < job.totals->segments; ++x) runs_left += job.starts[x] != deflate::kNone;
  }

  static constexpr unsigned kStage = 3;
  std::uint32_t rounds_used = 0;                      // of the last batch
  std::uint64_t runs = 0, runs_left = 0, pieces = 0;  // of all batches: found, and those that were right

 private:
  static constexpr unsigned kThreads = 64;
  static constexpr std::uint32_t kWindow = 1024, kSlice = 10;  // so that blocks have many, and several slices
  template <class Body>
  static void launch(unsigned blocks, const Body& body) {
    testing::gpu::launch(blocks, kThreads, body);
  }
  void run(const codec::gpu::deflate::Job& job) {
    namespace deflate = codec::gpu::deflate;
    namespace lz77 = codec::gpu::lz77;
    static std::uint32_t words[kThreads];
    static std::uint64_t long_words[kThreads];
    static deflate::FindSpace find;
    static deflate::TraceSpace spaces[kThreads / 32];
    static lz77::WindowSpace<kWindow> window;
    static lz77::PlanSpace plan;
    static lz77::TileSpace<kWindow> tile;
    static const codec::gpu::CrcTables tables = codec::gpu::make_crc_tables(0xEDB88320);
    static codec::gpu::ChecksumShared checksum;
    launch(blocks, [&] { deflate::begin_body(job); });
    launch(1, [&] { deflate::share_body(job, words); });
    launch(blocks, [&] { deflate::find_body(job, find); });
    launch(blocks, [&] { deflate::trace_body(job, spaces[threadIdx.x / 32]); });
    launch(blocks, [&] { deflate::chain_body(job, spaces[threadIdx.x / 32]); });
    launch(1, [&] { deflate::scan_body(job, words, long_words); });
    launch(blocks, [&] { deflate::list_body(job); });
    launch(blocks, [&] { deflate::place_body(job); });
    for (std::uint32_t r = 0; r < job.rounds; ++r) {
      launch(blocks, [&] { deflate::decode_body(job, r, spaces[threadIdx.x / 32]); });
      const deflate::Output output{job, r};
      lz77::Progress& progress = job.round[r].output;
      const std::uint32_t count = job.stream_count();
      const std::uint32_t few = way == Way::kTiles ? count : 0, windows = way == Way::kInOrder ? 0 : count;
      const lz77::Choice choice{few, few, windows};
      launch(1, [&] { lz77::plan_tiles_body<kWindow>(output, choice, job.tiles, progress, plan); });
      launch(blocks, [&] { lz77::tiles_body(output, choice, job.tiles, progress, tile); });
      launch(blocks, [&] { lz77::windows_body(output, few, windows, progress, window); });
      launch(blocks, [&] { lz77::inorder_body(output, choice.most_by_windows, progress); });
    }
    testing::gpu::launch(blocks, codec::gpu::kChecksumThreads, [&] { deflate::sums_body(job, tables, checksum); });
    launch(blocks, [&] { deflate::join_body(job, tables); });
    launch(blocks, [&] { deflate::verdict_body(job, tables); });
  }
  std::unique_ptr<GuardBuffer> scratch_;
};

}  // namespace headrace::test

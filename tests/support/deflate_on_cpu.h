// Runs the DEFLATE decoder's device code on the CPU with the launches of deflate.cu.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "codecs/deflate/deflate_job_device.cuh"
#include "tests/support/guard_buffer.h"
#include "tests/support/lz77_on_cpu.h"

namespace headrace::test {

class DeflateOnCpu {
 public:
  struct Item {
    std::span<const std::byte> stream;
    std::span<std::byte> dst;
    device::DecodeOutcome outcome;  // out
    std::size_t produced = 0;       // out
  };

  // Allows more blocks than a GPU does, so that small streams are decoded here instead of being left to the CPU.
  codec::gpu::deflate::Allowance allowance{.blocks_per_segment = 512};
  codec::gpu::DeflateKind kind = codec::gpu::DeflateKind::kGzip;
  std::uint64_t most_bytes = ~std::uint64_t{0};  // memory for places; 0: the minimum, which takes the most rounds
  unsigned blocks = 2;                           // per launch
  using Way = Lz77OnCpu::Way;
  Way way = Way::kInOrder;  // how the output is written
  bool search = true;       // whether to search for blocks

  // Each item is one chunk.
  void decode(std::span<Item> items, bool exact) {
    std::vector<codec::gpu::DeflateStream> streams;
    std::vector<std::uint64_t> outcomes(items.size(), device::DecodeOutcome::kOk);
    codec::gpu::lz77::StreamLimits limits;
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

  // Makes the launches of enqueue_deflate.
  void decode_streams(std::span<codec::gpu::DeflateStream> streams, const codec::gpu::lz77::StreamLimits& limits,
                      bool exact, std::span<std::uint64_t> outcomes, unsigned stage) {
    namespace deflate = codec::gpu::deflate;
    const auto count = static_cast<std::uint32_t>(streams.size());
    const deflate::Layout layout(limits, allowance, most_bytes, Lz77OnCpu::layout(limits.streams, limits.dst_bytes));
    deflate::Job job;
    job.streams = streams.data();
    job.count = &count;
    job.max_streams = limits.streams;
    job.outcomes = outcomes.data();
    job.stage = stage;
    job.exact = exact;
    job.allowance = allowance;
    job.max_searched = search ? count : 0;
    std::byte* const scratch = scratch_.take(layout.end);
    if (reinterpret_cast<std::uintptr_t>(scratch) % 16 != 0) std::abort();
    layout.fill_in(job, scratch);
    std::memset(scratch, 0, layout.zeroed_bytes);
    std::memset(job.starts, 0xFF, layout.segment_count * sizeof(*job.starts));
    run(job);
    if (!scratch_.intact()) std::abort();
    if (count == 0) return;
    const deflate::StreamState& last = job.states[count - 1];
    if (job.totals->pieces > layout.piece_count || job.totals->segments > layout.segment_count) std::abort();
    if (last.first_block + last.blocks > layout.block_count) std::abort();
    if (last.first_cell + last.cells > layout.cell_count) std::abort();
    for (std::uint32_t x = 0; x < job.totals->pieces; ++x) {
      const deflate::OutputRun& piece = job.pieces[x];
      const std::uint64_t units = deflate::literal_units(piece.literal_bytes) + deflate::slot_units(piece.sequences) +
                                  deflate::checkpoint_units(piece.sequences);
      if (piece.bytes > deflate::kMaxPieceBytes) std::abort();
      if (layout.places + (piece.place + units) * deflate::kUnitBytes > layout.tiles) std::abort();
    }
    rounds_used = 0;
    for (std::uint32_t r = 0; r < job.rounds.count; ++r) rounds_used += job.round[r].any ? 1 : 0;
    runs += job.totals->runs;
    pieces += job.totals->pieces;
    searched += job.totals->searched;
    for (std::uint32_t x = 0; x < job.totals->segments; ++x) runs_left += job.starts[x] != deflate::kNone;
  }

  static constexpr unsigned kStage = 3;
  std::uint32_t rounds_used = 0;  // of the last batch
  // Totals of all batches: runs that were found, and those that were right.
  std::uint64_t runs = 0, runs_left = 0, pieces = 0;
  std::uint64_t searched = 0;  // segments, over all batches

 private:
  void run(const codec::gpu::deflate::Job& job);
  GuardScratch scratch_;
};

}  // namespace headrace::test

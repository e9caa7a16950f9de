// Runs the zstd decoder's device code on the CPU with the launches of zstd.cu.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "codecs/zstd/zstd_job_device.cuh"
#include "tests/support/guard_buffer.h"
#include "tests/support/lz77_on_cpu.h"

namespace headrace::test {

class ZstdOnCpu {
 public:
  struct Item {
    std::span<const std::byte> stream;
    std::span<std::byte> dst;
    device::DecodeOutcome outcome;  // out
    std::size_t produced = 0;       // out
    // In: as in device/decode.h, and the index passed in. Out: how it was used, and what was collected.
    std::uint32_t index_word = device::kIndexNone;
    std::vector<std::byte> index{};
    std::uint64_t enough = 0;  // in: see DecodeItem
  };

  // Allows more blocks than a GPU does, so that small streams are decoded here instead of being left to the CPU.
  codec::gpu::zstd::Allowance allowance{.base = 64, .bytes_per_block = 4};
  std::uint64_t most_bytes = ~std::uint64_t{0};  // memory for places; 0: the minimum, which takes the most rounds
  unsigned blocks = 2;                           // per launch
  using Way = Lz77OnCpu::Way;
  Way way = Way::kInOrder;       // how the output is written
  std::uint32_t part_bytes = 0;  // size of the stream parts in which blocks are searched for; 0: no search
  unsigned walks = 1;            // blocks side by side: 4, 8, or 1 with literals in the same launch

  // Each item is one chunk.
  void decode(std::span<Item> items, bool exact) {
    namespace zstd = codec::gpu::zstd;
    std::vector<codec::gpu::ZstdStream> streams;
    std::vector<std::uint64_t> outcomes(items.size(), device::DecodeOutcome::kOk);
    codec::gpu::lz77::StreamLimits limits;
    for (const Item& item : items) {
      streams.push_back({reinterpret_cast<const unsigned char*>(item.stream.data()),
                         reinterpret_cast<unsigned char*>(item.dst.data()), item.stream.size(), item.dst.size(),
                         static_cast<std::uint32_t>(streams.size()), codec::gpu::ZstdKind::kFrames, item.enough});
      limits.src_bytes += item.stream.size();
      limits.dst_bytes += item.dst.size();
    }
    limits.streams = static_cast<std::uint32_t>(items.size());
    give_indices(items);
    decode_streams(streams, limits, exact, false, outcomes, kStage);
    take_indices(items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].outcome.word = outcomes[i];
      items[i].produced = streams[i].dst_bytes;
    }
  }

  // Makes the launches of enqueue_zstd.
  void decode_streams(std::span<codec::gpu::ZstdStream> streams, const codec::gpu::lz77::StreamLimits& limits,
                      bool exact, bool single_frame, std::span<std::uint64_t> outcomes, unsigned stage) {
    namespace zstd = codec::gpu::zstd;
    const auto count = static_cast<std::uint32_t>(streams.size());
    const zstd::Layout layout(limits, allowance, most_bytes, Lz77OnCpu::layout(limits.streams, limits.dst_bytes));
    zstd::Job job;
    job.streams = streams.data();
    job.count = &count;
    job.max_streams = limits.streams;
    job.outcomes = outcomes.data();
    job.stage = stage;
    job.exact = exact;
    job.single_frame = single_frame;
    job.allowance = allowance;
    job.index = index;
    std::byte* const scratch = scratch_.take(layout.end);
    if (reinterpret_cast<std::uintptr_t>(scratch) % 16 != 0) std::abort();
    layout.fill_in(job, scratch, part_bytes != 0);
    if (part_bytes != 0) job.part_bytes = part_bytes;
    std::memset(scratch, 0, layout.zeroed_bytes);
    run(job);
    rounds_used = rest = chains_taken = 0;
    std::uint32_t parts = 0;
    for (std::size_t i = 0; job.chains != nullptr && i < streams.size(); ++i) {
      parts += static_cast<std::uint32_t>((streams[i].src_bytes + job.part_bytes - 1) / job.part_bytes);
    }
    for (std::uint32_t t = 0; t < std::min(parts, job.max_parts); ++t) {
      chains_taken += job.chains[t].raw_at != zstd::kNone ? 1 : 0;
    }
    for (std::uint32_t r = 0; r < job.rounds.count; ++r) {
      rounds_used += job.round[r].blocks != 0;
      rest += job.round[r].rest;
    }
    for (std::uint32_t x = 0; x < job.totals->blocks; ++x) last_blocks.push_back(job.blocks[x]);
  }

  static constexpr unsigned kStage = 3;
  device::gpu::IndexMemory index;                    // of the last batch
  std::uint32_t rounds_used = 0;                     // of the last batch
  std::uint32_t chains_taken = 0;                    // of the last batch: chains skipped by means of `frames`
  std::uint32_t rest = 0;                            // 0: where indexes were given, they covered everything
  std::vector<codec::gpu::zstd::Block> last_blocks;  // of all batches since it was last cleared

 private:
  // Each chunk's share ends where the next one's begins, the last one's at a guard page.
  void give_indices(std::span<Item> items) {
    index = {};
    std::uint64_t most = 0;
    bool any = false;
    for (const Item& item : items) {
      most = std::max(most, codec::gpu::zstd::max_index_bytes(item.dst.size()));
      any = any || item.index_word != device::kIndexNone;
    }
    if (!any) return;
    given_.clear();
    made_.assign(items.size(), device::kIndexNothing);
    entries_ = std::make_unique<GuardBuffer>(std::max<std::uint64_t>(most * items.size(), 16), Flush::kRight);
    std::memset(entries_->data(), 0xA5, entries_->size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      given_.push_back(items[i].index_word);
      if (items[i].index_word == device::kIndexNone || items[i].index_word == device::kIndexCollect) continue;
      index.any_given = true;
      std::memcpy(entries_->data() + i * most, items[i].index.data(),
                  std::min<std::uint64_t>(items[i].index.size(), most));
    }
    index.entries = reinterpret_cast<unsigned char*>(entries_->data());
    index.stride = most;
    index.given = given_.data();
    index.made = made_.data();
  }
  void take_indices(std::span<Item> items) {
    if (index.entries == nullptr) return;
    if (!entries_->intact()) std::abort();
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool collected = items[i].index_word == device::kIndexCollect;
      items[i].index_word = made_[i];
      // Only what was collected is written.
      const std::uint64_t known = !collected ? index.stride : made_[i] >= device::kIndexUseless ? 0 : made_[i];
      for (std::uint64_t k = known; k < index.stride; ++k) {
        if (entries_->data()[i * index.stride + k] != std::byte{0xA5}) std::abort();
      }
      if (!collected || made_[i] == device::kIndexNothing || made_[i] == device::kIndexUseless) continue;
      const auto* const from = entries_->data() + i * index.stride;
      items[i].index.assign(from, from + made_[i]);
    }
  }
  void run(const codec::gpu::zstd::Job& job);
  GuardScratch scratch_;
  std::unique_ptr<GuardBuffer> entries_;
  std::vector<std::uint32_t> given_, made_;
};

}  // namespace headrace::test

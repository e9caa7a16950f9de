// Runs Blosc's device code on the CPU with the launches of blosc_stage.cu. liblz4 stands in for enqueue_lz4; the device
// code of zstd and DEFLATE runs as well.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <lz4.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "codecs/blosc/blosc_device.cuh"
#include "codecs/blosc/blosc_inner_device.cuh"
#include "tests/support/deflate_on_cpu.h"
#include "tests/support/guard_buffer.h"
#include "tests/support/zstd_on_cpu.h"

namespace headrace::test {

class BloscOnCpu {
 public:
  struct Item {
    std::span<const std::byte> container;
    std::span<std::byte> dst;
    device::DecodeOutcome outcome;  // out
    std::size_t produced = 0;       // out
  };

  // Allows more streams than a GPU does, so that small blocks are decoded here instead of being left to the CPU.
  codec::gpu::blosc::Allowance allowance{.base = 200, .bytes_per_stream = 16};
  unsigned blocks = 3;  // per launch
  codec::gpu::blosc::Named named = codec::gpu::blosc::Named::kOthers;

  void decode(std::span<Item> items, bool exact) {
    namespace blosc = codec::gpu::blosc;
    using codec::gpu::Lz4Kind;
    std::vector<device::gpu::Chunk> chunks;
    std::vector<std::uint64_t> outcomes(items.size(), device::DecodeOutcome::kOk);
    device::gpu::Limits limits;
    for (const Item& item : items) {
      chunks.push_back({reinterpret_cast<const unsigned char*>(item.container.data()),
                        reinterpret_cast<unsigned char*>(item.dst.data()), item.container.size(), item.dst.size()});
      limits.src_bytes += item.container.size();
      limits.dst_bytes += item.dst.size();
    }
    limits.chunks = static_cast<std::uint32_t>(items.size());
    blosc::Job job;
    job.chunks = chunks.data();
    job.outcomes = outcomes.data();
    job.count = limits.chunks;
    job.exact = exact;
    job.named = named;
    job.stage = kStage;
    job.allowance = allowance;
    const blosc::Layout layout(limits, allowance, named);
    layout.fill_in(job, scratch_.take((layout.inner + 15) / 16 * 16));

    std::memset(job.totals, 0, blosc::Layout::kTotalsBytes);
    launch([&] { blosc::parse_body(job); });
    static blosc::Shares scan_shared[kThreads / 32];
    testing::gpu::launch(1, kThreads, [&] { blosc::scan_body(job, scan_shared); });
    launch([&] { blosc::streams_body(job); });
    launch([&] { blosc::seal_body(job); });
    std::uint64_t src_bytes = 0, dst_bytes = 0;
    within_limits = job.totals->streams <= layout.stream_count;
    for (std::uint32_t i = 0; i < job.totals->streams; ++i) {
      const codec::gpu::Lz4Stream& stream = job.streams[i];
      src_bytes += stream.src_bytes;
      dst_bytes += stream.dst_bytes;
      if (stream.kind != Lz4Kind::kBlock || outcomes[stream.chunk] != device::DecodeOutcome::kOk) continue;
      ++lz4_streams;
      const int got =
          LZ4_decompress_safe(reinterpret_cast<const char*>(stream.src), reinterpret_cast<char*>(stream.dst),
                              static_cast<int>(stream.src_bytes), static_cast<int>(stream.dst_bytes));
      if (got < 0 || static_cast<std::uint32_t>(got) != stream.dst_bytes) {
        outcomes[stream.chunk] = device::DecodeOutcome::pack(job.stage, 0, device::DecodeReason::kHeader);
      }
    }
    within_limits = within_limits && src_bytes <= limits.src_bytes && dst_bytes <= limits.dst_bytes;
    other_streams += *job.others;
    if (named == blosc::Named::kZstd) {
      codec::gpu::lz77::StreamLimits zstd_limits;
      zstd_limits.streams = static_cast<std::uint32_t>(layout.stream_count);
      zstd_limits.src_bytes = limits.src_bytes;
      zstd_limits.dst_bytes = limits.dst_bytes;
      const std::span<codec::gpu::ZstdStream> streams{job.zstd_streams, job.totals->streams};
      for (const codec::gpu::ZstdStream& stream : streams) {
        zstd_streams += stream.kind == codec::gpu::ZstdKind::kFrames;
      }
      inner_zstd.allowance = {};
      inner_zstd.decode_streams(streams, zstd_limits, true, true, outcomes, job.stage);
      inner_zstd.last_blocks.clear();
    } else if (named == blosc::Named::kZlib) {
      codec::gpu::lz77::StreamLimits deflate_limits;
      deflate_limits.streams = static_cast<std::uint32_t>(layout.stream_count);
      deflate_limits.src_bytes = limits.src_bytes;
      deflate_limits.dst_bytes = limits.dst_bytes;
      const std::span<codec::gpu::DeflateStream> streams{job.deflate_streams, job.totals->streams};
      for (const codec::gpu::DeflateStream& stream : streams) {
        zlib_streams += stream.kind == codec::gpu::DeflateKind::kZlib;
      }
      inner_zlib.allowance = {};
      inner_zlib.decode_streams(streams, deflate_limits, true, outcomes, job.stage);
    } else {
      launch([&] { blosc::inner_body(job); });
    }
    for (unsigned path = 0; path < codec::gpu::shuffle::kPaths; ++path) {
      codec::gpu::shuffle::with_path(static_cast<codec::gpu::shuffle::UnshuffleWay>(path), [&](auto chosen) {
        static blosc::EpilogueShared<chosen()> shared;
        launch([&] { blosc::epilogue_body<chosen()>(job, shared); });
      });
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].outcome.word = outcomes[i];
      items[i].produced = chunks[i].dst_bytes;
    }
  }

  static constexpr unsigned kStage = 3;
  bool within_limits = true;  // whether the last batch kept the bounds given to enqueue_lz4
  std::uint64_t lz4_streams = 0, other_streams = 0, zstd_streams = 0, zlib_streams = 0;  // totals of all batches
  ZstdOnCpu inner_zstd;
  DeflateOnCpu inner_zlib;

 private:
  static constexpr unsigned kThreads = 64;
  template <class Body>
  void launch(const Body& body) const {
    testing::gpu::launch(blocks, kThreads, body);
  }
  GuardScratch scratch_;
};

}  // namespace headrace::test

// DecodeGraphs: decodes of one shape as CUDA graphs. A decode is some thirty launches, which take a thread 0.1 ms and
// threads that queue at the same time much longer; as a graph it is one.
//
// A graph holds addresses: it serves batches that have the same ones, which are those of the slab that a wave has.
// It is made when a shape has come often enough that making it (0.3 ms) pays.
//
// Threads: any; a shape from one at a time, since its scratch is.
// Owns:    graphs, until the device ends. Launched ones that are dropped end by themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/fork.h"
#include "cuda_error.h"
#include "device/decode.h"
#include "device/gpu_stage.h"

namespace headrace::device::cuda {

// All that the launches of a decode depend on, but the bytes in memory.
struct DecodeShape {
  std::uint32_t decoder = 0;  // DecodeGraphs::decoder()
  DecodeLimits limits;
  const void* scratch = nullptr;
  std::uint64_t scratch_bytes = 0;
  const void* indices = nullptr;  // on the device
  bool indices_given = false;

  bool operator==(const DecodeShape&) const noexcept = default;
};

// Limits that many batches have in common: at most a quarter more bytes, and half as many again of the largest chunk.
DecodeLimits rounded_up(const DecodeLimits& limits) noexcept;

class DecodeGraphs {
 public:
  static constexpr std::size_t kMostShapes = 256;   // that are remembered, with a graph or without
  static constexpr std::uint32_t kSeenOften = 3;    // times
  static constexpr std::uint64_t kDecodesEach = 8;  // of all decodes one may make a graph, but for the first few
  static constexpr std::uint64_t kFewGraphs = 64;

  DecodeGraphs(const Health& health, int ordinal) : health_(health), ordinal_(ordinal) {}
  ~DecodeGraphs();
  DecodeGraphs(const DecodeGraphs&) = delete;
  DecodeGraphs& operator=(const DecodeGraphs&) = delete;

  // The number of decoders of these stages; 0: there are too many kinds, and none of their decodes becomes a graph.
  std::uint32_t decoder(std::span<const DecodeStage> stages);

  // What queues the launches of a shape on a stream. No copies: a graph that has some must not outlive the host memory
  // that they go to or come from.
  class Launches {
   public:
    virtual ~Launches() = default;
    virtual Status queue(cudaStream_t stream, const gpu::Branch& branch) const = 0;
  };
  Status run(const DecodeShape& shape, cudaStream_t stream, const Launches& launches);
  // That memory is going to be freed: what copies or sets it must not be launched any more.
  void forget(const std::byte* memory, std::size_t bytes) noexcept;

 private:
  struct Graph {
    ~Graph();
    int ordinal = 0;
    std::uint64_t generation = 0;
    cudaGraphExec_t exec = nullptr;
  };
  struct Entry {
    DecodeShape shape;
    std::uint32_t seen = 0;
    std::uint64_t last = 0;
    std::shared_ptr<Graph> graph;
  };

  Entry& entry_locked(const DecodeShape& shape);
  // Null: it could not be made, which the driver may have reasons for; its launches are queued as ever.
  std::shared_ptr<Graph> make(const Launches& launches);

  const Health& health_;
  const int ordinal_;
  const std::uint64_t generation_ = base::fork_generation();
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::vector<DecodeStage>> decoders_;
  std::vector<Entry> entries_;
  std::uint64_t decodes_ = 0, made_ = 0;

  std::mutex making_;
  cudaStream_t capture_ = nullptr;  // guarded by making_, as is
  gpu::Branch branch_;
  bool refused_ = false;  // guarded by mutex_
};

}  // namespace headrace::device::cuda

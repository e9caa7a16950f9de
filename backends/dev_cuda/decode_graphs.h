// DecodeGraphs: runs repeated decodes of one shape as CUDA graphs. A decode needs some thirty launches, which cost a
// thread 0.1 ms, and much more while other threads launch too; a graph is a single launch.
//
// GraphTable decides which shapes get a graph, and keeps their memory within a budget.
//
// Threads: any; each shape from one thread at a time, since its scratch is in use.
// Owns:    the graphs, for the life of the device. A graph that is dropped while in flight completes by itself.
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
#include "graph_table.h"

namespace headrace::device::cuda {

// Limits that many batches share: at most a quarter more bytes, and half as many again for the largest chunk.
DecodeLimits rounded_up(const DecodeLimits& limits) noexcept;

class DecodeGraphs {
 public:
  DecodeGraphs(const Health& health, int ordinal) : health_(health), ordinal_(ordinal) {}
  ~DecodeGraphs();
  DecodeGraphs(const DecodeGraphs&) = delete;
  DecodeGraphs& operator=(const DecodeGraphs&) = delete;

  // The number of the decoders of these stages. 0: there are too many kinds; their decodes do not become graphs.
  std::uint32_t decoder(std::span<const DecodeStage> stages);

  // Queues the launches of a shape on a stream. It must not queue copies: a graph that contains some must not outlive
  // the host memory that they read or write.
  class Launches {
   public:
    virtual ~Launches() = default;
    virtual Status queue(cudaStream_t stream, const gpu::Branch& branch) const = 0;
  };
  Status run(const DecodeShape& shape, cudaStream_t stream, const Launches& launches);
  // `memory` is about to be freed: graphs that use it must not be launched again.
  void forget(const std::byte* memory, std::size_t bytes) noexcept;

 private:
  struct Graph {
    ~Graph();
    int ordinal = 0;
    std::uint64_t generation = 0;
    cudaGraphExec_t exec = nullptr;
    std::uint64_t nodes = 0;
  };

  // Null: the driver could not create the graph; the launches are then queued directly.
  std::shared_ptr<Graph> make(const Launches& launches);

  const Health& health_;
  const int ordinal_;
  const std::uint64_t generation_ = base::fork_generation();
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::vector<DecodeStage>> decoders_;
  GraphTable<Graph> graphs_;

  std::mutex making_;
  cudaStream_t capture_ = nullptr;  // guarded by making_, as is branch_
  gpu::Branch branch_;
  bool refused_ = false;  // guarded by mutex_: the driver could not create a graph, so do not try again
};

}  // namespace headrace::device::cuda

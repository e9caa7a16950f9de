// The constant by which GraphTable counts the nodes of a decode graph is an upper bound of the device memory that a
// kernel node takes. The driver does not report that of a graph, so many are made and the device's free memory is
// compared; the least of several rounds counts, because other programs may allocate meanwhile.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "backends/dev_cuda/graph_table.h"

namespace headrace::device::cuda {
namespace {

// Decoders' kernels take a few hundred bytes of arguments.
struct Arguments {
  unsigned char bytes[1024];
};
__global__ void nothing(Arguments) {}

std::size_t free_bytes() {
  std::size_t free = 0, all = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  return free;
}

TEST(GraphMemory, ANodeTakesNoMoreThanItIsCountedAs) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) GTEST_SKIP() << "no GPU";
  constexpr std::size_t kNodes = 30, kGraphs = 250, kRounds = 3;  // about what the budget allows
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  nothing<<<1, 1, 0, stream>>>({});
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  std::size_t least = SIZE_MAX;
  std::vector<cudaGraphExec_t> kept;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t before = free_bytes();
    for (std::size_t i = 0; i < kGraphs; ++i) {
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
      for (std::size_t node = 0; node < kNodes; ++node) nothing<<<1, 1, 0, stream>>>({});
      cudaGraph_t graph = nullptr;
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      std::size_t nodes = 0;
      ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
      ASSERT_EQ(nodes, kNodes);
      cudaGraphExec_t exec = nullptr;
      ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
      ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
      ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
      kept.push_back(exec);  // or the next round would reuse its memory
    }
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const std::size_t after = free_bytes();
    least = std::min(least, before > after ? before - after : 0);
    std::printf("%zu graphs of %zu nodes took %lld bytes of device memory\n", kGraphs, kNodes,
                static_cast<long long>(before) - static_cast<long long>(after));
  }
  EXPECT_LE(least / (kGraphs * kNodes), GraphTable<int>::kNodeBytes);
  for (const cudaGraphExec_t exec : kept) EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace headrace::device::cuda

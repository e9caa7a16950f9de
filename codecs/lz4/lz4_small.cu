#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz4_cluster_device.cuh"

namespace headrace::codec::gpu {
namespace {

using device::gpu::Launcher;
using device::gpu::wait_for_earlier;

using Shape = small::Shape<kLz4Small, 16u << 10, 24u << 10, 512>;
constexpr unsigned kBlocks = 2;  // resident per multiprocessor

__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    small_kernel(Lz4Stream* streams, const std::uint32_t* count, std::uint32_t most, std::uint32_t few,
                 std::uint32_t* ticket, const std::uint64_t* outcomes) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t n = *count < most ? *count : most;
  small::decode_small_body(streams, n, few, ticket, outcomes, *reinterpret_cast<small::Shared<Shape>*>(memory));
}

// A block occupies a whole multiprocessor.
using ClusterShape = small::Shape<kLz4Small, 16u << 10, 32u << 10, 1024, std::uint32_t>;
constexpr unsigned kClusterBlocks = 4;
constexpr std::size_t kClusterShared = sizeof(small::ClusterShared<ClusterShape>);
// Streams that a cluster decodes one after the other; beyond this, one block per stream is as fast.
constexpr unsigned kClusterTurns = 2;
// Larger batches usually come with others, and a kernel that needs whole multiprocessors would wait for those.
constexpr std::uint64_t kClusteredBytes = 16u << 20;

__global__ void __launch_bounds__(ClusterShape::kThreads, 1)
    cluster_kernel(Lz4Stream* streams, const std::uint32_t* count, std::uint32_t most, const std::uint64_t* outcomes) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t n = *count < most ? *count : most;
  small::decode_cluster_body(streams, n, kClusterTurns, outcomes,
                             *reinterpret_cast<small::ClusterShared<ClusterShape>*>(memory));
}

// How many clusters can run at a time; 0: this GPU has none, or none of this size.
unsigned clusters_of(int device) {
  constexpr int kDevices = 64;
  static std::atomic<int> known[kDevices];  // plus 1
  if (device < kDevices && known[device].load(std::memory_order_relaxed) != 0) {
    return static_cast<unsigned>(known[device].load(std::memory_order_relaxed) - 1);
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = kClusterBlocks;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kClusterBlocks);
  config.blockDim = dim3(ClusterShape::kThreads);
  config.dynamicSmemBytes = kClusterShared;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, cluster_kernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();
    clusters = 0;
  }
  if (device < kDevices) known[device].store(clusters + 1, std::memory_order_relaxed);
  return static_cast<unsigned>(clusters);
}

}  // namespace

int enqueue_lz4_small(const Lz4Job& job, device::gpu::NativeStream stream, bool& all) noexcept {
  int device = 0, room = 0;
  Launcher launch(stream);
  launch.check(cudaGetDevice(&device));
  launch.check(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  all = false;
  constexpr std::size_t kShared = sizeof(small::Shared<Shape>);
  if (launch.error() != cudaSuccess || static_cast<std::size_t>(room) < kShared || job.limits.streams == 0 ||
      job.limits.min_dst_bytes > kLz4Small) {
    return launch.error();
  }
  if (launch.has_clusters() && static_cast<std::size_t>(room) >= kClusterShared &&
      job.limits.dst_bytes <= kClusteredBytes) {
    launch.check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&cluster_kernel),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, kClusterShared));
    if (const unsigned clusters = std::min(clusters_of(device), job.limits.streams); clusters != 0) {
      launch.launch(kClusterBlocks, cluster_kernel, clusters * kClusterBlocks, ClusterShape::kThreads, kClusterShared,
                    job.streams, job.count, job.limits.streams, job.outcomes);
    }
  }
  launch.check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&small_kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  const auto multiprocessors = static_cast<std::uint32_t>(std::max(job.multiprocessors, 1));
  const std::uint32_t few = multiprocessors * kLz4SmallFew;
  launch(small_kernel, std::min(job.limits.streams, multiprocessors * kBlocks), Shape::kThreads, kShared, job.streams,
         job.count, job.limits.streams, few, job.ticket, job.outcomes);
  all = job.limits.streams <= few && job.limits.largest_dst_bytes <= kLz4Small;
  return launch.error();
}

}  // namespace headrace::codec::gpu

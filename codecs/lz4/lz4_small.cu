#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz4_cluster_device.cuh"

namespace headrace::codec::gpu {
namespace {

using device::gpu::Launcher;
using device::gpu::wait_for_earlier;

// Two blocks share a multiprocessor; of many streams, up to 128 KiB as the planes of Blosc's blocks are, four do: while
// one waits for its threads to meet, others work.
using Shape = small::Shape<kLz4Small, 16u << 10, 24u << 10, 512>;
using ManyShape = small::Shape<kLz4Small / 2, 8u << 10, 10u << 10, 256>;
template <class S>
constexpr unsigned kBlocks = S::kThreads == 256 ? 4 : 2;  // on a multiprocessor at once
constexpr unsigned kManyStreams = 5;                      // a multiprocessor

template <class S>
__global__ void __launch_bounds__(S::kThreads, kBlocks<S>)
    small_kernel(Lz4Stream* streams, const std::uint32_t* count, std::uint32_t most, std::uint32_t few,
                 std::uint32_t multiprocessors, const std::uint64_t* outcomes) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t n = *count < most ? *count : most;
  small::decode_small_body(streams, n, few, {multiprocessors, kBlocks<S>}, outcomes,
                           *reinterpret_cast<small::Shared<S>*>(memory));
}

template <class S>
void decode_small(Launcher& launch, const Lz4Job& job, std::uint32_t few) {
  constexpr std::size_t kShared = sizeof(small::Shared<S>);
  const auto multiprocessors = static_cast<std::uint32_t>(std::max(job.multiprocessors, 1));
  launch.check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&small_kernel<S>),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  launch(small_kernel<S>, multiprocessors * kBlocks<S>, S::kThreads, kShared, job.streams, job.count,
         job.limits.streams, multiprocessors * few, multiprocessors, job.outcomes);
}

// A block has a multiprocessor to itself.
using ClusterShape = small::Shape<kLz4Small, 16u << 10, 32u << 10, 1024, std::uint32_t>;
constexpr unsigned kClusterBlocks = 4;
constexpr std::size_t kClusterShared = sizeof(small::ClusterShared<ClusterShape>);
// Streams that a cluster decodes one after the other, before a block for each is as fast.
constexpr unsigned kClusterTurns = 2;

__global__ void __launch_bounds__(ClusterShape::kThreads, 1)
    cluster_kernel(Lz4Stream* streams, const std::uint32_t* count, std::uint32_t most, const std::uint64_t* outcomes) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t n = *count < most ? *count : most;
  small::decode_cluster_body(streams, n, kClusterTurns, outcomes,
                             *reinterpret_cast<small::ClusterShared<ClusterShape>*>(memory));
}

// How many run at a time; 0: this GPU has none, or none of this size.
unsigned clusters_of(int device) {
  constexpr int kDevices = 64;
  static std::atomic<int> known[kDevices];  // and 1
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
  const std::size_t most_shared = std::max(sizeof(small::Shared<Shape>), sizeof(small::Shared<ManyShape>));
  if (launch.error() != cudaSuccess || static_cast<std::size_t>(room) < most_shared || job.limits.streams == 0) {
    return launch.error();
  }
  if (launch.has_clusters() && static_cast<std::size_t>(room) >= kClusterShared) {
    launch.check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&cluster_kernel),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, kClusterShared));
    if (const unsigned clusters = std::min(clusters_of(device), job.limits.streams); clusters != 0) {
      launch.launch(kClusterBlocks, cluster_kernel, clusters * kClusterBlocks, ClusterShape::kThreads, kClusterShared,
                    job.streams, job.count, job.limits.streams, job.outcomes);
    }
  }
  decode_small<Shape>(launch, job, kManyStreams);
  decode_small<ManyShape>(launch, job, kLz4SmallFew);
  const auto multiprocessors = static_cast<std::uint32_t>(std::max(job.multiprocessors, 1));
  const bool by_many = job.limits.largest_dst_bytes <= ManyShape::kMost;
  all = job.limits.largest_dst_bytes <= kLz4Small &&
        job.limits.streams <= multiprocessors * (by_many ? kLz4SmallFew : kManyStreams);
  return launch.error();
}

}  // namespace headrace::codec::gpu

// Measures un-shuffling on a GPU, compared with a copy of the same bytes within device memory.
//
//   unshuffle_gpu_bench [TOTAL_MIB=1024] [BLOCK_KIB=512]
//
// Prints one JSON object per line. "gbytes_per_s" is 1e9 bytes read and written per second; "of_copy" is the fraction
// of cudaMemcpyAsync's rate in the same run. Blocks are those of Blosc. "planes": "aligned", or "odd" for planes at odd
// addresses, which are assembled from words. Best of seven launches. Each result is compared with the CPU's.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "codec/unshuffle.h"
#include "codecs/shuffle/shuffle_device.cuh"

namespace {

namespace shuffle = headrace::codec::gpu::shuffle;
using shuffle::Byte;
using shuffle::Filter;
using shuffle::U64;

void must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

struct Work {
  const Byte* src;
  Byte* dst;
  U64 blocks, block_bytes, tiles_per_block;
  unsigned width;
  Filter filter;
};

template <shuffle::UnshuffleWay kPath>
__global__ void __launch_bounds__(shuffle::kThreads, shuffle::blocks_per_unit(kPath)) unshuffle(Work work) {
  __shared__ unsigned shared[shuffle::kSharedWords<kPath>];
  const shuffle::Share share = shuffle::share_of(work.blocks * work.tiles_per_block, blockIdx.x, gridDim.x);
  for (U64 t = share.first; t < share.last; ++t) {
    const U64 b = t / work.tiles_per_block;
    shuffle::Block block;
    block.src = work.src + b * work.block_bytes;
    block.dst = work.dst + b * work.block_bytes;
    block.bytes = work.block_bytes;
    block.width = work.width;
    block.filter = work.filter;
    shuffle::unfilter_tile<kPath>(block, t - b * work.tiles_per_block, shared, threadIdx.x, blockDim.x);
  }
}

template <class Launch>
double best_seconds(const Launch& launch) {
  cudaEvent_t start, end;
  must(cudaEventCreate(&start));
  must(cudaEventCreate(&end));
  double best = 1e9;
  for (int round = 0; round < 8; ++round) {
    must(cudaEventRecord(start));
    launch();
    must(cudaGetLastError());
    must(cudaEventRecord(end));
    must(cudaEventSynchronize(end));
    float ms = 0;
    must(cudaEventElapsedTime(&ms, start, end));
    if (round > 0) best = std::min(best, ms / 1e3);
  }
  must(cudaEventDestroy(start));
  must(cudaEventDestroy(end));
  return best;
}

bool same_as_cpu(const Work& work, const std::vector<std::byte>& src) {
  std::vector<std::byte> want(work.block_bytes), got(work.block_bytes),
      tile(headrace::codec::bit_tile_bytes(work.width));
  for (const U64 b : {U64{0}, work.blocks - 1}) {
    const std::byte* from = src.data() + b * work.block_bytes;
    if (work.filter == Filter::kBytes) {
      headrace::codec::unshuffle(from, work.width, work.block_bytes, want.data());
    } else {
      headrace::codec::bit_unshuffle(from, work.width, work.block_bytes, want.data(), tile.data());
    }
    must(cudaMemcpy(got.data(), work.dst + b * work.block_bytes, work.block_bytes, cudaMemcpyDeviceToHost));
    if (got != want) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const U64 mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024;
  const U64 kib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512;
  if (mib < 1 || mib > (1u << 16) || kib < 4 || kib > mib * 1024) {
    std::fprintf(stderr, "usage: unshuffle_gpu_bench [TOTAL_MIB] [BLOCK_KIB >= 4]\n");
    return 2;
  }
  int count = 0;
  must(cudaGetDeviceCount(&count));
  cudaDeviceProp properties;
  must(cudaGetDeviceProperties(&properties, 0));
  const U64 bytes = mib << 20;
  std::vector<std::byte> host(bytes);
  std::mt19937_64 random(1);
  for (U64 i = 0; i < bytes; i += 8) {
    const U64 word = random();
    std::memcpy(&host[i], &word, 8);
  }
  Byte *src = nullptr, *dst = nullptr;
  must(cudaMalloc(&src, bytes + 16));
  must(cudaMalloc(&dst, bytes));
  must(cudaMemcpy(src, host.data(), bytes, cudaMemcpyHostToDevice));
  const double copy = best_seconds([&] { must(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice)); });
  std::printf("{\"test\": \"copy\", \"device\": \"%s\", \"bytes\": %llu, \"gbytes_per_s\": %.0f}\n", properties.name,
              bytes, 2e-9 * static_cast<double>(bytes) / copy);
  bool fine = true;
  for (const bool odd : {false, true}) {
    if (odd) must(cudaMemcpy(src + 1, host.data(), bytes, cudaMemcpyHostToDevice));
    for (const Filter filter : {Filter::kBytes, Filter::kBits}) {
      for (const unsigned width : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 16u, 24u, 32u, 100u, 255u}) {
        Work work;
        work.src = src + (odd ? 1 : 0);
        work.dst = dst;
        work.block_bytes = (kib << 10) / (width * 32) * width * 32;
        work.blocks = bytes / work.block_bytes;
        work.tiles_per_block = (work.block_bytes - 1) / shuffle::tile_bytes(width) + 1;
        work.width = width;
        work.filter = filter;
        const U64 moved = 2 * work.blocks * work.block_bytes;
        double seconds = 0;
        shuffle::with_path(shuffle::path_of(filter, width, work.dst, work.block_bytes), [&](auto path) {
          const auto units = static_cast<U64>(properties.multiProcessorCount);
          const unsigned grid = static_cast<unsigned>(
              std::min<U64>(work.blocks * work.tiles_per_block, units * shuffle::blocks_per_unit(path())));
          seconds = best_seconds([&] { unshuffle<path()><<<grid, shuffle::kThreads>>>(work); });
        });
        const bool same = same_as_cpu(work, host);
        fine &= same;
        const double rate = 1e-9 * static_cast<double>(moved) / seconds;
        std::printf(
            "{\"test\": \"%s\", \"width\": %u, \"planes\": \"%s\", \"block_bytes\": %llu, \"bytes\": %llu, "
            "\"gbytes_per_s\": %.0f, \"of_copy\": %.3f, \"correct\": %s}\n",
            filter == Filter::kBytes ? "unshuffle" : "bit_unshuffle", width, odd ? "odd" : "aligned", work.block_bytes,
            moved / 2, rate, rate * copy / (2e-9 * static_cast<double>(bytes)), same ? "true" : "false");
        std::fflush(stdout);
      }
    }
  }
  return fine ? 0 : 1;
}

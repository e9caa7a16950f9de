// Two independent steps of the zstd decoder in one launch: walk and literals. Device code without a CUDA header.
//
// A walk takes as long as its longest block, however much of the device is idle. With few blocks, literals are
// therefore decoded concurrently.
#pragma once

#include "zstd_literals_device.cuh"
#include "zstd_walk_device.cuh"

namespace headrace::codec::gpu::zstd {

union EntropySpace {
  LiteralsSpace literals;
  WalkSpace<1> walks[kLiteralsWarps];
};

// The first `walkers` thread blocks walk, one Block per warp, and help with literals when no Blocks are left; the
// others start with literals.
__device__ inline void entropy_body(const Job& job, std::uint32_t r, unsigned walkers, EntropySpace& space) {
  if (blockIdx.x < walkers) walk_body<1>(job, r, space.walks);
  literals_body<kMaxStreams>(job, r, space.literals);
}

}  // namespace headrace::codec::gpu::zstd

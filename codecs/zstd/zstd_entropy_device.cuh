// Two steps of the zstd decoder in one launch: walk and literals, which do not depend on each other. Device code
// without a CUDA header.
//
// A walk's time is that of its longest block, whatever else the device does, so where blocks are few, literals are
// decoded beside it.
#pragma once

#include "zstd_literals_device.cuh"
#include "zstd_walk_device.cuh"

namespace headrace::codec::gpu::zstd {

union EntropySpace {
  LiteralsSpace literals;
  WalkSpace<1> walks[kLiteralsWarps];
};

// The first `walkers` thread blocks walk, a Block a warp, and see to literals when there are no more; the others begin
// with literals.
__device__ inline void entropy_body(const Job& job, std::uint32_t r, unsigned walkers, EntropySpace& space) {
  if (blockIdx.x < walkers) walk_body<1>(job, r, space.walks);
  literals_body<kMostStreams>(job, r, space.literals);
}

}  // namespace headrace::codec::gpu::zstd

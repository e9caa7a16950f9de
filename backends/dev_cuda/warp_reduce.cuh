// What 32 lanes hold together. GPUs from compute capability 8.0 on have instructions for it (__reduce_add_sync and its
// like); for those before, the same names are made of shuffles here. Compilers of device code include it first.
#pragma once

namespace headrace::device::gpu {

// For all 32 lanes of a warp at once; `join` is associative and commutative.
template <class Join>
__device__ inline unsigned reduce_by_shuffle(unsigned value, Join join) {
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value = join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

}  // namespace headrace::device::gpu

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
// `mask` is always all lanes.
#define HEADRACE_WARP_REDUCE(name, joined)                                                                 \
  __device__ inline unsigned name(unsigned, unsigned value) {                                              \
    return headrace::device::gpu::reduce_by_shuffle(value, [](unsigned a, unsigned b) { return joined; }); \
  }
HEADRACE_WARP_REDUCE(__reduce_add_sync, a + b)
HEADRACE_WARP_REDUCE(__reduce_or_sync, a | b)
HEADRACE_WARP_REDUCE(__reduce_min_sync, a < b ? a : b)
HEADRACE_WARP_REDUCE(__reduce_max_sync, a < b ? b : a)
#undef HEADRACE_WARP_REDUCE
#endif

// Warp-wide reductions. GPUs from compute capability 8.0 on have instructions for them (__reduce_add_sync and the
// like); for older ones the same names are implemented here with shuffles. Device code is compiled with this file
// included first.
#pragma once

namespace headrace::device::gpu {

// All 32 lanes of a warp must call it together; `join` is associative and commutative.
template <class Join>
__device__ inline unsigned reduce_by_shuffle(unsigned value, Join join) {
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value = join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

}  // namespace headrace::device::gpu

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
// `mask` must always be all lanes.
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

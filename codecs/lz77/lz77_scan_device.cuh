// Prefix sums over a list, by one thread block. Device code without a CUDA header.
#pragma once

#include <cstdint>

namespace headrace::codec::gpu::lz77 {

// Exclusive prefix sum: calls put(i, sum of get(k) for all k < i) for each i < count; returns the total. T is a number,
// or has += and a zero T{}. Called by all threads of a block; `shared` has an entry for each. Each thread issues the
// loads of several neighbouring entries before it waits for the first. get(i) is called before put(i).
template <class T, class Get, class Put>
__device__ inline T scan_by_block(std::uint32_t count, T* shared, const Get& get, const Put& put) {
  constexpr unsigned kEach = 8;
  const unsigned t = threadIdx.x, threads = blockDim.x;
  T all{};
  for (std::uint32_t base = 0; base < count; base += threads * kEach) {
    const std::uint32_t first = base + t * kEach;
    T held[kEach], own{};
    for (unsigned k = 0; k < kEach; ++k) held[k] = first + k < count ? get(first + k) : T{};
    for (unsigned k = 0; k < kEach; ++k) own += held[k];
    __syncthreads();  // all threads have read the sums of the previous part
    shared[t] = own;
    __syncthreads();
    for (unsigned step = 1; step < threads; step *= 2) {
      const T before = t >= step ? shared[t - step] : T{};
      __syncthreads();
      shared[t] += before;
      __syncthreads();
    }
    T at = all;
    if (t != 0) at += shared[t - 1];
    for (unsigned k = 0; k < kEach; ++k) {
      if (first + k < count) put(first + k, at);
      at += held[k];
    }
    all += shared[threads - 1];
  }
  return all;
}

// Sets `kBefore` of each stream's state to the sum of `kCount` over the streams before it. One thread block; `shared`
// has an entry for each thread. Returns the total.
template <auto kCount, auto kBefore, class Job, class T>
__device__ inline T scan_streams(const Job& job, T* shared) {
  return scan_by_block(
      job.stream_count(), shared, [&job](std::uint32_t i) { return job.states[i].*kCount; },
      [&job](std::uint32_t i, T before) { job.states[i].*kBefore = before; });
}

}  // namespace headrace::codec::gpu::lz77

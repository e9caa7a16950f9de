// Positive controls: bugs that compute-sanitizer must find, so that its silence elsewhere means something.
//
//   planted_bugs memcheck    writes one byte past an allocation
//   planted_bugs racecheck   two warps write and read shared memory without a barrier
//   planted_bugs initcheck   reads device memory nobody wrote
//   planted_bugs synccheck   a barrier that part of the block never reaches
//   planted_bugs clean       none of it
// Ends with 77 where there is no GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

__global__ void write_at(unsigned char* memory, unsigned index) { memory[index] = 1; }
__global__ void race(unsigned* out) {
  __shared__ unsigned words[64];
  words[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = words[63 - threadIdx.x];
}
__global__ void copy_word(unsigned* out, const unsigned* in) { *out = *in + 1; }
__global__ void part_of_a_barrier(unsigned* out) {
  if (threadIdx.x < 40) __syncthreads();  // divergent within the second warp
  out[threadIdx.x] = threadIdx.x;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "clean";
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return 77;
  unsigned char* memory = nullptr;
  if (cudaMalloc(&memory, 1000) != cudaSuccess) return 1;
  auto* words = reinterpret_cast<unsigned*>(memory);
  if (std::strcmp(what, "memcheck") == 0) {
    write_at<<<1, 1>>>(memory, 1000);
  } else if (std::strcmp(what, "racecheck") == 0) {
    race<<<1, 64>>>(words);
  } else if (std::strcmp(what, "initcheck") == 0) {
    copy_word<<<1, 1>>>(words, words + 1);
  } else if (std::strcmp(what, "synccheck") == 0) {
    part_of_a_barrier<<<1, 64>>>(words);
  } else {
    write_at<<<1, 1>>>(memory, 999);
  }
  const cudaError_t error = cudaDeviceSynchronize();
  cudaFree(memory);
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  return 0;  // the sanitizer's verdict is its own exit code
}

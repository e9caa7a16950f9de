// Positive controls: bugs that compute-sanitizer must find, so that its silence elsewhere is meaningful.
//
//   planted_bugs memcheck    writes one byte past an allocation
//   planted_bugs racecheck   two warps write and read shared memory without a barrier
//   planted_bugs initcheck   reads device memory that was never written
//   planted_bugs synccheck   a barrier that part of the block never reaches
//   planted_bugs readahead   a decoder reads a word that extends past the end of its input (for memcheck)
//   planted_bugs ring        a decoder's ring in shared memory, refilled while another warp reads it (for racecheck)
//   planted_bugs unwritten   a match copied from output that was not written yet (for initcheck)
//   planted_bugs clean       no bug
//
// Exits with 77 without a GPU.
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

// Reads a chunk of 998 bytes four at a time, as a careless decoder would.
__global__ void read_words(unsigned* out, const unsigned char* in) {
  unsigned sum = 0;
  for (unsigned at = threadIdx.x * 4; at < 998; at += blockDim.x * 4) {
    sum += *reinterpret_cast<const unsigned*>(in + at) +
           (at + 4 > 998 ? *reinterpret_cast<const unsigned*>(in + at + 4) : 0);
  }
  out[threadIdx.x] = sum;
}
__global__ void refill_ring(unsigned char* out, const unsigned char* in) {
  __shared__ unsigned char ring[64];
  for (unsigned round = 0; round < 4; ++round) {
    if (threadIdx.x < 32) ring[threadIdx.x] = in[round * 32 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x >= 32) out[round * 32 + threadIdx.x - 32] = ring[threadIdx.x - 32];
    // The barrier before the next round's refill is missing.
  }
}
__global__ void copy_match(unsigned char* out) {
  const unsigned char byte = out[threadIdx.x];  // 64 bytes back, which no literal filled
  out[64 + threadIdx.x] = static_cast<unsigned char>(byte ^ 1);
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
  } else if (std::strcmp(what, "readahead") == 0) {
    unsigned* sums = nullptr;
    if (cudaMalloc(&sums, 128) != cudaSuccess || cudaMemset(memory, 1, 1000) != cudaSuccess) return 1;
    read_words<<<1, 32>>>(sums, memory);
  } else if (std::strcmp(what, "ring") == 0) {
    if (cudaMemset(memory, 1, 1000) != cudaSuccess) return 1;
    refill_ring<<<1, 64>>>(memory + 500, memory);
  } else if (std::strcmp(what, "unwritten") == 0) {
    copy_match<<<1, 64>>>(memory);
  } else {
    write_at<<<1, 1>>>(memory, 999);
  }
  const cudaError_t error = cudaDeviceSynchronize();
  cudaFree(memory);
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  return 0;  // the sanitizer reports by its own exit code
}

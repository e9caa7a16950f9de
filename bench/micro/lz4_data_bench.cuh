// Test data of both LZ4 decoder benchmarks, and the comparison of their output on the device.
#pragma once

#include <cuda_runtime.h>
#include <lz4.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace headrace::bench {

using Bytes = std::vector<unsigned char>;

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <class F>
void on_all_cores(std::size_t count, F f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (std::size_t i; (i = next++) < count;) f(i);
    });
  }
  for (auto& thread : threads) thread.join();
}

inline void round_mantissa(Bytes& bytes, int keep) {
  const unsigned drop = 23 - static_cast<unsigned>(keep);
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t v;
    std::memcpy(&v, &bytes[i], 4);
    v += ((1u << (drop - 1)) - 1) + (v >> drop & 1);
    v &= ~((1u << drop) - 1);
    std::memcpy(&bytes[i], &v, 4);
  }
}

struct Case {
  std::string name;
  std::size_t chunk = 0;
  Bytes plain;                 // all distinct streams, concatenated
  std::vector<Bytes> streams;  // compressed, or the plain bytes if those are not larger
  std::size_t stream_bytes = 0;
};

inline Case make_case(const Bytes& raw, const std::string& name, std::size_t chunk, std::size_t distinct_bytes) {
  Case out;
  out.name = name;
  out.chunk = chunk;
  const bool planes = name == "planes";
  const std::size_t block = planes ? 4 * chunk : chunk, blocks = std::max<std::size_t>(1, distinct_bytes / block);
  out.plain.resize(blocks * block);
  out.streams.resize(blocks * block / chunk);
  on_all_cores(blocks, [&](std::size_t b) {
    Bytes bytes(raw.begin() + static_cast<std::ptrdiff_t>(b * block),
                raw.begin() + static_cast<std::ptrdiff_t>((b + 1) * block));
    if (name == "round") round_mantissa(bytes, 7);
    unsigned char* const plain = &out.plain[b * block];
    if (name == "noshuffle") {
      std::memcpy(plain, bytes.data(), block);
    } else {
      for (std::size_t k = 0; k < 4; ++k) {
        for (std::size_t i = 0; i < block / 4; ++i) plain[k * (block / 4) + i] = bytes[4 * i + k];
      }
    }
    for (std::size_t s = 0; s < block / chunk; ++s) {
      Bytes& stream = out.streams[b * (block / chunk) + s];
      const unsigned char* const from = plain + s * chunk;
      stream.resize(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(chunk))));
      const int got = LZ4_compress_default(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(stream.data()),
                                           static_cast<int>(chunk), static_cast<int>(stream.size()));
      stream.resize(static_cast<std::size_t>(got));
      if (planes && stream.size() >= chunk) stream.assign(from, from + chunk);
    }
  });
  for (const Bytes& stream : out.streams) out.stream_bytes += stream.size();
  return out;
}

static __global__ void compare(const std::uint32_t* got, const std::uint32_t* want, std::size_t words,
                               std::size_t period, unsigned long long* wrong) {
  const std::size_t threads = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned long long bad = 0;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < words; i += threads) {
    bad += got[i] != want[i % period];
  }
  if (bad != 0) atomicAdd(wrong, bad);
}

}  // namespace headrace::bench

// Decode throughput of the GPU's in-order LZ4 decoder, device to device: one JSON line per case.
//
//   lz4_gpu_bench RAW [--only TEXT] [--lanes 8,16,32,0] [--reps 5] [--total MIB]
//
// RAW contains at least 128 MiB of float32. It is cut into chunks, byte-shuffled (era5), unchanged (noshuffle) or
// rounded to 7 mantissa bits and shuffled (round), and compressed by liblz4 as numcodecs does. "planes" are the four
// byte planes of blocks of 512 KiB, as Blosc cuts them; planes that do not shrink are stored. A batch repeats the
// distinct data at distinct addresses. Lanes 0 is the decoder's own choice. Times are those of the launch by CUDA
// events, the median after one warm-up, with the L2 cache overwritten in between. Every case is first compared with the
// source on the device.
#include <cuda_runtime.h>
#include <lz4.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/micro/lz4_data_bench.cuh"
#include "codecs/lz4/lz4_device.cuh"

namespace {

using namespace headrace;
using codec::gpu::Lz4Job;
using codec::gpu::Lz4Kind;
using codec::gpu::Lz4Stream;
using namespace headrace::bench;

struct Device {
  unsigned char *src = nullptr, *dst = nullptr, *want = nullptr, *flush = nullptr;
  Lz4Stream* streams = nullptr;
  std::uint32_t* count = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned long long* wrong = nullptr;
  std::size_t room = 0, max_streams = 0;
  int multiprocessors = 0;
  static constexpr std::size_t kFlush = 256u << 20;

  void open(std::size_t bytes, std::size_t distinct, std::size_t streams_most) {
    room = bytes;
    max_streams = streams_most;
    check(cudaMalloc(&src, bytes + bytes / 64), "memory");
    check(cudaMalloc(&dst, bytes), "memory");
    check(cudaMalloc(&want, distinct), "memory");
    check(cudaMalloc(&flush, kFlush), "memory");
    check(cudaMalloc(&streams, streams_most * sizeof(Lz4Stream)), "memory");
    check(cudaMalloc(&outcomes, streams_most * 8), "memory");
    check(cudaMalloc(&count, 4), "memory");
    check(cudaMalloc(&wrong, 8), "memory");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "device");
  }
};

void run(Device& device, const Case& one, std::size_t count, unsigned lanes, int reps) {
  const auto n = static_cast<std::uint32_t>(count);
  const std::size_t distinct = one.streams.size();
  std::vector<Lz4Stream> list(count);
  Bytes blob;
  std::vector<std::size_t> at(distinct);
  for (std::size_t i = 0; i < distinct; ++i) {
    at[i] = blob.size();
    blob.insert(blob.end(), one.streams[i].begin(), one.streams[i].end());
  }
  Lz4Job job;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t d = i % distinct;
    const std::size_t bytes = one.streams[d].size();
    list[i] = {device.src + i / distinct * blob.size() + at[d],
               device.dst + i * one.chunk,
               static_cast<std::uint32_t>(bytes),
               static_cast<std::uint32_t>(one.chunk),
               static_cast<std::uint32_t>(i),
               bytes == one.chunk ? Lz4Kind::kStored : Lz4Kind::kBlock};
    job.limits.src_bytes += bytes;
  }
  for (std::size_t copy = 0; copy * distinct < count; ++copy) {
    const std::size_t first = copy * distinct, last = std::min(distinct, count - first);
    const std::size_t bytes = last == distinct ? blob.size() : at[last];
    check(cudaMemcpy(device.src + copy * blob.size(), blob.data(), bytes, cudaMemcpyHostToDevice), "copy");
  }
  check(cudaMemcpy(device.want, one.plain.data(), one.plain.size(), cudaMemcpyHostToDevice), "copy");
  check(cudaMemcpy(device.streams, list.data(), count * sizeof(Lz4Stream), cudaMemcpyHostToDevice), "copy");
  check(cudaMemcpy(device.count, &n, 4, cudaMemcpyHostToDevice), "copy");
  check(cudaMemset(device.outcomes, 0xff, count * 8), "set");
  check(cudaMemset(device.dst, 0x5a, count * one.chunk), "set");
  check(cudaMemset(device.wrong, 0, 8), "set");
  job.streams = device.streams;
  job.count = device.count;
  job.outcomes = device.outcomes;
  job.limits.streams = n;
  job.limits.dst_bytes = count * one.chunk;
  job.limits.largest_src_bytes = job.limits.largest_dst_bytes = one.chunk;
  job.multiprocessors = device.multiprocessors;
  const auto decode = [&] {
    const int error = codec::gpu::enqueue_lz4_inorder(job, nullptr, lanes);
    check(static_cast<cudaError_t>(error), "launch");
  };
  decode();
  compare<<<1024, 256>>>(reinterpret_cast<const std::uint32_t*>(device.dst),
                         reinterpret_cast<const std::uint32_t*>(device.want), count * one.chunk / 4,
                         one.plain.size() / 4, device.wrong);
  std::vector<std::uint64_t> outcomes(count);
  unsigned long long wrong = 0;
  check(cudaMemcpy(outcomes.data(), device.outcomes, count * 8, cudaMemcpyDeviceToHost), "decode");
  check(cudaMemcpy(&wrong, device.wrong, 8, cudaMemcpyDeviceToHost), "compare");
  const auto bad = std::count_if(outcomes.begin(), outcomes.end(), [](std::uint64_t word) { return ~word != 0; });
  std::vector<float> times;
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "event");
  check(cudaEventCreate(&stop), "event");
  for (int r = 0; r < reps; ++r) {
    check(cudaMemsetAsync(device.flush, r, Device::kFlush), "set");
    check(cudaEventRecord(start), "event");
    decode();
    check(cudaEventRecord(stop), "event");
    check(cudaEventSynchronize(stop), "decode");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, stop), "event");
    times.push_back(ms);
  }
  check(cudaEventDestroy(start), "event");
  check(cudaEventDestroy(stop), "event");
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  std::printf(
      "{\"case\": \"%s\", \"stream_bytes\": %zu, \"streams\": %zu, \"lanes\": %u, \"ratio\": %.3f, \"ms\": %.4f, "
      "\"ms_min\": %.4f, \"ms_max\": %.4f, \"gb_per_s\": %.1f, \"bad_streams\": %ld, \"wrong_words\": %llu}\n",
      one.name.c_str(), one.chunk, count, lanes,
      static_cast<double>(count * one.chunk) / static_cast<double>(job.limits.src_bytes), ms,
      static_cast<double>(times.front()), static_cast<double>(times.back()),
      static_cast<double>(count * one.chunk) / ms / 1e6, static_cast<long>(bad), wrong);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path, only;
  std::vector<unsigned> lanes = {8, 16, 32, 0};
  int reps = 5;
  std::size_t total = 1024;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--only") {
      only = value, ++i;
    } else if (argument == "--lanes") {
      lanes.clear();
      for (const char* at = value; *at != 0; at += *at == ',' ? 1 : 0) {
        char* end = nullptr;
        lanes.push_back(static_cast<unsigned>(std::strtoul(at, &end, 10)));
        if (end == at) return 2;
        at = end;
      }
      ++i;
    } else if (argument == "--reps") {
      reps = std::max(1, std::atoi(value)), ++i;
    } else if (argument == "--total") {
      total = static_cast<std::size_t>(std::max(1, std::atoi(value))), ++i;
    } else {
      path = argument;
    }
  }
  constexpr std::size_t kDistinct = 128u << 20;
  Bytes raw(kDistinct);
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr || std::fread(raw.data(), 1, raw.size(), file) != raw.size()) {
    std::fprintf(stderr, "usage: lz4_gpu_bench RAW [--only TEXT] [--lanes 8,16,32,0] [--reps 5] [--total MIB]\n");
    return 2;
  }
  std::fclose(file);
  Device device;
  const std::size_t bytes = total << 20, distinct = std::min(bytes, kDistinct);
  device.open(bytes, distinct, bytes >> 14);
  for (const std::size_t chunk : {64u << 10, 16u << 10, 256u << 10}) {
    for (const char* name : {"era5", "noshuffle", "round"}) {
      if ((name + (" " + std::to_string(chunk))).find(only) == std::string::npos) continue;
      const Case one = make_case(raw, name, chunk, distinct);
      for (const unsigned l : lanes) run(device, one, bytes / chunk, l, reps);
    }
  }
  for (const char* name : {"planes", "era5", "noshuffle"}) {
    constexpr std::size_t kChunk = 128u << 10;
    if ((name + (" " + std::to_string(kChunk))).find(only) == std::string::npos) continue;
    const Case one = make_case(raw, name, kChunk, distinct);
    for (const std::size_t count : {1u, 4u, 32u, 128u, 512u, 1024u, 2048u, 8192u}) {
      for (const unsigned l : lanes) {
        if (count * kChunk <= bytes) run(device, one, count, l, reps);
      }
    }
  }
  return 0;
}

// Decode throughput of the GPU's tiled LZ4 decoder, device to device: one JSON line per case.
//
//   lz4_tiles_bench RAW [--only TEXT] [--reps 5] [--crossings]
//
// RAW contains at least 128 MiB of float32. It is cut into chunks, byte-shuffled (era5), unchanged (noshuffle) or
// rounded to 7 mantissa bits and shuffled (round), and compressed by liblz4; "planes" are the four byte planes of
// blocks of four times the size, as Blosc cuts them. --crossings: sizes around which the faster decoder changes,
// decoded in each way: by tiles as the library chooses, by tiles above several thresholds of encoded bytes, and in
// order. A batch repeats the distinct data at distinct addresses. Times are from the first launch to the end of the
// last by CUDA events, the median after one warm-up, with the L2 cache overwritten in between. Every case is compared
// with the source on the device.
#include <cuda_runtime.h>
#include <lz4.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/micro/lz4_data_bench.cuh"
#include "codecs/lz4/lz4_scratch_device.cuh"

namespace {

using namespace headrace;
using codec::gpu::Lz4Job;
using codec::gpu::Lz4Kind;
using codec::gpu::Lz4Stream;
using namespace headrace::bench;

struct Device {
  unsigned char *src = nullptr, *dst = nullptr, *want = nullptr, *flush = nullptr;
  std::byte* scratch = nullptr;
  Lz4Stream* streams = nullptr;
  std::uint32_t* count = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned long long* wrong = nullptr;
  std::size_t scratch_bytes = 0;
  int multiprocessors = 0;
  static constexpr std::size_t kFlush = 256u << 20, kRoom = 1u << 30, kStreams = 65536;

  void open() {
    scratch_bytes = kRoom + (kRoom >> 2);
    check(cudaMalloc(&src, kRoom + kRoom / 64), "memory");
    check(cudaMalloc(&dst, kRoom), "memory");
    check(cudaMalloc(&want, 128u << 20), "memory");
    check(cudaMalloc(&flush, kFlush), "memory");
    check(cudaMalloc(&scratch, scratch_bytes), "memory");
    check(cudaMalloc(&streams, kStreams * sizeof(Lz4Stream)), "memory");
    check(cudaMalloc(&outcomes, kStreams * 8), "memory");
    check(cudaMalloc(&count, 4), "memory");
    check(cudaMalloc(&wrong, 8), "memory");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "device");
  }
};

// How a batch is decoded: in order, or by tiles if a stream has at least `min_src` encoded bytes (0: automatic).
struct Way {
  bool in_order = false;
  std::uint32_t min_src = 0;
  std::string name() const {
    if (in_order) return "in order";
    return min_src == 0 ? "tiles" : "tiles from " + std::to_string(min_src >> 10) + " KiB";
  }
};

void run(Device& device, const Case& one, std::size_t count, int reps, const Way& way) {
  const auto n = static_cast<std::uint32_t>(count);
  const std::size_t distinct = std::min(one.streams.size(), count);
  std::vector<Lz4Stream> list(count);
  Lz4Job job;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes& stream = one.streams[i % distinct];
    list[i] = {device.src + at,
               device.dst + i * one.chunk,
               static_cast<std::uint32_t>(stream.size()),
               static_cast<std::uint32_t>(one.chunk),
               static_cast<std::uint32_t>(i),
               stream.size() == one.chunk ? Lz4Kind::kStored : Lz4Kind::kBlock};
    if (i < distinct) {
      check(cudaMemcpy(device.src + at, stream.data(), stream.size(), cudaMemcpyHostToDevice), "copy");
    } else {
      check(cudaMemcpy(device.src + at, list[i % distinct].src, stream.size(), cudaMemcpyDeviceToDevice), "copy");
    }
    at += stream.size();
  }
  job.limits.src_bytes = at;
  check(cudaMemcpy(device.want, one.plain.data(), distinct * one.chunk, cudaMemcpyHostToDevice), "copy");
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
  job.scratch = device.scratch;
  job.scratch_bytes = device.scratch_bytes;
  codec::gpu::Lz4TilesChoice choice;
  choice.min_src = way.min_src;
  const auto decode = [&] {
    const int error = way.in_order ? codec::gpu::enqueue_lz4_inorder(job, nullptr)
                                   : codec::gpu::enqueue_lz4_tiles(job, nullptr, choice);
    check(static_cast<cudaError_t>(error), "launch");
  };
  decode();
  compare<<<1024, 256>>>(reinterpret_cast<const std::uint32_t*>(device.dst),
                         reinterpret_cast<const std::uint32_t*>(device.want), count * one.chunk / 4,
                         distinct * one.chunk / 4, device.wrong);
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
  if (reps == 0) times.push_back(1e9f);
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  std::printf(
      "{\"case\": \"%s\", \"way\": \"%s\", \"stream_bytes\": %zu, \"streams\": %zu, \"ratio\": %.3f, \"ms\": %.4f, "
      "\"ms_min\": %.4f, \"ms_max\": %.4f, \"gb_per_s\": %.1f, \"scratch_mb\": %.1f, \"bad_streams\": %ld, "
      "\"wrong_words\": %llu}\n",
      one.name.c_str(), way.name().c_str(), one.chunk, count,
      static_cast<double>(count * one.chunk) / static_cast<double>(job.limits.src_bytes), ms,
      static_cast<double>(times.front()), static_cast<double>(times.back()),
      static_cast<double>(count * one.chunk) / ms / 1e6,
      static_cast<double>(codec::gpu::lz4_tiles_scratch_bytes(job.limits)) / 1e6, static_cast<long>(bad), wrong);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path, only;
  int reps = 5;
  bool crossings = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--only") {
      only = value, ++i;
    } else if (argument == "--reps") {
      reps = std::max(0, std::atoi(value)), ++i;
    } else if (argument == "--crossings") {
      crossings = true;
    } else {
      path = argument;
    }
  }
  constexpr std::size_t kDistinct = 128u << 20;
  Bytes raw(kDistinct);
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr || std::fread(raw.data(), 1, raw.size(), file) != raw.size()) {
    std::fprintf(stderr, "usage: lz4_tiles_bench RAW [--only TEXT] [--reps 5] [--crossings]\n");
    return 2;
  }
  std::fclose(file);
  Device device;
  device.open();
  struct Size {
    std::size_t chunk, count;
  };
  const std::vector<Size> sizes =
      crossings ? std::vector<Size>{{256u << 10, 16},   {256u << 10, 64}, {256u << 10, 256}, {256u << 10, 1024},
                                    {256u << 10, 4096}, {1u << 20, 16},   {1u << 20, 64},    {1u << 20, 256},
                                    {1u << 20, 1024},   {8u << 20, 8},    {8u << 20, 32}}
                : std::vector<Size>{{64u << 20, 1},  {8u << 20, 1},   {1u << 20, 1},
                                    {64u << 20, 16}, {8u << 20, 128}, {1u << 20, 1024}};
  const std::vector<Size> plane_sizes = {{64u << 10, 256},   {64u << 10, 1024},  {128u << 10, 64},  {128u << 10, 512},
                                         {128u << 10, 1024}, {128u << 10, 2048}, {128u << 10, 4096}};
  for (const std::string name : {"planes", "era5", "noshuffle", "round"}) {
    std::size_t made = 0;
    Case one;
    if (name == "planes" && !crossings) continue;
    for (const Size& size : name == "planes" ? plane_sizes : sizes) {
      const std::string label = name + " " + std::to_string(size.chunk >> 10) + "x" + std::to_string(size.count) + " ";
      if (label.find(only) == std::string::npos) continue;
      if (made != size.chunk) one = make_case(raw, name, size.chunk, std::min(kDistinct, size.chunk * 128));
      made = size.chunk;
      run(device, one, size.count, reps, {});
      if (!crossings) continue;
      for (const std::uint32_t least : {16u, 32u, 64u, 96u}) {
        if (least << 10 < size.chunk) run(device, one, size.count, reps, {false, least << 10});
      }
      run(device, one, size.count, reps, {true, 0});
    }
  }
  return 0;
}

// Measures a batch's cost besides reading: the CPU time of the consumer (next() and the release), and the planning time
// per sample on the loader's own thread.
//
//   loader_bench [DEVICE BATCH_SIZE [scaled]]     one line of JSON; without arguments, one per combination
//
// Windows of two times in an uncompressed array in memory, full shuffle. scaled: conversion to float32 with a scale and
// an offset for each of four levels. Medians of rounds 2 to 9, of 100 batches each.
#include <headrace/loader.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>
#include <vector>

#include "base/access.h"
#include "tests/support/raw_array.h"

namespace {

using namespace headrace;

constexpr std::uint64_t kTimes = 4096, kLevels = 4, kElements = 16;
constexpr int kRounds = 9, kBatches = 100;

double thread_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const char* device_name, const Array& array, std::uint64_t batch_size, bool scaled) {
  const Device device = Device::open(device_name).value();
  const Windows windows = Windows::create({{"time", kTimes}, {"level", kLevels}, {"x", kElements}},
                                          {.input_dims = {{"time", 2}}, .input_stride = {{"time", 1}}})
                              .value();
  LoaderArray one{"x", array, windows};
  if (scaled) {
    one.read.dtype = "float32";
    one.scale_by = {.dims = {1}, .scale = {0.5, 1, 2, 4}, .offset = {1, 2, 3, 4}};
  }
  LoaderOptions options;
  options.order = Order::full_shuffle(windows.sample_count()).value();
  options.epochs = 0;
  options.split.batch_size = batch_size;
  Loader loader = Loader::create(device, {one}, options).value();
  std::vector<double> consumer, planning;
  for (int round = 0; round < kRounds; ++round) {
    double taken = 0, planned = 0;
    for (int batches = 0; batches < kBatches;) {
      const double begin = thread_microseconds();
      std::optional<LoaderBatch> batch = loader.next().value();
      const bool some = batch.has_value();
      const LoaderTiming timing = some ? batch->timing() : LoaderTiming();
      batch.reset();
      taken += thread_microseconds() - begin;
      // Simulates training: the next batch is ready, so no time is spent waiting.
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      loader.wait_for(std::chrono::seconds(10));
      if (!some) continue;
      planned += static_cast<double>(timing.begun_ns - timing.planned_ns) * 1e-3;
      ++batches;
    }
    if (round == 0) continue;
    consumer.push_back(taken / kBatches);
    planning.push_back(planned / kBatches / static_cast<double>(batch_size));
  }
  std::printf(R"({"device":"%s","batch_size":%llu,"scaled":%s,"consumer_us_per_batch":%.1f,)"
              R"("planning_us_per_sample":%.2f})"
              "\n",
              device_name, static_cast<unsigned long long>(batch_size), scaled ? "true" : "false", median(consumer),
              median(planning));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const Context context = Context::create({}).value();
  const Store store = Store::open(context, "memory://loader_bench").value();
  testing::RawArray about;
  about.shape = {kTimes, kLevels, kElements};
  about.chunk = {8, kLevels, kElements};
  about.missing_every = 0;
  if (const Status status = testing::write_raw_array(*Access::impl(store), "", about); !status.ok()) {
    std::fprintf(stderr, "loader_bench: %s\n", status.to_string().c_str());
    return 1;
  }
  const Array array = Array::open(store).value();
  if (argc >= 3) {
    measure(argv[1], array, std::strtoull(argv[2], nullptr, 10), argc > 3 && std::string_view(argv[3]) == "scaled");
    return 0;
  }
  for (const bool scaled : {false, true}) {
    for (const char* device : {"host", "host-staged"}) {
      for (const std::uint64_t batch_size : {4u, 16u, 64u, 256u}) measure(device, array, batch_size, scaled);
    }
  }
  return 0;
}

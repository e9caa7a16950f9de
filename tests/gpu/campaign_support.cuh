// Helpers of the mutation campaign: options, fatal errors, device memory, counters and windows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "campaign_kernels.cuh"
#include "device/device.h"
#include "support/guarded_windows.h"

namespace headrace::test {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Options {
  std::uint64_t count = 1'000'000, seed = 1, sample = 512;
  std::uint32_t batch = 131072;
  std::size_t largest = kMiB;
  std::string codec, groups = ".", record, commit = "unknown";
  bool replay = false, verbose = false, list = false, parts = false;
  Plant plant = Plant::kNone;
  std::uint64_t replay_first = 0;
  std::uint32_t replay_count = 0;
  std::int64_t replay_item = -1;
};

[[noreturn]] inline void die(const std::string& what) {
  std::fprintf(stderr, "decode_campaign: %s\n", what.c_str());
  std::exit(1);
}
// What the process is doing, printed when it ends on an error.
inline std::string g_doing;
inline std::atomic<std::uint64_t> g_beats{0};

inline void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) die(std::string(what) + ": " + cudaGetErrorString(error) + "; " + g_doing);
}
inline void must(const Status& status) {
  if (!status.ok()) die(status.to_string() + "; " + g_doing);
}
template <class T>
T take(Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

inline void in_parallel(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work,
                        std::size_t worth_a_thread = 256) {
  const std::size_t threads =
      std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), count / worth_a_thread + 1);
  if (threads == 1) return work(0, count);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] { work(count * t / threads, count * (t + 1) / threads); });
  }
  for (std::thread& thread : running) thread.join();
}

template <class T>
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t count) {
    must(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(count * sizeof(T), 1)), "allocating");
  }
  explicit DeviceMemory(const std::vector<T>& from) : DeviceMemory(from.size()) {
    must(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copying the corpus");
  }
  ~DeviceMemory() { (void)cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

struct Counts {
  std::uint64_t executions = 0, ok = 0, host_only = 0, sampled = 0, offset_zero = 0, batches = 0;
  std::uint64_t with_index = 0, index_refused = 0;  // decodes with an index; good items whose index was bad
  double worst_times = 0, decode_seconds = 0;
  std::map<unsigned, std::uint64_t> reasons;
  void add(const Counts& other) {
    executions += other.executions, ok += other.ok, host_only += other.host_only, sampled += other.sampled;
    offset_zero += other.offset_zero, batches += other.batches, decode_seconds += other.decode_seconds;
    with_index += other.with_index, index_refused += other.index_refused;
    worst_times = std::max(worst_times, other.worst_times);
    for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  }
};

// Windows by use; reused by later groups that need the same size.
class Arenas {
 public:
  GuardedWindows& get(const char* use, std::size_t count, std::size_t bytes) {
    auto& slot = windows_[use];
    if (slot == nullptr || slot->window_bytes() != bytes || slot->count() < count) {
      slot.reset();
      slot = std::make_unique<GuardedWindows>(count, bytes);
    }
    return *slot;
  }

 private:
  std::map<std::string, std::unique_ptr<GuardedWindows>> windows_;
};

}  // namespace headrace::test

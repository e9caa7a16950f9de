// Reads one array to several GPUs at the same time, with threads of their own for each, and prints the rate of each
// GPU.
//
//   gpus_bench ARRAY KIND THREADS SECONDS DEVICE...     prints a line of JSON for each device
//
// ARRAY: three dimensions, time first. Each of the THREADS threads of a device repeats one call into memory of its own:
//   whole    the whole array
//   frames   16 random frames, read_many
//   frame    one random frame
//   crops    64 random crops of 4 x 128 x 128, read_many
// When all threads have made their first calls, which allocate, it prints "ready" and waits for a line of input, so
// that several processes can begin together. gpus.py runs all combinations. Bytes are those delivered.
#include <headrace/array.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace headrace;
using Clock = std::chrono::steady_clock;

void need(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpus_bench: %s\n", status.to_string().c_str());
  std::exit(1);
}
template <class T>
T need(Result<T> result) {
  need(result.status());
  return std::move(*result);
}

struct Kind {
  std::size_t parts;
  std::array<std::uint64_t, 3> extent;  // 0: all of that dimension
};

Kind kind_of(const std::string& name) {
  if (name == "whole") return {1, {0, 0, 0}};
  if (name == "frames") return {16, {1, 0, 0}};
  if (name == "frame") return {1, {1, 0, 0}};
  if (name == "crops") return {64, {4, 128, 128}};
  std::fprintf(stderr, "gpus_bench: unknown kind '%s': whole, frames, frame or crops\n", name.c_str());
  std::exit(2);
}

// One thread's calls. Created and used by its own thread.
class Reader {
 public:
  Reader(const Array& array, const Device& device, const Kind& kind, std::uint64_t seed)
      : array_(array), device_(device), random_(seed), extent_(kind.extent) {
    const ArrayInfo& info = array.info();
    std::uint64_t bytes = info.dtype.item_bytes;
    for (std::size_t axis = 0; axis < extent_.size(); ++axis) {
      if (extent_[axis] == 0) extent_[axis] = info.shape[axis];
      bytes *= extent_[axis];
    }
    for (std::size_t i = 0; i < kind.parts; ++i) buffers_.push_back(need(Buffer::allocate(device, bytes)));
    bytes_ = bytes * kind.parts;
  }

  std::uint64_t bytes() const { return bytes_; }

  void call() {
    const ArrayInfo& info = array_.info();
    std::vector<ReadPart> parts;
    for (const Buffer& buffer : buffers_) {
      Selection selection;
      for (std::size_t axis = 0; axis < extent_.size(); ++axis) {
        const auto at = static_cast<std::int64_t>(random_() % (info.shape[axis] - extent_[axis] + 1));
        selection.push_back({.start = at, .stop = at + static_cast<std::int64_t>(extent_[axis])});
      }
      parts.push_back({selection, {buffer, info.dtype, {extent_[0], extent_[1], extent_[2]}}});
    }
    need(array_.read_many(parts, device_));
  }

 private:
  const Array& array_;
  const Device& device_;
  std::mt19937_64 random_;
  std::array<std::uint64_t, 3> extent_;
  std::vector<Buffer> buffers_;
  std::uint64_t bytes_ = 0;
};

struct Calls {
  std::vector<double> ms;
  std::uint64_t bytes = 0;
};

double percentile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: gpus_bench ARRAY KIND THREADS SECONDS DEVICE...\n", stderr);
    return 2;
  }
  const Kind kind = kind_of(argv[2]);
  const auto threads = static_cast<std::size_t>(std::max(1, std::atoi(argv[3])));
  const std::chrono::duration<double> seconds(std::atof(argv[4]));
  const std::span<char*> names(argv + 5, static_cast<std::size_t>(argc - 5));

  const Context context = need(Context::create());
  const Array array = need(Array::open(need(Store::open(context, argv[1]))));
  std::vector<Device> devices;
  for (const char* name : names) devices.push_back(need(Device::open(name)));

  std::vector<Calls> results(devices.size() * threads);
  std::barrier<> warm(static_cast<std::ptrdiff_t>(results.size() + 1)),
      go(static_cast<std::ptrdiff_t>(results.size() + 1));
  std::vector<std::thread> running;
  Clock::time_point end;
  for (std::size_t i = 0; i < results.size(); ++i) {
    running.emplace_back([&, i] {
      Reader reader(array, devices[i / threads], kind, i + 1);
      // Registers windows of the page cache and settles the placement, which takes a dozen reads of the array.
      const auto settled = Clock::now() + std::chrono::milliseconds(700);
      for (int call = 0; call < 20 || Clock::now() < settled; ++call) reader.call();
      warm.arrive_and_wait();
      go.arrive_and_wait();
      while (Clock::now() < end) {
        const auto begin = Clock::now();
        reader.call();
        results[i].ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
        results[i].bytes += reader.bytes();
      }
    });
  }
  warm.arrive_and_wait();
  std::puts("ready");
  std::fflush(stdout);
  (void)std::getchar();
  const auto begin = Clock::now();
  end = begin + std::chrono::duration_cast<Clock::duration>(seconds);
  go.arrive_and_wait();
  for (std::thread& thread : running) thread.join();
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    Calls all;
    for (std::size_t t = 0; t < threads; ++t) {
      const Calls& one = results[d * threads + t];
      all.ms.insert(all.ms.end(), one.ms.begin(), one.ms.end());
      all.bytes += one.bytes;
    }
    if (all.ms.empty()) continue;
    std::printf("{\"device\": \"%s\", \"gb_s\": %.2f, \"calls\": %zu, \"ms_p50\": %.3f, \"ms_p99\": %.3f}\n",
                devices[d].name().c_str(), static_cast<double>(all.bytes) / took / 1e9, all.ms.size(),
                percentile(all.ms, 0.5), percentile(all.ms, 0.99));
  }
  return 0;
}

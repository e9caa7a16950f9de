// Reads random crops of an array, many per call as in training, alternating between partial and whole decoding of
// chunks.
//
//   crops_bench ARRAY DEVICE SECONDS [CROPS STEPS ROWS COLUMNS [aligned]]     prints a line of JSON for each mode
//
// ARRAY: three dimensions, time first. Each call reads CROPS boxes of STEPS x ROWS x COLUMNS (64 of 4 x 128 x 128) at
// random places (aligned: at multiples of the box) into separate memory. Calls of both modes use the same places.
// plan_us to wait_us are times of Stats per call, summed over threads; queue: work of the device, wait: waiting for it.
#include <headrace/array.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace headrace;

template <class T>
T need(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "crops_bench: %s\n", result.status().to_string().c_str());
  std::exit(1);
}

void need(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "crops_bench: %s\n", status.to_string().c_str());
  std::exit(1);
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

}  // namespace

int main(int argc, char** argv) {
  const bool aligned = argc == 9 && std::string(argv[8]) == "aligned";
  if (argc != 4 && argc != 8 && !aligned) {
    std::fprintf(stderr, "usage: crops_bench ARRAY DEVICE SECONDS [CROPS STEPS ROWS COLUMNS [aligned]]\n");
    return 2;
  }
  const std::string path = argv[1];
  const double seconds = std::atof(argv[3]);
  std::uint64_t crops = 64, count[3] = {4, 128, 128};
  if (argc >= 8) {
    crops = std::strtoull(argv[4], nullptr, 10);
    for (int i = 0; i < 3; ++i) count[i] = std::strtoull(argv[5 + i], nullptr, 10);
  }
  const Context context = need(Context::create());
  const Device device = need(Device::open(argv[2]));
  const Store store = need(Store::open(context, path));
  const Array array = need(Array::open(store));
  const ArrayInfo& info = array.info();
  const std::uint64_t bytes = count[0] * count[1] * count[2] * info.dtype.item_bytes;
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < crops; ++i) buffers.push_back(need(Buffer::allocate(device, bytes)));

  struct Way {
    const char* name;
    Verify verify;
    std::mt19937_64 random{20261125};
    std::vector<double> ms;
    Stats stats;
  } ways[] = {{"part", Verify::kAsRead, std::mt19937_64(1), {}, {}},
              {"whole", Verify::kWhole, std::mt19937_64(1), {}, {}}};
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (int round = 0; round < 5 || passed() < seconds; ++round) {
    for (Way& way : ways) {
      std::vector<ReadPart> parts;
      for (const Buffer& buffer : buffers) {
        Selection selection;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          const std::uint64_t unit = aligned ? count[axis] : 1;
          const auto at =
              static_cast<std::int64_t>(way.random() % ((info.shape[axis] - count[axis]) / unit + 1) * unit);
          selection.push_back({.start = at, .stop = at + static_cast<std::int64_t>(count[axis])});
        }
        parts.push_back({selection, {buffer, info.dtype, {count[0], count[1], count[2]}}});
      }
      ReadOptions options;
      options.verify = way.verify;
      Stats stats;
      const auto start = std::chrono::steady_clock::now();
      need(array.read_many(parts, device, options, &stats));
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      if (round < 3) continue;  // warm-up: allocates pinned memory and settles the placement
      way.ms.push_back(ms);
      way.stats += stats;
    }
  }
  for (const Way& way : ways) {
    const double calls = static_cast<double>(way.ms.size());
    std::printf(
        "{\"way\": \"%s\", \"device\": \"%s\", \"crops\": %llu, \"calls\": %zu, \"ms_p50\": %.3f, \"ms_p99\": %.3f, "
        "\"read_mb\": %.1f, \"bus_mb\": %.1f, \"skipped_mb\": %.1f, \"chunks\": %.1f, \"gpu_chunks\": %.1f, \"waves\": "
        "%.1f, "
        "\"plan_us\": %.0f, \"open_us\": %.0f, \"read_us\": %.0f, \"queue_us\": %.0f, \"wait_us\": %.0f}\n",
        way.name, device.name().c_str(), static_cast<unsigned long long>(crops), way.ms.size(), percentile(way.ms, 0.5),
        percentile(way.ms, 0.99), static_cast<double>(way.stats.read_bytes) / calls / 1e6,
        static_cast<double>(way.stats.bus_bytes) / calls / 1e6,
        static_cast<double>(way.stats.skipped_bytes) / calls / 1e6, static_cast<double>(way.stats.chunks) / calls,
        static_cast<double>(way.stats.gpu_chunks) / calls, static_cast<double>(way.stats.waves) / calls,
        way.stats.plan_seconds / calls * 1e6, way.stats.open_seconds / calls * 1e6,
        way.stats.read_seconds / calls * 1e6, way.stats.assemble_seconds / calls * 1e6,
        way.stats.copy_seconds / calls * 1e6);
  }
  return 0;
}

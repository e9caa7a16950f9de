// Reads random rows of a sharded array as one selection, and compares with libzstd decoding the same chunks from memory
// on as many threads. Used by select_compare.py.
//
//   select_bench ARRAY ROWS_FILE THREADS REPEAT     prints JSON: median wall and CPU seconds
//
// ARRAY: rows of one inner chunk each, one shard, index at the end with crc32c. ROWS_FILE: one row number per line.
#include <headrace/array.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace headrace;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "select_bench: %s\n", what.c_str());
  std::exit(1);
}

struct Timed {
  double wall = 0, cpu = 0;  // seconds
};

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Run>
Timed timed(Run&& run) {
  const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  run();
  return {seconds_of(CLOCK_MONOTONIC) - wall, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

double median(const std::vector<Timed>& of, double Timed::*what) {
  std::vector<double> values;
  for (const Timed& one : of) values.push_back(one.*what);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) die("usage: select_bench ARRAY ROWS_FILE THREADS REPEAT");
  const std::string path = argv[1];
  std::vector<std::int64_t> rows;
  std::ifstream list(argv[2]);
  for (std::int64_t row = 0; list >> row;) rows.push_back(row);
  const auto threads = static_cast<unsigned>(std::atoi(argv[3]));
  const int repeat = std::atoi(argv[4]);

  ContextOptions options;
  options.threads = threads;
  auto context = Context::create(options);
  if (!context.ok()) die(context.status().to_string());
  auto store = Store::open(*context, path);
  if (!store.ok()) die(store.status().to_string());
  auto array = Array::open(*store);
  if (!array.ok()) die(array.status().to_string());
  auto device = Device::open("host").value();
  const ArrayInfo& info = array->info();
  const std::size_t row_bytes = static_cast<std::size_t>(info.shape[1]) * info.dtype.item_bytes;
  std::vector<std::byte> got(rows.size() * row_bytes), expected(got.size());
  const Selection selection = {index_list(rows)};
  const TensorView tensor(got, info.dtype, {rows.size(), info.shape[1]});
  Stats stats;
  const auto read = [&] {
    if (Status status = array->read(selection, tensor, device, {}, &stats); !status.ok()) die(status.to_string());
  };

  std::ifstream file(path + "/c/0/0", std::ios::binary);
  const std::vector<char> shard((std::istreambuf_iterator<char>(file)), {});
  if (shard.size() < info.shape[0] * 16 + 4) die("no shard");
  const char* const index = shard.data() + shard.size() - (info.shape[0] * 16 + 4);
  const bool zstd = !info.codecs.empty() && info.codecs.back() == "zstd";
  const auto bare = [&] {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      ZSTD_DCtx* const decoder = ZSTD_createDCtx();
      for (std::size_t i; (i = next.fetch_add(1)) < rows.size();) {
        std::uint64_t range[2];
        std::memcpy(range, index + 16 * rows[i], 16);
        std::byte* const out = expected.data() + i * row_bytes;
        if (!zstd) {
          std::memcpy(out, shard.data() + range[0], row_bytes);
        } else if (ZSTD_decompressDCtx(decoder, out, row_bytes, shard.data() + range[0], range[1]) != row_bytes) {
          die("a chunk that libzstd does not decode");
        }
      }
      ZSTD_freeDCtx(decoder);
    };
    std::vector<std::thread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
  };

  // Alternating, so that other load on the machine affects both; the first round is a warm-up.
  std::vector<Timed> ours, limit;
  for (int i = 0; i <= repeat; ++i) {
    const Timed a = timed(read), b = timed(bare);
    if (i == 0) continue;
    ours.push_back(a);
    limit.push_back(b);
  }
  if (got != expected) die("the bytes differ");
  std::printf(
      "{\"headrace_seconds\": %.9f, \"limit_seconds\": %.9f, \"headrace_cpu_seconds\": %.9f, \"limit_cpu_seconds\": "
      "%.9f, "
      "\"chunks\": %llu, \"plan_seconds\": %.9f}\n",
      median(ours, &Timed::wall), median(limit, &Timed::wall), median(ours, &Timed::cpu), median(limit, &Timed::cpu),
      static_cast<unsigned long long>(stats.chunks), stats.plan_seconds);
}

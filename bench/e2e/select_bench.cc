// Random rows of a sharded array as one selection, beside what libzstd takes for the same chunks out of memory on as
// many threads. For select_compare.py.
//
//   select_bench ARRAY ROWS_FILE THREADS REPEAT     prints JSON: median seconds
//
// ARRAY: rows of one inner chunk each, one shard, index at the end with crc32c. ROWS_FILE: a row number a line.
#include <headrace/array.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

template <class Run>
double median_seconds(int repeat, Run&& run) {
  std::vector<double> seconds;
  for (int i = 0; i <= repeat; ++i) {  // the first warms up
    const auto start = std::chrono::steady_clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  seconds.erase(seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
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
  const TensorView tensor{got.data(), {rows.size(), info.shape[1]}, {}};
  Stats stats;
  const double ours = median_seconds(repeat, [&] {
    if (Status status = array->read(selection, tensor, device, {}, &stats); !status.ok()) die(status.to_string());
  });

  std::ifstream file(path + "/c/0/0", std::ios::binary);
  const std::vector<char> shard((std::istreambuf_iterator<char>(file)), {});
  if (shard.size() < info.shape[0] * 16 + 4) die("no shard");
  const char* const index = shard.data() + shard.size() - (info.shape[0] * 16 + 4);
  const bool zstd = !info.codecs.empty() && info.codecs.back() == "zstd";
  const double limit = median_seconds(repeat, [&] {
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
  });
  if (got != expected) die("the bytes differ");
  std::printf("{\"headrace_seconds\": %.9f, \"limit_seconds\": %.9f, \"chunks\": %llu, \"plan_seconds\": %.9f}\n", ours,
              limit, static_cast<unsigned long long>(stats.chunks), stats.plan_seconds);
}

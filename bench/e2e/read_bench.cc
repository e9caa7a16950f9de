// Whole-array reads on the host device, alternating with the limit set by the bare libraries, in one process.
//
//   read_bench DATA_DIR [--repeat 7] [--threads N] [--only LAYOUT,...] [--json FILE]
//
// The limit reads the same chunk files with the same libraries on the same number of threads and does nothing else:
// no metadata, no checks, known chunk list. Both write into the same touched buffer; "fresh array" is headrace into a
// new Buffer, including allocation and page faults. Warm page cache. Rates are decoded bytes per second, medians.
#include <blosc.h>
#include <fcntl.h>
#include <headrace/array.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kNt = 64, kNy = 721, kNx = 1440, kCy = 91, kCx = 180;
constexpr std::size_t kPlane = kNy * kNx * 4, kArray = kNt * kPlane, kSmall = kCy * kCx * 4;

enum class Kind { kRaw, kZstd, kBlosc };
struct Layout {
  const char* name;
  Kind kind;
  bool small, sharded, v3;
};
constexpr Layout kLayouts[] = {
    {"v2_raw", Kind::kRaw, false, false, false},          {"v2_blosc_lz4", Kind::kBlosc, false, false, false},
    {"v2_blosc_zstd", Kind::kBlosc, false, false, false}, {"v3_zstd3", Kind::kZstd, false, false, true},
    {"shard_raw", Kind::kRaw, true, true, true},          {"shard_zstd", Kind::kZstd, true, true, true},
    {"shard_blosc_lz4", Kind::kBlosc, true, true, true},  {"small_v3_raw", Kind::kRaw, true, false, true},
    {"small_v3_zstd", Kind::kZstd, true, false, true},    {"small_v2_blosc_lz4", Kind::kBlosc, true, false, false},
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "read_bench: %s\n", what.c_str());
  std::exit(1);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One chunk of the limit's list: a file, or a range of an open shard.
struct Item {
  std::string path;
  int shard_fd = -1;
  std::uint64_t offset = 0, length = 0;
  std::size_t t = 0, iy = 0, ix = 0;
};

std::vector<Item> list_items(const std::string& root, const Layout& layout) {
  std::vector<Item> items;
  if (layout.sharded) {
    for (std::size_t s = 0; s < kNt / 8; ++s) {
      const std::string path = root + "/c/" + std::to_string(s) + "/0/0";
      const int fd = ::open(path.c_str(), O_RDONLY);
      struct stat info {};
      if (fd < 0 || ::fstat(fd, &info) != 0) die("cannot open " + path);
      std::vector<std::uint64_t> index(512 * 2);
      if (::pread(fd, index.data(), 8192, info.st_size - 8196) != 8192) die("cannot read the index of " + path);
      std::vector<Item> shard;
      for (std::size_t i = 0; i < 512; ++i) {
        shard.push_back({"", fd, index[2 * i], index[2 * i + 1], s * 8 + i / 64, i / 8 % 8, i % 8});
      }
      std::sort(shard.begin(), shard.end(), [](const Item& a, const Item& b) { return a.offset < b.offset; });
      items.insert(items.end(), shard.begin(), shard.end());
    }
    return items;
  }
  for (std::size_t t = 0; t < kNt; ++t) {
    for (std::size_t y = 0; y < (layout.small ? 8u : 1u); ++y) {
      for (std::size_t x = 0; x < (layout.small ? 8u : 1u); ++x) {
        const std::string sep = layout.v3 ? "/" : ".";
        items.push_back(
            {root + (layout.v3 ? "/c/" : "/") + std::to_string(t) + sep + std::to_string(y) + sep + std::to_string(x),
             -1, 0, 0, t, y, x});
      }
    }
  }
  return items;
}

void decode(Kind kind, char* out, std::size_t size, const char* in, std::size_t length, ZSTD_DCtx* context) {
  std::size_t got = 0;
  if (kind == Kind::kZstd) got = ZSTD_decompressDCtx(context, out, size, in, length);
  if (kind == Kind::kBlosc) got = static_cast<std::size_t>(blosc_decompress_ctx(in, out, size, 1));
  if (got != size) die("the limit could not decode a chunk");
}

void limit_thread(const Layout& layout, const std::vector<Item>& items, std::atomic<std::size_t>& next,
                  char* destination) {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  std::vector<char> in(kPlane + 65536), tmp(kSmall);
  for (std::size_t i; (i = next.fetch_add(1)) < items.size();) {
    const Item& item = items[i];
    char* plane = destination + item.t * kPlane;
    int fd = item.shard_fd;
    std::size_t length = item.length;
    if (fd < 0) {
      fd = ::open(item.path.c_str(), O_RDONLY);
      struct stat info {};
      if (fd < 0 || ::fstat(fd, &info) != 0) die("cannot open " + item.path);
      length = static_cast<std::size_t>(info.st_size);
    }
    char* target = layout.kind == Kind::kRaw && !layout.small ? plane : in.data();
    if (::pread(fd, target, length, static_cast<off_t>(item.offset)) != static_cast<ssize_t>(length)) die("short read");
    if (item.shard_fd < 0) ::close(fd);
    if (!layout.small) {
      if (layout.kind != Kind::kRaw) decode(layout.kind, plane, kPlane, in.data(), length, context);
      continue;
    }
    const char* chunk = in.data();
    if (layout.kind != Kind::kRaw) {
      decode(layout.kind, tmp.data(), kSmall, in.data(), length, context);
      chunk = tmp.data();
    }
    const std::size_t rows = std::min(kCy, kNy - item.iy * kCy);
    for (std::size_t r = 0; r < rows; ++r) {
      std::memcpy(plane + ((item.iy * kCy + r) * kNx + item.ix * kCx) * 4, chunk + r * kCx * 4, kCx * 4);
    }
  }
  ZSTD_freeDCtx(context);
}

char* map_array() {
  void* memory = ::mmap(nullptr, kArray, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("out of memory");
  return static_cast<char*>(memory);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::string data, json_file, only;
  int repeat = 7;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--repeat" && i + 1 < argc)
      repeat = std::atoi(argv[++i]);
    else if (arg == "--threads" && i + 1 < argc)
      threads = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (arg == "--only" && i + 1 < argc)
      only = "," + std::string(argv[++i]) + ",";
    else if (arg == "--json" && i + 1 < argc)
      json_file = argv[++i];
    else if (data.empty() && arg[0] != '-')
      data = arg;
    else
      die("usage: read_bench DATA_DIR [--repeat N] [--threads N] [--only LAYOUT,...] [--json FILE]");
  }
  if (data.empty()) die("usage: read_bench DATA_DIR [--repeat N] [--threads N] [--only LAYOUT,...] [--json FILE]");
  blosc_init();
  headrace::ContextOptions options;
  options.threads = threads;
  auto context = headrace::Context::create(options);
  auto device = headrace::Device::open("host");
  if (!context.ok() || !device.ok()) die("cannot make a context");
  std::string rows;
  std::printf("%-20s %10s %10s %7s %12s   decoded GB/s, %u threads, page cache warm, median of %d\n", "layout", "limit",
              "headrace", "share", "fresh array", threads, repeat);
  for (const Layout& layout : kLayouts) {
    if (!only.empty() && only.find("," + std::string(layout.name) + ",") == std::string::npos) continue;
    const std::string root = data + "/" + layout.name;
    auto store = headrace::Store::open(*context, root);
    if (!store.ok()) {
      std::printf("%-20s %s\n", layout.name, store.status().to_string().c_str());
      continue;
    }
    const std::vector<Item> items = list_items(root, layout);
    const auto run_limit = [&](char* touched) {
      std::atomic<std::size_t> next{0};
      const double start = now();
      std::vector<std::thread> workers;
      for (unsigned i = 0; i < threads; ++i) {
        workers.emplace_back([&] { limit_thread(layout, items, next, touched); });
      }
      for (auto& worker : workers) worker.join();
      return now() - start;
    };
    headrace::Stats stats;
    const auto run_headrace = [&](char* destination) {
      const double start = now();
      auto array = headrace::Array::open(*store);  // the time includes opening
      if (!array.ok()) die(array.status().to_string());
      const headrace::TensorView tensor({reinterpret_cast<std::byte*>(destination), kArray}, array->info().dtype,
                                        array->info().shape);
      headrace::Status status = array->read({}, tensor, *device, {}, &stats);
      if (!status.ok()) die(status.to_string());
      return now() - start;
    };
    std::vector<double> limit, ours, fresh;
    // Measured consecutively, with an untimed first read, before this process holds much memory; peers.py does the
    // same.
    for (int i = -1; i < repeat; ++i) {
      const double start = now();
      auto buffer = headrace::Buffer::allocate(*device, kArray);
      if (!buffer.ok()) die(buffer.status().to_string());
      run_headrace(reinterpret_cast<char*>(buffer->data()));
      if (i >= 0) fresh.push_back(now() - start);
    }
    char* touched = map_array();
    std::memset(touched, 1, kArray);
    run_limit(touched);
    std::vector<char> expected(touched, touched + kArray);
    std::memset(touched, 1, kArray);
    run_headrace(touched);
    if (std::memcmp(expected.data(), touched, kArray) != 0)
      die(std::string(layout.name) + ": bytes differ from the limit's");
    for (int i = 0; i < repeat; ++i) {
      limit.push_back(run_limit(touched));
      ours.push_back(run_headrace(touched));
    }
    const double limit_rate = kArray / median(limit) / 1e9, rate = kArray / median(ours) / 1e9;
    const double fresh_rate = kArray / median(fresh) / 1e9;
    std::printf("%-20s %10.2f %10.2f %7.3f %12.2f   %s\n", layout.name, limit_rate, rate, rate / limit_rate, fresh_rate,
                stats.path.c_str());
    std::fflush(stdout);
    char row[512];
    std::snprintf(
        row, sizeof row,
        "%s  {\"layout\": \"%s\", \"limit_decoded_gb_s\": %.3f, \"headrace_decoded_gb_s\": %.3f, \"share_of_limit\": "
        "%.4f, \"headrace_fresh_array_decoded_gb_s\": %.3f, \"threads\": %u, \"repeat\": %d, \"path\": \"%s\"}",
        rows.empty() ? "" : ",\n", layout.name, limit_rate, rate, rate / limit_rate, fresh_rate, threads, repeat,
        stats.path.c_str());
    rows += row;
    ::munmap(touched, kArray);
    std::vector<int> fds;
    for (const Item& item : items) {
      if (item.shard_fd >= 0 && (fds.empty() || fds.back() != item.shard_fd)) fds.push_back(item.shard_fd);
    }
    for (const int fd : fds) ::close(fd);
  }
  if (!json_file.empty()) {
    std::FILE* file = std::fopen(json_file.c_str(), "w");
    if (file == nullptr) die("cannot write " + json_file);
    std::fprintf(file, "[\n%s\n]\n", rows.c_str());
    std::fclose(file);
  }
  return 0;
}

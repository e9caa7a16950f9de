// Files to and from device memory: headrace beside the hardware's limits and the other ways, in one run.
//
//   raw_compare DIRECTORY [--device auto] [--gib 4] [--only NAME] [--repeat 5] [--cufile PATH]
//
// DIRECTORY is on the disk to be measured; files are made there and removed. Prints one JSON object a figure:
// "gbytes_per_s" is 1e9 bytes of the file a second, "cpu" the CPU seconds of the process a second of wall time. "limit"
// names the row that a row is to be held against. Cold figures need root.
#include <dlfcn.h>
#include <fcntl.h>
#include <headrace/file.h>
#include <liburing.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/page_cache.h"
#include "device/device.h"

namespace {

using namespace headrace;

constexpr std::size_t kKi = 1024, kMi = kKi * kKi, kGi = kKi * kMi;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "raw_compare: %s\n", what.c_str());
  std::exit(1);
}
void must(const Status& status) {
  if (!status.ok()) die(status.to_string());
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) die(result.status().to_string());
  return std::move(result).value();
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu_seconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void drop_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  const auto left = base::page_cache_share(fd, 0, std::filesystem::file_size(path));
  ::close(fd);
  if (left.resident_pages > left.pages / 100) die("the page cache still holds " + path);
}

void warm_cache(const std::string& path) {
  std::vector<char> buffer(8 * kMi);
  const int fd = ::open(path.c_str(), O_RDONLY);
  while (::read(fd, buffer.data(), buffer.size()) > 0) {
  }
  ::close(fd);
}

struct Measure {
  double seconds = 0, cpu = 0;
  FileStats stats;
};

struct Setup {
  std::string directory, device_name = "auto", only, cufile = "libcufile.so.0";
  std::size_t bytes = 4 * kGi;
  int repeat = 5;
};

class Bench {
 public:
  explicit Bench(Setup setup)
      : setup_(std::move(setup)),
        device_(take(Device::open(setup_.device_name))),
        memory_(take(Buffer::allocate(device_, setup_.bytes))) {
    file_ = setup_.directory + "/raw_compare.data";
    make_file();
    renew();
  }
  ~Bench() {
    std::filesystem::remove(file_);
    std::filesystem::remove(file_ + ".out");
    std::filesystem::remove_all(setup_.directory + "/raw_compare.files");
  }

  void run();

 private:
  bool wanted(const char* name) const {
    return setup_.only.empty() || ("," + setup_.only + ",").find("," + std::string(name) + ",") != std::string::npos;
  }
  void renew(ContextOptions options = {}) { context_.emplace(take(Context::create(options))); }

  void make_file() {
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> block(4 * kMi / 8);
    const int fd = ::open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (std::size_t at = 0; at < setup_.bytes; at += 4 * kMi) {
      for (std::size_t i = 0; i < block.size(); i += 64) block[i] = random();
      if (::pwrite(fd, block.data(), 4 * kMi, static_cast<off_t>(at)) != static_cast<ssize_t>(4 * kMi))
        die("cannot write " + file_);
    }
    ::fsync(fd);
    ::close(fd);
  }

  void report(const char* name, const char* who, const char* limit, double bytes, double seconds, double cpu,
              const FileStats* stats = nullptr, double count = 0) {
    std::printf("{\"figure\": \"%s\", \"who\": \"%s\", \"limit\": \"%s\", \"gbytes_per_s\": %.3f", name, who, limit,
                bytes / seconds / 1e9);
    if (count > 0) std::printf(", \"per_s\": %.0f, \"us_each\": %.3f", count / seconds, seconds / count * 1e6);
    std::printf(", \"cpu\": %.2f", cpu / seconds);
    if (stats != nullptr) {
      std::string notes = stats->notes;
      for (char& c : notes) c = c == '"' || c == '\\' || c < ' ' ? ' ' : c;
      std::printf(
          ", \"direct_bytes\": %llu, \"buffered_bytes\": %llu, \"mapped_bytes\": %llu, \"waves\": %llu, "
          "\"system_calls\": %llu, \"notes\": \"%s\"",
          static_cast<unsigned long long>(stats->direct_bytes), static_cast<unsigned long long>(stats->buffered_bytes),
          static_cast<unsigned long long>(stats->mapped_bytes), static_cast<unsigned long long>(stats->waves),
          static_cast<unsigned long long>(stats->system_calls), notes.c_str());
    }
    std::printf("}\n");
    std::fflush(stdout);
  }

  struct Load {
    std::size_t block = 4 * kMi;
    bool random = false;
    std::size_t depth = 32;  // requests in flight; 0: all blocks as one list
    std::size_t total = 0;   // 0: the file's size
    bool write = false;
  };

  std::vector<std::uint64_t> offsets(const Load& load) const {
    const std::size_t total = load.total != 0 ? load.total : setup_.bytes;
    std::vector<std::uint64_t> out(setup_.bytes / load.block);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i * load.block;
    if (load.random) std::shuffle(out.begin(), out.end(), std::mt19937_64(7));
    out.resize(std::min(out.size(), total / load.block));
    return out;
  }

  Measure once(FileQueue& queue, const File& file, const Load& load, const std::vector<std::uint64_t>& at) {
    Measure m;
    std::vector<FileRange> ranges(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      ranges[i] = {at[i], memory_.data() + i * load.block % setup_.bytes, load.block};
    }
    const FileStats before = queue.stats();
    const double cpu = cpu_seconds(), start = now();
    std::vector<FileCompletion> done(std::max<std::size_t>(load.depth, 1));
    const auto finish = [&](std::size_t at_least) {
      const std::size_t count = queue.wait(done, at_least);
      for (std::size_t i = 0; i < count; ++i) must(done[i].status);
    };
    if (load.depth == 0) {
      must(load.write ? queue.write(file, ranges, 0) : queue.read(file, ranges, 0));
      finish(1);
    } else {
      const std::size_t batch = std::max<std::size_t>(1, load.depth / 4);
      for (std::size_t i = 0; i < at.size(); ++i) {
        const std::span<const FileRange> one(&ranges[i], 1);
        must(load.write ? queue.write(file, one, i) : queue.read(file, one, i));
        // `depth` at the disk; what is on its way over the bus comes on top.
        if (queue.pending() >= load.depth + load.depth / 2) finish(batch);
      }
      while (queue.pending() > 0) finish(queue.pending());
    }
    m.seconds = now() - start;
    m.cpu = cpu_seconds() - cpu;
    m.stats = queue.stats();
    m.stats.direct_bytes -= before.direct_bytes;
    m.stats.buffered_bytes -= before.buffered_bytes;
    m.stats.mapped_bytes -= before.mapped_bytes;
    m.stats.waves -= before.waves;
    m.stats.system_calls -= before.system_calls;
    return m;
  }

  // One way of doing a figure: a round of it, measured.
  struct Way {
    std::string who, limit;
    std::function<Measure()> round;
  };
  Way ours(Path path, const Load& load, const char* limit) {
    FileQueueOptions options;
    options.path = path;
    options.depth = load.depth != 0 ? static_cast<unsigned>(std::max<std::size_t>(load.depth, 32)) : 128;
    const File file = take(File::open(load.write ? file_ + ".out" : file_, {load.write, load.write, false}));
    auto queue = std::make_shared<FileQueue>(take(FileQueue::create(*context_, device_, options)));
    return {"headrace " + std::string(path_name(path)), limit,
            [this, queue, file, load, at = offsets(load)] { return once(*queue, file, load, at); }};
  }
  Way timed(std::string who, std::function<double()> seconds) {
    return {std::move(who), "", [seconds = std::move(seconds)] {
              Measure m;
              const double cpu = cpu_seconds();
              m.seconds = seconds();
              m.cpu = cpu_seconds() - cpu;
              return m;
            }};
  }

  // The ways take turns, so that what else goes on concerns all of them; the median of each is told. `before` runs ahead
  // of every round and is not counted.
  void race(const char* name, const Load& load, const std::vector<Way>& ways, int warmups,
            const std::function<void()>& before = {}) {
    std::vector<std::vector<Measure>> all(ways.size());
    for (int i = -warmups; i < setup_.repeat; ++i) {
      for (std::size_t k = 0; k < ways.size(); ++k) {
        if (before) before();
        Measure m = ways[k].round();
        if (i >= 0) {
          all[k].push_back(std::move(m));
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));  // registering goes on in the background
        }
      }
    }
    const auto count = static_cast<double>(offsets(load).size());
    for (std::size_t k = 0; k < ways.size(); ++k) {
      std::sort(all[k].begin(), all[k].end(), [](const Measure& a, const Measure& b) { return a.seconds < b.seconds; });
      const Measure& m = all[k][all[k].size() / 2];
      report(name, ways[k].who.c_str(), ways[k].limit.c_str(), count * static_cast<double>(load.block), m.seconds, m.cpu,
             &m.stats, count);
    }
  }

  void median(const char* name, const char* who, const char* limit, double bytes, double count,
              const std::function<double()>& round, const std::function<void()>& before = {}, int warmups = 1) {
    std::vector<std::pair<double, double>> all;
    for (int i = -warmups; i < setup_.repeat; ++i) {
      if (before) before();
      const double cpu = cpu_seconds();
      const double seconds = round();
      if (i >= 0) all.emplace_back(seconds, cpu_seconds() - cpu);
    }
    std::sort(all.begin(), all.end());
    report(name, who, limit, bytes, all[all.size() / 2].first, all[all.size() / 2].second, nullptr, count);
  }

  void bus_limits();
  void plain_threads(std::size_t block, unsigned threads, bool direct);
  double plain_write(unsigned threads);
  double raw_uring(std::size_t block, unsigned depth, bool random, bool write, std::size_t total);
  void small_files();
  void latency();
  void half_resident();
  void cufile(std::size_t block, unsigned threads, bool direct_fd, bool cold);
  void first_pass();
  void table();

  const Setup setup_;
  Device device_;
  Buffer memory_;
  std::optional<Context> context_;
  std::string file_;
};

void Bench::bus_limits() {
  device::Device& device = *device_.impl();
  const std::size_t bytes = 256 * kMi;
  std::byte* host = take(device.allocate_pinned(bytes));
  std::memset(host, 1, bytes);
  auto stream = take(device.create_stream());
  auto event = take(device.create_event());
  for (const bool up : {true, false}) {
    const device::Piece piece =
        up ? device::Piece{host, memory_.data(), bytes} : device::Piece{memory_.data(), host, bytes};
    median(up ? "h2d" : "d2h", "pinned copy", "", static_cast<double>(bytes), 0, [&] {
      const double start = now();
      must(up ? device.copy_to_device({&piece, 1}, *stream) : device.copy_to_host({&piece, 1}, *stream));
      must(device.record(*event, *stream));
      must(device.synchronize(*event));
      return now() - start;
    });
  }
  device.deallocate_pinned(host, bytes);
}

// Each thread reads into two pinned buffers in turn while the other is copied.
void Bench::plain_threads(std::size_t block, unsigned threads, bool direct) {
  device::Device& device = *device_.impl();
  const std::string name = std::string(direct ? "table_cold_" : "table_warm_") + std::to_string(block / kKi) + "k_" +
                           std::to_string(threads) + "t";
  const std::size_t total = direct ? kGi : std::min<std::size_t>(setup_.bytes, block < 64 * kKi ? kGi / 4 : 4 * kGi);
  struct Own {
    std::byte* pinned = nullptr;
    std::unique_ptr<device::Stream> stream;
    std::unique_ptr<device::Event> events[2];
  };
  std::vector<Own> own(threads);
  for (Own& o : own) {
    o.pinned = take(device.allocate_pinned(2 * block));
    o.stream = take(device.create_stream());
    for (auto& event : o.events) event = take(device.create_event());
  }
  median(
      name.c_str(), "plain threads", "h2d", static_cast<double>(total), static_cast<double>(total / block),
      [&] {
        const int fd = ::open(file_.c_str(), O_RDONLY | (direct ? O_DIRECT : 0));
        std::atomic<std::size_t> next{0};
        const double start = now();
        std::vector<std::thread> crew;
        for (Own& o : own) {
          crew.emplace_back([&, o = &o] {
            for (int turn = 0;; turn ^= 1) {
              const std::size_t at = next.fetch_add(block);
              if (at >= total) break;
              must(device.synchronize(*o->events[turn]));
              std::byte* buffer = o->pinned + static_cast<std::size_t>(turn) * block;
              if (::pread(fd, buffer, block, static_cast<off_t>(at)) != static_cast<ssize_t>(block)) die("short read");
              const device::Piece piece{buffer, memory_.data() + at, block};
              must(device.copy_to_device({&piece, 1}, *o->stream));
              must(device.record(*o->events[turn], *o->stream));
            }
            for (auto& event : o->events) must(device.synchronize(*event));
          });
        }
        for (std::thread& thread : crew) thread.join();
        const double seconds = now() - start;
        ::close(fd);
        return seconds;
      },
      [&] {
        if (direct) drop_cache(file_);
      });
  for (Own& o : own) device.deallocate_pinned(o.pinned, 2 * block);
}

// Each thread copies a block to its pinned buffer and writes it.
double Bench::plain_write(unsigned threads) {
  device::Device& device = *device_.impl();
  const std::size_t block = 4 * kMi;
  std::byte* pinned = take(device.allocate_pinned(threads * block));
  const int fd = ::open((file_ + ".out").c_str(), O_RDWR | O_CREAT, 0644);
  std::atomic<std::size_t> next{0};
  const double start = now();
  std::vector<std::thread> crew;
  for (unsigned t = 0; t < threads; ++t) {
    crew.emplace_back([&, t] {
      auto stream = take(device.create_stream());
      auto event = take(device.create_event());
      std::byte* own = pinned + t * block;
      for (;;) {
        const std::size_t at = next.fetch_add(block);
        if (at >= kGi) break;
        const device::Piece piece{memory_.data() + at, own, block};
        must(device.copy_to_host({&piece, 1}, *stream));
        must(device.record(*event, *stream));
        must(device.synchronize(*event));
        if (::pwrite(fd, own, block, static_cast<off_t>(at)) != static_cast<ssize_t>(block)) die("cannot write");
      }
    });
  }
  for (std::thread& thread : crew) thread.join();
  const double seconds = now() - start;
  ::close(fd);
  device.deallocate_pinned(pinned, threads * block);
  return seconds;
}

double Bench::raw_uring(std::size_t block, unsigned depth, bool random, bool write, std::size_t total) {
  const std::string path = write ? file_ + ".out" : file_;
  const int fd = ::open(path.c_str(), (write ? O_RDWR | O_CREAT : O_RDONLY) | O_DIRECT, 0644);
  io_uring ring;
  io_uring_params params{};
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  if (::io_uring_queue_init_params(2 * depth, &ring, &params) != 0) die("no io_uring");
  void* memory = nullptr;
  if (::posix_memalign(&memory, 4096, block * depth) != 0) die("memory");
  std::memset(memory, 1, block * depth);
  const iovec vec{memory, block * depth};
  const bool fixed = ::io_uring_register_buffers(&ring, &vec, 1) == 0;
  Load load;
  load.block = block;
  load.random = random;
  load.total = total;
  const auto at = offsets(load);
  std::vector<unsigned> free_slots;
  for (unsigned i = 0; i < depth; ++i) free_slots.push_back(i);
  const double start = now();
  for (std::size_t sent = 0, done = 0; done < at.size();) {
    while (sent < at.size() && !free_slots.empty()) {
      const unsigned slot = free_slots.back();
      free_slots.pop_back();
      io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
      char* buffer = static_cast<char*>(memory) + slot * block;
      const auto n = static_cast<unsigned>(block);
      if (write && fixed) ::io_uring_prep_write_fixed(sqe, fd, buffer, n, at[sent], 0);
      if (write && !fixed) ::io_uring_prep_write(sqe, fd, buffer, n, at[sent]);
      if (!write && fixed) ::io_uring_prep_read_fixed(sqe, fd, buffer, n, at[sent], 0);
      if (!write && !fixed) ::io_uring_prep_read(sqe, fd, buffer, n, at[sent]);
      ::io_uring_sqe_set_data64(sqe, slot);
      ++sent;
    }
    ::io_uring_submit_and_wait(&ring, 1);
    unsigned head, count = 0;
    io_uring_cqe* cqe;
    io_uring_for_each_cqe(&ring, head, cqe) {
      if (cqe->res != static_cast<int>(block)) die("io_uring: result " + std::to_string(cqe->res));
      free_slots.push_back(static_cast<unsigned>(cqe->user_data));
      ++count;
    }
    done += count;
    ::io_uring_cq_advance(&ring, count);
  }
  const double seconds = now() - start;
  ::io_uring_queue_exit(&ring);
  std::free(memory);
  ::close(fd);
  return seconds;
}

void Bench::small_files() {
  constexpr std::size_t kFiles = 20'000, kBytes = 64 * kKi;
  const std::string directory = setup_.directory + "/raw_compare.files";
  std::filesystem::create_directories(directory);
  std::vector<std::string> names;
  std::vector<char> data(kBytes, 5);
  for (std::size_t i = 0; i < kFiles; ++i) {
    names.push_back(directory + "/" + std::to_string(i));
    const int fd = ::open(names.back().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    std::memcpy(data.data(), &i, sizeof i);
    if (::write(fd, data.data(), kBytes) != static_cast<ssize_t>(kBytes)) die("cannot write small files");
    ::close(fd);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<PathRange> ranges;
  for (std::size_t i = 0; i < kFiles; ++i) {
    ranges.push_back({names[i].c_str(), memory_.data() + i * kBytes % (setup_.bytes - kBytes), kBytes});
  }
  const auto pass = [&](FileQueue& queue) {
    const double start = now();
    must(queue.read_paths(ranges, 0));
    FileCompletion done;
    queue.wait({&done, 1});
    must(done.status);
    return now() - start;
  };
  for (const unsigned threads : {1u, 0u}) {
    ContextOptions options;
    options.threads = threads;
    std::vector<double> first, again;
    FileStats stats;
    double cpu = 0;
    for (int i = 0; i < 3; ++i) {
      renew(options);
      FileQueue queue = take(FileQueue::create(*context_, device_));
      first.push_back(pass(queue));
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      for (int k = 0; k < 3; ++k) {
        const double c = cpu_seconds();
        again.push_back(pass(queue));
        cpu = cpu_seconds() - c;
      }
      stats = queue.stats();
    }
    std::sort(first.begin(), first.end());
    std::sort(again.begin(), again.end());
    const char* who = threads == 1 ? "headrace auto, 1 worker" : "headrace auto";
    report("small_files_first", who, "h2d", kFiles * kBytes, first[first.size() / 2], 0, &stats, kFiles);
    report("small_files_again", who, "h2d", kFiles * kBytes, again[again.size() / 2], cpu, &stats, kFiles);
  }
  renew();
}

void Bench::first_pass() {
  for (const Path path : {Path::kAuto, Path::kBuffered, Path::kMapped}) {
    std::vector<double> all;
    FileStats stats;
    double cpu = 0;
    for (int i = 0; i < setup_.repeat; ++i) {
      renew();  // nothing is registered
      FileQueueOptions options;
      options.path = path;
      const File file = take(File::open(file_));
      FileQueue queue = take(FileQueue::create(*context_, device_, options));
      Load load;
      load.depth = 16;
      const Measure m = once(queue, file, load, offsets(load));
      all.push_back(m.seconds);
      stats = m.stats;
      cpu = m.cpu;
    }
    std::sort(all.begin(), all.end());
    const std::string who = "headrace " + std::string(path_name(path));
    report("first_pass_4m", who.c_str(), "h2d", static_cast<double>(setup_.bytes), all[all.size() / 2], cpu, &stats);
  }
  renew();
}

void Bench::half_resident() {
  // Every second MiB is in the page cache.
  const auto halve = [&] {
    drop_cache(file_);
    std::vector<char> buffer(kMi);
    const int fd = ::open(file_.c_str(), O_RDONLY);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (std::size_t at = 0; at < kGi; at += 2 * kMi) {
      if (::pread(fd, buffer.data(), kMi, static_cast<off_t>(at)) != static_cast<ssize_t>(kMi)) die("read");
    }
    ::close(fd);
  };
  Load load;
  load.block = kMi;
  load.depth = 64;
  load.total = kGi;
  Load cold = load;
  cold.total = kGi / 2;
  race("half_resident_cold_part", cold,
       {timed("raw io_uring", [&] { return raw_uring(kMi, 32, false, false, kGi / 2); })}, 0,
       [&] { drop_cache(file_); });
  const char* limit = "half_resident_cold_part, in seconds";
  race("half_resident_1m", load,
       {ours(Path::kAuto, load, limit), ours(Path::kDirect, load, limit), ours(Path::kBuffered, load, limit)}, 0,
       halve);
}

void Bench::latency() {
  void* runtime = nullptr;
  for (const char* name : {"libcudart.so.13", "libcudart.so", "/usr/local/cuda/lib64/libcudart.so"}) {
    if (runtime == nullptr) runtime = ::dlopen(name, RTLD_NOW);
  }
  using Copy = int (*)(void*, const void*, std::size_t, int);
  const Copy copy = runtime != nullptr ? reinterpret_cast<Copy>(::dlsym(runtime, "cudaMemcpy")) : nullptr;
  const int fd = ::open(file_.c_str(), O_RDONLY);
  alignas(4096) static char buffer[4096];
  constexpr int kRounds = 4000;
  const auto p50 = [&](const char* who, const std::function<void(std::uint64_t)>& one, const FileStats* stats) {
    std::mt19937_64 random(3);
    std::vector<double> all;
    for (int i = 0; i < kRounds + 200; ++i) {
      const std::uint64_t at = random() % (setup_.bytes / 4096) * 4096;
      const double start = now();
      one(at);
      if (i >= 200) all.push_back(now() - start);
    }
    std::sort(all.begin(), all.end());
    report("latency_4k_p50", who, "pread + cudaMemcpy", 4096, all[kRounds / 2], 0, stats, 1);
    report("latency_4k_p99", who, "pread + cudaMemcpy", 4096, all[kRounds / 100 * 99], 0, stats, 1);
  };
  if (copy != nullptr && device_.name().starts_with("cuda")) {
    p50(
        "pread + cudaMemcpy",
        [&](std::uint64_t at) {
          if (::pread(fd, buffer, 4096, static_cast<off_t>(at)) != 4096) die("read");
          if (copy(memory_.data(), buffer, 4096, 1) != 0) die("cudaMemcpy");
        },
        nullptr);
  }
  for (const Path path : {Path::kAuto, Path::kBuffered, Path::kMapped}) {
    FileQueueOptions options;
    options.path = path;
    const File file = take(File::open(file_));
    FileQueue queue = take(FileQueue::create(*context_, device_, options));
    const std::string who = "headrace " + std::string(path_name(path));
    FileStats stats;
    p50(
        who.c_str(),
        [&](std::uint64_t at) {
          const FileRange range{at, memory_.data(), 4096};
          must(queue.read(file, {&range, 1}, 0));
          FileCompletion done;
          queue.wait({&done, 1});
          must(done.status);
        },
        nullptr);
  }
  ::close(fd);
}

// NVIDIA's library through its documented calls, looked up by name.
void Bench::cufile(std::size_t block, unsigned threads, bool direct_fd, bool cold) {
  struct Error {
    int err, cu_err;
  };
  struct Descr {
    int type;
    union {
      int fd;
      void* handle;
    } handle;
    const void* fs_ops;
  };
  static void* library = ::dlopen(setup_.cufile.c_str(), RTLD_NOW);
  static void* runtime = ::dlopen("libcudart.so.13", RTLD_NOW);
  if (library == nullptr) return;
  const auto open_driver = reinterpret_cast<Error (*)()>(::dlsym(library, "cuFileDriverOpen"));
  const auto enter = reinterpret_cast<Error (*)(void**, Descr*)>(::dlsym(library, "cuFileHandleRegister"));
  const auto leave = reinterpret_cast<void (*)(void*)>(::dlsym(library, "cuFileHandleDeregister"));
  const auto read =
      reinterpret_cast<ssize_t (*)(void*, void*, std::size_t, off_t, off_t)>(::dlsym(library, "cuFileRead"));
  const auto set_device =
      runtime != nullptr ? reinterpret_cast<int (*)(int)>(::dlsym(runtime, "cudaSetDevice")) : nullptr;
  static bool opened = false;
  if (set_device != nullptr) set_device(0);
  if (!opened) opened = open_driver().err == 0;
  const int fd = ::open(file_.c_str(), O_RDONLY | (direct_fd ? O_DIRECT : 0));
  Descr descr{};
  descr.type = 1;
  descr.handle.fd = fd;
  void* handle = nullptr;
  const Error error = enter(&handle, &descr);
  if (error.err != 0) {
    std::printf("{\"figure\": \"cufile\", \"refused\": %d}\n", error.err);
    ::close(fd);
    return;
  }
  const std::size_t total = cold ? kGi : std::min<std::size_t>(setup_.bytes, block < 64 * kKi ? kGi / 16 : 2 * kGi);
  const std::string name = std::string(cold ? "table_cold_" : "table_warm_") + std::to_string(block / kKi) + "k_" +
                           std::to_string(threads) + "t";
  median(
      name.c_str(), direct_fd ? "cuFile, O_DIRECT" : "cuFile", "h2d", static_cast<double>(total),
      static_cast<double>(total / block),
      [&] {
        std::atomic<std::size_t> next{0};
        const double start = now();
        std::vector<std::thread> crew;
        for (unsigned i = 0; i < threads; ++i) {
          crew.emplace_back([&] {
            if (set_device != nullptr) set_device(0);
            for (;;) {
              const std::size_t at = next.fetch_add(block);
              if (at >= total) break;
              if (read(handle, memory_.data(), block, static_cast<off_t>(at), static_cast<off_t>(at)) !=
                  static_cast<ssize_t>(block)) {
                die("cuFileRead");
              }
            }
          });
        }
        for (std::thread& thread : crew) thread.join();
        return now() - start;
      },
      [&] {
        if (cold) drop_cache(file_);
      });
  leave(handle);
  ::close(fd);
}

// Every size and number of calling threads: threads of ours have a queue each.
void Bench::table() {
  for (std::size_t block = 4 * kKi; block <= 16 * kMi; block *= 4) {
    for (const unsigned threads : {1u, 4u, 16u}) {
      const std::string name = "table_warm_" + std::to_string(block / kKi) + "k_" + std::to_string(threads) + "t";
      const std::size_t total = std::min<std::size_t>(setup_.bytes, block < 64 * kKi ? kGi : 4 * kGi);
      const File file = take(File::open(file_));
      median(name.c_str(), "headrace auto", "h2d", static_cast<double>(total), static_cast<double>(total / block), [&] {
        std::atomic<std::size_t> next{0};
        const double start = now();
        std::vector<std::thread> crew;
        for (unsigned t = 0; t < threads; ++t) {
          crew.emplace_back([&] {
            FileQueueOptions options;
            options.staging_bytes = 16 * kMi;
            FileQueue queue = take(FileQueue::create(*context_, device_, options));
            const std::size_t depth = std::clamp<std::size_t>(8 * kMi / block, 4, 512);
            std::vector<FileCompletion> done(depth);
            for (;;) {
              const std::size_t at = next.fetch_add(block);
              if (at >= total) break;
              const FileRange range{at, memory_.data() + at, block};
              must(queue.read(file, {&range, 1}, at));
              if (queue.pending() >= depth) queue.wait(done, depth / 4);
            }
            while (queue.pending() > 0) queue.wait(done, queue.pending());
          });
        }
        for (std::thread& thread : crew) thread.join();
        return now() - start;
      });
      plain_threads(block, threads, false);
      cufile(block, threads, false, false);
    }
  }
  for (const std::size_t block : {std::size_t{64} * kKi, kMi, 4 * kMi}) {
    for (const unsigned threads : {1u, 8u}) {
      plain_threads(block, threads, true);
      cufile(block, threads, false, true);
      cufile(block, threads, true, true);
    }
    Load load;
    load.block = block;
    load.total = kGi;
    load.depth = std::clamp<std::size_t>(32 * kMi / block, 8, 128);
    const std::string name = "table_cold_" + std::to_string(block / kKi) + "k_1t";
    race(name.c_str(), load, {ours(Path::kAuto, load, "h2d")}, 0, [&] { drop_cache(file_); });
  }
}

void Bench::run() {
  const auto cold = [&] { drop_cache(file_); };
  std::printf("{\"device\": \"%s\", \"cpus\": %u, \"file_bytes\": %zu}\n", device_.description().c_str(),
              std::thread::hardware_concurrency(), setup_.bytes);
  bus_limits();
  warm_cache(file_);
  if (wanted("first")) first_pass();
  if (wanted("warm")) {
    const auto warm = [&](const char* name, const Load& load) {
      race(name, load,
           {ours(Path::kAuto, load, "h2d"), ours(Path::kMapped, load, "h2d"), ours(Path::kBuffered, load, "h2d")}, 2);
    };
    warm("warm_sequential_4m", {4 * kMi, false, 16, 0, false});
    warm("warm_random_1m", {kMi, true, 32, 0, false});
    warm("warm_random_256k", {256 * kKi, true, 128, 0, false});
    warm("warm_random_64k", {64 * kKi, true, 512, 0, false});
    warm("warm_random_4k_list", {4 * kKi, true, 0, 2 * kGi, false});
  }
  if (wanted("latency")) latency();
  if (wanted("files")) small_files();
  if (wanted("table")) table();
  if (wanted("write")) {
    const Load write{4 * kMi, false, 16, kGi, true};
    const auto quiet = [&] {
      const int fd = ::open((file_ + ".out").c_str(), O_RDWR | O_CREAT, 0644);
      ::fsync(fd);
      ::close(fd);
    };
    race("write_4m_buffered", write,
         {ours(Path::kBuffered, write, "plain threads"), timed("plain threads, 8", [&] { return plain_write(8); })}, 2,
         quiet);
    drop_cache(file_ + ".out");
    race("write_4m_direct", write,
         {ours(Path::kDirect, write, "raw io_uring"),
          timed("raw io_uring", [&] { return raw_uring(kMi, 32, false, true, kGi); })},
         1, quiet);
  }
  if (wanted("cold")) {
    const auto direct = [&](const char* name, const Load& load) {
      const auto depth = static_cast<unsigned>(load.depth);
      race(name, load,
           {timed("raw io_uring", [&] { return raw_uring(load.block, depth, load.random, false, load.total); }),
            ours(Path::kDirect, load, "raw io_uring"), ours(Path::kAuto, load, "raw io_uring")},
           0, cold);
    };
    direct("cold_1m_32", {kMi, false, 32, kGi, false});
    direct("cold_4m_8", {4 * kMi, false, 8, kGi, false});
    direct("cold_4k_128", {4 * kKi, true, 128, kGi / 8, false});
  }
  if (wanted("half")) half_resident();
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--device" && more) {
      setup.device_name = argv[++i];
    } else if (arg == "--gib" && more) {
      setup.bytes = static_cast<std::size_t>(std::atof(argv[++i]) * kGi) / (16 * kMi) * (16 * kMi);
    } else if (arg == "--only" && more) {
      setup.only = argv[++i];
    } else if (arg == "--repeat" && more) {
      setup.repeat = std::max(1, std::atoi(argv[++i]));
    } else if (arg == "--cufile" && more) {
      setup.cufile = argv[++i];
    } else if (setup.directory.empty() && arg[0] != '-') {
      setup.directory = arg;
    } else {
      die("usage: raw_compare DIRECTORY [--device auto] [--gib 4] [--only NAME,...] [--repeat 5] [--cufile PATH]");
    }
  }
  if (setup.directory.empty()) die("name a directory on the disk to be measured");
  Bench(setup).run();
  return 0;
}

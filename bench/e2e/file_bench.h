// Declarations shared by file_bench's own figures and the other methods.
#pragma once

#include <fcntl.h>
#include <headrace/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/device.h"
#include "os/page_cache.h"

namespace headrace::file_bench {

constexpr std::size_t kKi = 1024, kMi = kKi * kKi, kGi = kKi * kMi;

[[noreturn]] inline void die(const std::string& what) {
  std::fprintf(stderr, "file_bench: %s\n", what.c_str());
  std::exit(1);
}
inline void must(const Status& status) {
  if (!status.ok()) die(status.to_string());
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) die(result.status().to_string());
  return std::move(result).value();
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double cpu_seconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

inline void drop_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  const auto left = os::page_cache_share(fd, 0, std::filesystem::file_size(path));
  ::close(fd);
  if (left.resident_pages > left.pages / 100) die("the page cache still holds " + path);
}

inline void warm_cache(const std::string& path) {
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
  unsigned threads = 0;  // of headrace; 0: automatic
};

class Bench {
 public:
  explicit Bench(Setup setup)
      : setup_(std::move(setup)),
        device_(take(Device::open(setup_.device_name))),
        memory_(take(Buffer::allocate(device_, setup_.bytes))) {
    file_ = setup_.directory + "/file_bench.data";
    make_file();
    renew();
  }
  ~Bench() {
    std::filesystem::remove(file_);
    std::filesystem::remove(file_ + ".out");
    std::filesystem::remove_all(setup_.directory + "/file_bench.files");
  }

  void run();

 private:
  bool wanted(const char* name) const {
    return setup_.only.empty() || ("," + setup_.only + ",").find("," + std::string(name) + ",") != std::string::npos;
  }
  void renew(ContextOptions options = {}) {
    if (options.threads == 0) options.threads = setup_.threads;
    context_.emplace(take(Context::create(options)));
  }

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
        // `depth` requests at the disk, plus those crossing the bus.
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

  // One method for a figure; `round` runs and measures it once.
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

  // Runs the methods in turn, so that disturbances affect all of them, and reports each one's median. `before` runs
  // before every round, untimed.
  void race(const char* name, const Load& load, const std::vector<Way>& ways, int warmups,
            const std::function<void()>& before = {}) {
    std::vector<std::vector<Measure>> all(ways.size());
    for (int i = -warmups; i < setup_.repeat; ++i) {
      for (std::size_t turn = 0; turn < ways.size(); ++turn) {
        // Rotates which one goes first: a disk may allow bursts.
        const std::size_t k = (turn + static_cast<std::size_t>(i + warmups)) % ways.size();
        if (before) before();
        Measure m = ways[k].round();
        if (i >= 0) {
          all[k].push_back(std::move(m));
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));  // registration continues in the background
        }
      }
    }
    const auto count = static_cast<double>(offsets(load).size());
    for (std::size_t k = 0; k < ways.size(); ++k) {
      std::sort(all[k].begin(), all[k].end(), [](const Measure& a, const Measure& b) { return a.seconds < b.seconds; });
      const Measure& m = all[k][all[k].size() / 2];
      report(name, ways[k].who.c_str(), ways[k].limit.c_str(), count * static_cast<double>(load.block), m.seconds,
             m.cpu, &m.stats, count);
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

}  // namespace headrace::file_bench

// Measures transfers between files and device memory: headrace compared with the hardware limits and other methods, in
// one run.
//
//   file_bench DIRECTORY [--device auto] [--gib 4] [--only NAME] [--repeat 5] [--threads N] [--cufile PATH]
//
// DIRECTORY: on the disk to be measured; files are created there and removed. Prints one JSON object per figure:
// "gbytes_per_s" is 1e9 bytes of the file per second, "cpu" the CPU seconds of the process per second of wall time.
// "limit" names the row that is the limit for this row. Cold figures need root.
#include "file_bench.h"

#include <span>

namespace headrace::file_bench {

void Bench::small_files() {
  constexpr std::size_t kFiles = 20'000, kBytes = 64 * kKi;
  const std::string directory = setup_.directory + "/file_bench.files";
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
  median("small_files_first", "open, pread, close on 16 threads, no copy", "", static_cast<double>(kFiles * kBytes),
         kFiles, [&] {
           std::vector<std::vector<char>> own(16, std::vector<char>(kBytes));
           std::atomic<std::size_t> next{0};
           const double start = now();
           std::vector<std::thread> crew;
           for (auto& buffer : own) {
             crew.emplace_back([&] {
               for (;;) {
                 const std::size_t i = next.fetch_add(1);
                 if (i >= kFiles) break;
                 const int fd = ::open(names[i].c_str(), O_RDONLY | O_CLOEXEC);
                 if (::pread(fd, buffer.data(), kBytes, 0) != static_cast<ssize_t>(kBytes)) die("cannot read");
                 ::close(fd);
               }
             });
           }
           for (std::thread& thread : crew) thread.join();
           return now() - start;
         });
  const auto pass = [&](FileQueue& queue) {
    const double start = now();
    must(queue.read_paths(ranges, 0));
    FileCompletion done;
    queue.wait({&done, 1});
    must(done.status);
    return now() - start;
  };
  for (const unsigned callers : {4u, 16u}) {
    std::vector<double> all;
    for (int i = 0; i < 3; ++i) {
      renew();
      std::vector<FileQueue> queues;
      for (unsigned t = 0; t < callers; ++t) queues.push_back(take(FileQueue::create(*context_, device_)));
      const double start = now();
      std::vector<std::thread> crew;
      for (unsigned t = 0; t < callers; ++t) {
        crew.emplace_back([&, t] {
          const std::size_t share = kFiles / callers;
          must(queues[t].read_paths(std::span(ranges).subspan(t * share, share), 0));
          FileCompletion done;
          queues[t].wait({&done, 1});
          must(done.status);
        });
      }
      for (std::thread& thread : crew) thread.join();
      all.push_back(now() - start);
    }
    std::sort(all.begin(), all.end());
    const std::string who = "headrace auto, " + std::to_string(callers) + " calling threads";
    report("small_files_first", who.c_str(), "h2d", static_cast<double>(kFiles * kBytes), all[1], 0, nullptr, kFiles);
  }
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
      renew();  // unregisters all windows
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
  // Registered pages could not be evicted between the rounds.
  ContextOptions unmapped;
  unmapped.allow_mapped = false;
  renew(unmapped);
  // Leaves every second MiB in the page cache.
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

// All block sizes and numbers of calling threads; each headrace thread has its own queue.
void Bench::table() {
  for (std::size_t block = 4 * kKi; block <= 16 * kMi; block *= 4) {
    for (const unsigned threads : {1u, 4u, 16u}) {
      const std::string name = "table_warm_" + std::to_string(block / kKi) + "k_" + std::to_string(threads) + "t";
      const std::size_t total = std::min<std::size_t>(setup_.bytes, block < 64 * kKi ? kGi : 4 * kGi);
      const File file = take(File::open(file_));
      // Queues are created in advance, like the other methods' buffers, and warmed up until the windows are registered.
      std::vector<FileQueue> queues;
      for (unsigned t = 0; t < threads; ++t) {
        FileQueueOptions options;
        options.staging_bytes = 16 * kMi;
        queues.push_back(take(FileQueue::create(*context_, device_, options)));
      }
      const auto round = [&] {
        std::atomic<std::size_t> next{0};
        const double start = now();
        std::vector<std::thread> crew;
        for (FileQueue& queue : queues) {
          crew.emplace_back([&, queue = &queue] {
            const std::size_t depth = std::clamp<std::size_t>(16 * kMi / block, 4, 1024);
            std::vector<FileCompletion> done(depth);
            for (;;) {
              const std::size_t at = next.fetch_add(block);
              if (at >= total) break;
              const FileRange range{at, memory_.data() + at, block};
              must(queue->read(file, {&range, 1}, at));
              if (queue->pending() >= depth) queue->wait(done, depth / 4);
            }
            while (queue->pending() > 0) queue->wait(done, queue->pending());
          });
        }
        for (std::thread& thread : crew) thread.join();
        return now() - start;
      };
      for (int i = 0; i < 2; ++i) {
        (void)round();
        std::this_thread::sleep_for(std::chrono::milliseconds(i == 0 ? 0 : 300));
      }
      median(name.c_str(), "headrace auto", "h2d", static_cast<double>(total), static_cast<double>(total / block),
             round);
      plain_threads(block, threads, false);
      cufile(block, threads, false, false);
    }
  }
  ContextOptions unmapped;  // registered pages could not be evicted between the rounds
  unmapped.allow_mapped = false;
  renew(unmapped);
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
  {
    const auto warm = [&](const char* name, const Load& load) {
      if (!setup_.only.empty() && !wanted("warm") && !wanted(name)) return;
      race(name, load,
           {ours(Path::kAuto, load, "h2d"), ours(Path::kMapped, load, "h2d"), ours(Path::kBuffered, load, "h2d")}, 2);
    };
    warm("warm_sequential_4m", {4 * kMi, false, 16, 0, false});
    warm("warm_random_1m", {kMi, true, 32, 0, false});
    warm("warm_random_256k", {256 * kKi, true, 128, 0, false});
    warm("warm_random_64k", {64 * kKi, true, 512, 0, false});
    warm("warm_random_4k_list", {4 * kKi, true, 0, 0, false});
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

}  // namespace headrace::file_bench

int main(int argc, char** argv) {
  using namespace headrace::file_bench;
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
    } else if (arg == "--threads" && more) {
      setup.threads = static_cast<unsigned>(std::atoi(argv[++i]));
    } else if (arg == "--cufile" && more) {
      setup.cufile = argv[++i];
    } else if (setup.directory.empty() && arg[0] != '-') {
      setup.directory = arg;
    } else {
      die("usage: file_bench DIRECTORY [--device auto] [--gib 4] [--only NAME,...] [--repeat 5] [--threads N] "
          "[--cufile PATH]");
    }
  }
  if (setup.directory.empty()) die("name a directory on the disk to be measured");
  Bench(setup).run();
  return 0;
}

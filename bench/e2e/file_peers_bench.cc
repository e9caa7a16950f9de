// The hardware limits, and other methods to transfer a file to device memory.
#include <dlfcn.h>
#include <liburing.h>

#include "base/access.h"
#include "file_bench.h"

namespace headrace::file_bench {

void Bench::bus_limits() {
  device::Device& device = *Access::impl(device_);
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

// Each thread alternates between two pinned buffers: it reads into one while the other is copied.
void Bench::plain_threads(std::size_t block, unsigned threads, bool direct) {
  device::Device& device = *Access::impl(device_);
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
  device::Device& device = *Access::impl(device_);
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

// NVIDIA's library by its documented calls, resolved by name.
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

}  // namespace headrace::file_bench

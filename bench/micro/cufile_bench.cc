// cuFileRead of a library that is named on the command line, so that several are measured by one program:
//
//   cufile_bench LIBRARY FILE [--threads N,...] [--size BYTES,...] [--seconds S] [--direct] [--cuda LIBCUDART]
//   [--register]
//
// Each thread reads its own part of the file in a circle into memory of its own, warm: all of it is read once before
// the clock starts. Host memory, or with --cuda memory of GPU 0, by the CUDA runtime library of that name (loaded at
// run time; nothing is linked). One JSON object a line: bytes over the bus or copied, a second (1e9).
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#define CUFILE_WITHOUT_CUDA_H
#include <cufile/cufile.h>

namespace {

using Clock = std::chrono::steady_clock;

struct Api {
  decltype(&::cuFileHandleRegister) handle_register = nullptr;
  decltype(&::cuFileBufRegister) buffer_register = nullptr;
  decltype(&::cuFileRead) read = nullptr;
  decltype(&::cuFileGetVersion) version = nullptr;
  int (*cuda_malloc)(void**, std::size_t) = nullptr;
  int (*cuda_set_device)(int) = nullptr;
};

struct Options {
  std::vector<std::size_t> threads{1, 2, 4, 8, 16}, sizes{4096, 65536, 1 << 20, 4 << 20, 16 << 20};
  double seconds = 1;
  bool direct = false, registered = false;
  std::string cuda;
};

std::vector<std::size_t> numbers(const char* text) {
  std::vector<std::size_t> out;
  for (char* at = const_cast<char*>(text); *at != '\0';) {
    out.push_back(std::strtoull(at, &at, 10));
    if (*at == ',') ++at;
  }
  return out;
}

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "cufile_bench: %s\n", why.c_str());
  std::exit(1);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) stop(std::string("the library has no ") + name);
}

struct Run {
  double seconds = 0;
  std::uint64_t bytes = 0;
  std::vector<double> microseconds;  // of each call
};

Run measure(const Api& api, CUfileHandle_t file, std::size_t file_bytes, std::size_t threads, std::size_t size,
            const Options& options) {
  std::vector<std::thread> all;
  std::vector<Run> runs(threads);
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> go{false};
  const std::size_t share = file_bytes / threads / size * size;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      void* memory = nullptr;
      if (api.cuda_malloc != nullptr) {
        if (api.cuda_set_device(0) != 0 || api.cuda_malloc(&memory, size) != 0) stop("no memory on the GPU");
      } else {
        if (::posix_memalign(&memory, 4096, size) != 0) stop("no memory");
        std::memset(memory, 1, size);
      }
      if (options.registered && api.buffer_register(memory, size, 0).err != CU_FILE_SUCCESS)
        stop("cuFileBufRegister failed");
      const auto read = [&](std::size_t at) {
        const ssize_t got = api.read(file, memory, size, static_cast<off_t>(t * share + at), 0);
        if (got != static_cast<ssize_t>(size)) stop("cuFileRead gave " + std::to_string(got));
      };
      // Twice, since what came round again may go another way.
      for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t at = 0; at < share; at += size) read(at);
      }
      ready.fetch_add(1);
      while (!go.load()) std::this_thread::yield();
      Run& run = runs[t];
      const auto start = Clock::now();
      const auto end = start + std::chrono::duration<double>(options.seconds);
      for (std::size_t at = 0;; at = at + size < share ? at + size : 0) {
        const auto before = Clock::now();
        if (before >= end) break;
        read(at);
        run.bytes += size;
        run.microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
      }
      run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      // The memory is left to the end of the process: freeing it would wait for other threads' work on the device.
    });
  }
  while (ready.load() < threads) std::this_thread::yield();
  go = true;
  for (std::thread& thread : all) thread.join();
  Run sum;
  for (const Run& run : runs) {
    sum.bytes += run.bytes;
    sum.seconds = std::max(sum.seconds, run.seconds);
    sum.microseconds.insert(sum.microseconds.end(), run.microseconds.begin(), run.microseconds.end());
  }
  std::sort(sum.microseconds.begin(), sum.microseconds.end());
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<const char*> names;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool more = i + 1 < argc;
    if (argument == "--threads" && more) {
      options.threads = numbers(argv[++i]);
    } else if (argument == "--size" && more) {
      options.sizes = numbers(argv[++i]);
    } else if (argument == "--seconds" && more) {
      options.seconds = std::strtod(argv[++i], nullptr);
    } else if (argument == "--direct") {
      options.direct = true;
    } else if (argument == "--register") {
      options.registered = true;
    } else if (argument == "--cuda" && more) {
      options.cuda = argv[++i];
    } else {
      names.push_back(argv[i]);
    }
  }
  if (names.size() != 2) stop("usage: cufile_bench LIBRARY FILE [options], see the first lines of the source");
  Api api;
  void* library = ::dlopen(names[0], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) stop(::dlerror());
  find(library, "cuFileHandleRegister", api.handle_register);
  find(library, "cuFileBufRegister", api.buffer_register);
  find(library, "cuFileRead", api.read);
  find(library, "cuFileGetVersion", api.version);
  if (!options.cuda.empty()) {
    void* runtime = ::dlopen(options.cuda.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (runtime == nullptr) stop(::dlerror());
    find(runtime, "cudaMalloc", api.cuda_malloc);
    find(runtime, "cudaSetDevice", api.cuda_set_device);
    if (api.cuda_set_device(0) != 0) stop("there is no GPU");
  }
  CUfileDescr_t descriptor{};
  descriptor.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descriptor.handle.fd = ::open(names[1], O_RDONLY | (options.direct ? O_DIRECT : 0));
  struct stat st;
  if (descriptor.handle.fd < 0 || ::fstat(descriptor.handle.fd, &st) != 0) stop("cannot open the file");
  CUfileHandle_t handle = nullptr;
  if (const CUfileError_t status = api.handle_register(&handle, &descriptor); status.err != CU_FILE_SUCCESS) {
    stop("cuFileHandleRegister gave " + std::to_string(status.err));
  }
  int version = 0;
  (void)api.version(&version);
  const auto file_bytes = static_cast<std::size_t>(st.st_size);
  for (const std::size_t size : options.sizes) {
    for (const std::size_t threads : options.threads) {
      if (size == 0 || threads == 0 || file_bytes / threads < size) continue;
      const Run run = measure(api, handle, file_bytes, threads, size, options);
      const auto percentile = [&](double share) {
        const auto at = static_cast<std::size_t>(share * static_cast<double>(run.microseconds.size() - 1));
        return run.microseconds[at];
      };
      std::printf(
          "{\"library\": \"%s\", \"version\": %d, \"memory\": \"%s\", \"direct_descriptor\": %s, \"registered\": %s, "
          "\"threads\": %zu, \"size_bytes\": %zu, \"calls\": %zu, \"gb_per_s\": %.3f, \"p50_us\": %.1f, \"p99_us\": "
          "%.1f}\n",
          names[0], version, api.cuda_malloc != nullptr ? "device" : "host", options.direct ? "true" : "false",
          options.registered ? "true" : "false", threads, size, run.microseconds.size(),
          static_cast<double>(run.bytes) / run.seconds / 1e9, percentile(0.5), percentile(0.99));
      std::fflush(stdout);
    }
  }
  return 0;
}

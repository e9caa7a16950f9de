// Measures cuFile calls of the library named on the command line, so that one program can compare several:
//
//   cufile_bench LIBRARY FILE [--threads N,...] [--size BYTES,...] [--runs THREADSxBYTES,...] [--seconds S] [--direct]
//   [--cuda LIBCUDART] [--register] [--span BYTES] [--cold] [--batch ENTRIES | --async]
//
// Each thread reads its own part of the file, or of the file's first --span bytes, cyclically into its own memory. The
// page cache is warm: everything is read twice before the clock starts. With --cold the file is evicted first and each
// byte is read at most once. Uses host memory, or with --cuda memory of GPU 0 through the named CUDA runtime library
// (loaded at run time; nothing is linked). --runs gives pairs of threads and sizes, if not all combinations are wanted.
//
// A call is cuFileRead of `size_bytes`. With --batch it is that many entries of this size, from the submission until
// the last completes. With --async it is cuFileReadAsync on the thread's own stream and the wait for it;
// `submit_p50_us` is the host time of the call alone. Prints one JSON object per line: bytes per second, in units of
// 1e9.
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
#include <utility>
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
  decltype(&::cuFileBatchIOSetUp) batch_set_up = nullptr;
  decltype(&::cuFileBatchIOSubmit) batch_submit = nullptr;
  decltype(&::cuFileBatchIOGetStatus) batch_status = nullptr;
  decltype(&::cuFileReadAsync) read_async = nullptr;
  int (*cuda_malloc)(void**, std::size_t) = nullptr;
  int (*cuda_set_device)(int) = nullptr;
  int (*cuda_stream_create)(CUstream*, unsigned) = nullptr;
  int (*cuda_stream_synchronize)(CUstream) = nullptr;
};

struct Options {
  std::vector<std::size_t> threads{1, 2, 4, 8, 16}, sizes{4096, 65536, 1 << 20, 4 << 20, 16 << 20};
  std::vector<std::pair<std::size_t, std::size_t>> runs;  // threads and size; empty: all combinations of the above
  double seconds = 1;
  std::size_t span = SIZE_MAX;
  unsigned batch = 0;  // entries per batch; 0: no batches
  bool direct = false, registered = false, cold = false, async = false;
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

// "8x4194304,1x65536"
std::vector<std::pair<std::size_t, std::size_t>> pairs(const char* text) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (char* at = const_cast<char*>(text); *at != '\0';) {
    const std::size_t threads = std::strtoull(at, &at, 10);
    if (*at == 'x') ++at;
    out.emplace_back(threads, std::strtoull(at, &at, 10));
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
  std::vector<double> microseconds;         // per call
  std::vector<double> submit_microseconds;  // time before the wait, if the call has one
};

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The calls of one thread. Its memory is not freed before the process ends: freeing would wait for other threads' work
// on the device.
class Reader {
 public:
  Reader(const Api& api, const Options& options, CUfileHandle_t file, std::size_t size)
      : api_(api), file_(file), size_(size), entries_(std::max(1U, options.batch)), async_(options.async) {
    const std::size_t bytes = size * entries_;
    void* memory = nullptr;
    if (api.cuda_malloc != nullptr) {
      if (api.cuda_set_device(0) != 0 || api.cuda_malloc(&memory, bytes) != 0) stop("no memory on the GPU");
      constexpr unsigned kNonBlocking = 1;
      if (async_ && api.cuda_stream_create(&stream_, kNonBlocking) != 0) stop("no stream");
    } else {
      if (::posix_memalign(&memory, 4096, bytes) != 0) stop("no memory");
      std::memset(memory, 1, bytes);
    }
    memory_ = static_cast<char*>(memory);
    if (options.registered && api.buffer_register(memory, bytes, 0).err != CU_FILE_SUCCESS)
      stop("cuFileBufRegister failed");
    if (options.batch != 0) {
      events_.resize(entries_);
      if (const int code = api.batch_set_up(&batch_, entries_).err; code != 0)
        stop("cuFileBatchIOSetUp gave " + std::to_string(code));
    }
  }

  std::size_t bytes() const { return size_ * entries_; }

  // Reads, and returns the microseconds until the request was submitted; for blocking calls, of the whole call.
  double read(std::size_t at) {
    const auto start = Clock::now();
    if (batch_ != nullptr) return read_batch(at, start);
    if (async_) return read_async(at, start);
    const ssize_t got = api_.read(file_, memory_, size_, static_cast<off_t>(at), 0);
    if (got != static_cast<ssize_t>(size_)) stop("cuFileRead gave " + std::to_string(got));
    return since(start);
  }

 private:
  double read_batch(std::size_t at, Clock::time_point start) {
    parameters_.assign(entries_, CUfileIOParams_t{});
    for (unsigned i = 0; i < entries_; ++i) {
      CUfileIOParams_t& entry = parameters_[i];
      entry.mode = CUFILE_BATCH;
      entry.fh = file_;
      entry.opcode = CUFILE_READ;
      entry.cookie = &entry;
      entry.u.batch.devPtr_base = memory_;
      entry.u.batch.devPtr_offset = static_cast<off_t>(i * size_);
      entry.u.batch.file_offset = static_cast<off_t>(at + i * size_);
      entry.u.batch.size = size_;
    }
    if (const int code = api_.batch_submit(batch_, entries_, parameters_.data(), 0).err; code != 0)
      stop("cuFileBatchIOSubmit gave " + std::to_string(code));
    const double submitted = since(start);
    for (unsigned done = 0; done < entries_;) {
      unsigned count = entries_ - done;
      if (const int code = api_.batch_status(batch_, count, &count, events_.data(), nullptr).err; code != 0)
        stop("cuFileBatchIOGetStatus gave " + std::to_string(code));
      for (unsigned i = 0; i < count; ++i) {
        if (events_[i].status != CUFILE_COMPLETE || events_[i].ret != size_)
          stop("an entry of a batch gave " + std::to_string(static_cast<ssize_t>(events_[i].ret)));
      }
      done += count;
    }
    return submitted;
  }

  double read_async(std::size_t at, Clock::time_point start) {
    wanted_ = size_;
    file_offset_ = static_cast<off_t>(at);
    const CUfileError_t error = api_.read_async(file_, memory_, &wanted_, &file_offset_, &offset_, &got_, stream_);
    if (error.err != CU_FILE_SUCCESS) stop("cuFileReadAsync gave " + std::to_string(error.err));
    const double submitted = since(start);
    if (api_.cuda_stream_synchronize != nullptr && api_.cuda_stream_synchronize(stream_) != 0)
      stop("the stream failed");
    if (got_ != static_cast<ssize_t>(size_)) stop("cuFileReadAsync read " + std::to_string(got_));
    return submitted;
  }

  const Api& api_;
  const CUfileHandle_t file_;
  const std::size_t size_;
  const unsigned entries_;
  const bool async_;
  char* memory_ = nullptr;
  CUstream stream_ = nullptr;
  CUfileBatchHandle_t batch_ = nullptr;
  std::vector<CUfileIOParams_t> parameters_;
  std::vector<CUfileIOEvents_t> events_;
  // The stream reads these when it executes the request.
  std::size_t wanted_ = 0;
  off_t file_offset_ = 0, offset_ = 0;
  ssize_t got_ = 0;
};

Run measure(const Api& api, CUfileHandle_t file, std::size_t span, std::size_t threads, std::size_t size,
            const Options& options) {
  std::vector<std::thread> all;
  std::vector<Run> runs(threads);
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> go{false};
  const std::size_t call_bytes = size * std::max(1U, options.batch);
  const std::size_t share = span / threads / call_bytes * call_bytes;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      Reader reader(api, options, file, size);
      // Twice, because a repeated read may take another path.
      for (int pass = 0; pass < (options.cold ? 0 : 2); ++pass) {
        for (std::size_t at = 0; at < share; at += call_bytes) (void)reader.read(t * share + at);
      }
      ready.fetch_add(1);
      while (!go.load()) std::this_thread::yield();
      Run& run = runs[t];
      const auto start = Clock::now();
      const auto end = start + std::chrono::duration<double>(options.seconds);
      for (std::size_t at = 0;;) {
        const auto before = Clock::now();
        if (before >= end) break;
        run.submit_microseconds.push_back(reader.read(t * share + at));
        run.microseconds.push_back(since(before));
        run.bytes += call_bytes;
        at += call_bytes;
        if (at >= share && options.cold) break;
        if (at >= share) at = 0;
      }
      run.seconds = since(start) * 1e-6;
    });
  }
  while (ready.load() < threads) std::this_thread::yield();
  go = true;
  for (std::thread& thread : all) thread.join();
  Run sum;
  for (const Run& run : runs) {
    sum.bytes += run.bytes;
    sum.seconds = std::max(sum.seconds, run.seconds);
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(sum.microseconds, run.microseconds);
    append(sum.submit_microseconds, run.submit_microseconds);
  }
  std::sort(sum.microseconds.begin(), sum.microseconds.end());
  std::sort(sum.submit_microseconds.begin(), sum.submit_microseconds.end());
  return sum;
}

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void load_functions(Api& api, void* library, const Options& options) {
  find(library, "cuFileHandleRegister", api.handle_register);
  find(library, "cuFileBufRegister", api.buffer_register);
  find(library, "cuFileRead", api.read);
  find(library, "cuFileGetVersion", api.version);
  find(library, "cuFileBatchIOSetUp", api.batch_set_up);
  find(library, "cuFileBatchIOSubmit", api.batch_submit);
  find(library, "cuFileBatchIOGetStatus", api.batch_status);
  find(library, "cuFileReadAsync", api.read_async);
  if (options.cuda.empty()) return;
  void* runtime = ::dlopen(options.cuda.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (runtime == nullptr) stop(::dlerror());
  find(runtime, "cudaMalloc", api.cuda_malloc);
  find(runtime, "cudaSetDevice", api.cuda_set_device);
  find(runtime, "cudaStreamCreateWithFlags", api.cuda_stream_create);
  find(runtime, "cudaStreamSynchronize", api.cuda_stream_synchronize);
  if (api.cuda_set_device(0) != 0) stop("there is no GPU");
}

// Only clean pages can be evicted, so dirty ones are written first.
void leave_page_cache(int fd) {
  if (::fdatasync(fd) != 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) stop("the page cache stays");
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
    } else if (argument == "--runs" && more) {
      options.runs = pairs(argv[++i]);
    } else if (argument == "--seconds" && more) {
      options.seconds = std::strtod(argv[++i], nullptr);
    } else if (argument == "--span" && more) {
      options.span = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--batch" && more) {
      options.batch = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (argument == "--async") {
      options.async = true;
    } else if (argument == "--cold") {
      options.cold = true;
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
  if (options.runs.empty()) {
    for (const std::size_t size : options.sizes) {
      for (const std::size_t threads : options.threads) options.runs.emplace_back(threads, size);
    }
  }
  Api api;
  void* library = ::dlopen(names[0], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) stop(::dlerror());
  load_functions(api, library, options);
  CUfileDescr_t descriptor{};
  descriptor.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  const int fd = ::open(names[1], O_RDONLY | (options.direct ? O_DIRECT : 0));
  descriptor.handle.fd = fd;
  struct stat st;
  if (fd < 0 || ::fstat(fd, &st) != 0) stop("cannot open the file");
  CUfileHandle_t handle = nullptr;
  if (const CUfileError_t status = api.handle_register(&handle, &descriptor); status.err != CU_FILE_SUCCESS) {
    stop("cuFileHandleRegister gave " + std::to_string(status.err));
  }
  int version = 0;
  (void)api.version(&version);
  const std::size_t span = std::min(options.span, static_cast<std::size_t>(st.st_size));
  for (const auto& [threads, size] : options.runs) {
    if (size == 0 || threads == 0 || span / threads < size * std::max(1U, options.batch)) continue;
    if (options.cold) leave_page_cache(fd);
    const Run run = measure(api, handle, span, threads, size, options);
    std::printf(
        "{\"library\": \"%s\", \"version\": %d, \"memory\": \"%s\", \"call\": \"%s\", \"batch\": %u, \"cold\": %s, "
        "\"direct_descriptor\": %s, \"registered\": %s, \"threads\": %zu, \"size_bytes\": %zu, \"calls\": %zu, "
        "\"gb_per_s\": %.3f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"submit_p50_us\": %.1f}\n",
        names[0], version, api.cuda_malloc != nullptr ? "device" : "host",
        options.batch != 0 ? "batch" : (options.async ? "async" : "read"), options.batch,
        options.cold ? "true" : "false", options.direct ? "true" : "false", options.registered ? "true" : "false",
        threads, size, run.microseconds.size(), static_cast<double>(run.bytes) / run.seconds / 1e9,
        percentile(run.microseconds, 0.5), percentile(run.microseconds, 0.99),
        percentile(run.submit_microseconds, 0.5));
    std::fflush(stdout);
  }
  return 0;
}

// Engine over NVIDIA's cuFile: reads and writes whose memory may be on a GPU.
//
// Makes cuFile's blocking calls in a pool of threads, as most users of cuFile do. These calls accept any alignment, and
// a short count means end of file. In the driver's compatibility mode they also work, but copy through host memory.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/fork.h"
#include "cufile_driver.h"
#include "handle_table.h"
#include "io/blocking_engine.h"

namespace headrace::io {
namespace gds {
namespace {

// Maps cuFile's own errors to the errno that layers above act on: EINVAL makes them use another path.
int errno_of(int code) noexcept {
  switch (code) {
    case CU_FILE_NOMEM_ERROR:
    case CU_FILE_INVALID_MAPPING_SIZE:
    case CU_FILE_GPU_MEMORY_PINNING_FAILED:
      return ENOMEM;
    case CU_FILE_CUDA_POINTER_INVALID:
    case CU_FILE_CUDA_POINTER_RANGE_ERROR:
    case CU_FILE_INVALID_MAPPING_RANGE:
      return EFAULT;
    case CU_FILE_PERMISSION_DENIED:
      return EACCES;
    case CU_FILE_PLATFORM_NOT_SUPPORTED:
    case CU_FILE_IO_NOT_SUPPORTED:
    case CU_FILE_DEVICE_NOT_SUPPORTED:
    case CU_FILE_INVALID_FILE_TYPE:
    case CU_FILE_INVALID_FILE_OPEN_FLAG:
    case CU_FILE_DIO_NOT_SET:
    case CU_FILE_INVALID_VALUE:
    case CU_FILE_HANDLE_NOT_REGISTERED:
      return EINVAL;
    default:
      return EIO;
  }
}

class CufileCalls final : public BlockingCalls {
 public:
  CufileCalls(const CufileLibrary& library, const EngineOptions& options) : library_(library), options_(options) {}

  ~CufileCalls() override {
    if (generation_ != base::fork_generation()) return;  // the library's threads belong to the parent
    handles_.end_room(room_);
    drop_buffers();
  }

  // Throws std::bad_alloc.
  void reserve(unsigned depth) {
    handles_.add_room(depth);
    room_ = depth;
  }

  std::int64_t may_start_thread() noexcept override { return HEADRACE_FAULT("io_gds.thread", 0); }
  void begin_thread() noexcept override {
    if (options_.begin_thread) options_.begin_thread();
  }

  void hold(const EngineRequest& request) noexcept override {
    if (options_.to_device) handles_.hold(request.fd);
  }
  void release(const EngineRequest& request) noexcept override {
    if (options_.to_device) handles_.release(request.fd, library_);
  }

  std::int64_t transfer(const EngineRequest& request) noexcept override {
    if (!options_.to_device) return transfer_host(request);
    const HandleTable::Answer file = handles_.find(request.fd, library_);
    if (file.system_error != 0) return -file.system_error;
    // As the system calls would.
    const int wanted = request.op == Op::kRead ? O_RDONLY : O_WRONLY;
    if (file.access != O_RDWR && file.access != wanted) return -EBADF;
    if (file.handle == nullptr) return failed(file.library_error);
    std::byte* base = request.buffer;
    {
      std::lock_guard lock(mutex_);
      for (const std::span<std::byte>& buffer : buffers_) {
        // cuFile identifies registered memory by its start.
        if (request.buffer >= buffer.data() && request.buffer + request.length_bytes <= buffer.data() + buffer.size()) {
          base = buffer.data();
        }
      }
    }
    const auto offset = static_cast<off_t>(request.offset_bytes);
    const off_t skip = request.buffer - base;
    errno = 0;
    if (request.op == Op::kRead) {
      const ssize_t n = library_.read(file.handle, base, request.length_bytes, offset, skip);
      return HEADRACE_FAULT("io_gds.read", outcome(n, request.length_bytes));
    }
    const ssize_t n = library_.write(file.handle, base, request.length_bytes, offset, skip);
    return HEADRACE_FAULT("io_gds.write", outcome(n, request.length_bytes));
  }

  Status register_buffers(std::span<const std::span<std::byte>> buffers) override {
    if (!options_.to_device) return {};  // host memory gains nothing
    std::lock_guard lock(mutex_);
    drop_buffers();
    buffers_.reserve(buffers.size());
    for (const std::span<std::byte>& buffer : buffers) {
      const CUfileError_t status = library_.register_buffer(buffer.data(), buffer.size(), 0);
      if (status.err != CU_FILE_SUCCESS) {
        // All or none: cuFile has reached a limit, and the rest is left to other users of the GPU.
        drop_buffers();
        buffer_error_ = status.err;
        return {};
      }
      buffers_.push_back(buffer);
    }
    buffer_error_ = 0;
    return {};
  }

  std::string registration() const override {
    std::string out;
    {
      std::lock_guard lock(mutex_);
      if (!buffers_.empty()) out = "registered_buffers";
      if (buffer_error_ != 0) out = "no registered buffers: " + error_text(buffer_error_);
    }
    if (const int last = last_error_.load(std::memory_order_relaxed); last != 0) {
      out += (out.empty() ? std::string() : ", ") + "cuFile failed last with " + error_text(last);
    }
    return out;
  }

 private:
  static std::string error_text(int code) { return std::to_string(code) + " (" + CUFILE_ERRSTR(code) + ")"; }

  // Into and out of host memory by system calls: cuFile would add nothing, and needs a CUDA context in each thread.
  static std::int64_t transfer_host(const EngineRequest& request) noexcept {
    const std::int64_t n = transfer_by_system_call(request);
    return request.op == Op::kRead ? HEADRACE_FAULT("io_gds.read", n) : HEADRACE_FAULT("io_gds.write", n);
  }

  // Bytes or -errno, as from the system calls.
  std::int64_t outcome(ssize_t moved, std::uint32_t asked) noexcept {
    if (moved > static_cast<ssize_t>(asked)) return -EIO;  // the excess went to an unknown place
    if (moved >= 0) return moved;
    // Some versions put cuFile error numbers into errno.
    const int code = moved == -1 ? errno : static_cast<int>(-std::max<ssize_t>(moved, -INT32_MAX));
    if (code <= 0) return -EIO;
    if (moved == -1 && code < CUFILEOP_BASE_ERR) return -code;
    return failed(code);
  }
  std::int64_t failed(int code) noexcept {
    last_error_.store(code, std::memory_order_relaxed);
    return -errno_of(code);
  }

  // REQUIRES: mutex_ is held, or no other thread uses the object.
  void drop_buffers() noexcept {
    for (const std::span<std::byte>& buffer : buffers_) (void)library_.deregister_buffer(buffer.data());
    buffers_.clear();
  }

  const CufileLibrary& library_;
  const EngineOptions options_;
  HandleTable& handles_ = HandleTable::of_process();
  unsigned room_ = 0;
  const std::uint64_t generation_ = base::fork_generation();
  mutable std::mutex mutex_;
  std::vector<std::span<std::byte>> buffers_;  // guarded by mutex_: the registered buffers
  int buffer_error_ = 0;                       // guarded by mutex_
  std::atomic<int> last_error_{0};             // a cuFile error number
};

}  // namespace
}  // namespace gds

Result<std::unique_ptr<Engine>> make_gds_engine(const EngineOptions& options) {
  HEADRACE_TRY_ASSIGN(const gds::CufileDriver* driver, gds::cufile_driver(options.only_direct));
  EngineInfo info;
  info.name = "gds";
  info.features = driver->describe();
  info.reaches_device_memory = options.to_device;
  auto calls = std::make_unique<gds::CufileCalls>(driver->library, options);
  calls->reserve(std::clamp(options.depth, 1u, 65536u));
  return make_blocking_engine(std::move(info), options, std::move(calls));
}

}  // namespace headrace::io

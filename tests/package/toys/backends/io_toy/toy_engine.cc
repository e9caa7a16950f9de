// A minimal engine: submit() makes the system calls, reap() returns their results.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/fault.h"
#include "io/engine.h"

namespace headrace::io {
namespace {

// Makes one system call and returns the bytes moved, or -errno. RequestQueue splits, retries and counts. Each call has
// a fault point, named io_ENGINE.call, so that the fault suite can make it fail in every way.
std::int64_t transfer(const EngineRequest& request) {
  const auto offset = static_cast<off_t>(request.offset_bytes);
  if (request.op == Op::kRead) {
    const ssize_t n = ::pread(request.fd, request.buffer, request.length_bytes, offset);
    return HEADRACE_FAULT("io_toy.pread", n < 0 ? -errno : n);
  }
  const ssize_t n = ::pwrite(request.fd, request.buffer, request.length_bytes, offset);
  return HEADRACE_FAULT("io_toy.pwrite", n < 0 ? -errno : n);
}

class ToyEngine final : public Engine {
 public:
  explicit ToyEngine(unsigned depth) {
    info_.name = "toy";  // the row's name
    info_.depth = depth;
    info_.registers_late = true;  // register_buffers() does nothing, so it may be called at any time
    done_.reserve(depth);         // so that submit() does not allocate
  }

  const EngineInfo& info() const noexcept override { return info_; }
  Status register_buffers(std::span<const std::span<std::byte>>) override { return {}; }

  Result<std::size_t> submit(std::span<const EngineRequest> requests) override {
    std::lock_guard lock(mutex_);
    // At most `depth` requests between submit() and reap(): a short count tells the caller to reap first.
    const std::size_t taken = std::min<std::size_t>(requests.size(), info_.depth - done_.size());
    for (const EngineRequest& request : requests.first(taken)) done_.push_back({request.tag, transfer(request)});
    system_calls_ += taken;
    return taken;
  }

  Result<std::size_t> reap(std::span<EngineResult> events, std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    // Bounded: a timeout near the clock's end would overflow in the standard library.
    ready_.wait_for(lock, std::min(timeout, std::chrono::nanoseconds(std::chrono::hours(1))),
                    [this] { return !done_.empty() || woken_; });
    woken_ = false;
    const std::size_t count = std::min(events.size(), done_.size());
    std::copy_n(done_.begin(), count, events.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

  void cancel(std::uint64_t) override {}  // every submitted request is already done
  void wake() noexcept override {
    {
      std::lock_guard lock(mutex_);
      woken_ = true;
    }
    ready_.notify_one();
  }
  std::uint64_t system_calls() const noexcept override { return system_calls_; }

 private:
  EngineInfo info_;
  std::atomic<std::uint64_t> system_calls_{0};
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<EngineResult> done_;  // guarded by mutex_
  bool woken_ = false;              // guarded by mutex_
};

}  // namespace

// An engine that the kernel refuses returns kUnsupported or kPermission here. "auto" then tries the next in the table.
Result<std::unique_ptr<Engine>> make_toy_engine(const EngineOptions& options) {
  return std::unique_ptr<Engine>(std::make_unique<ToyEngine>(std::clamp(options.depth, 1u, 65536u)));
}

}  // namespace headrace::io

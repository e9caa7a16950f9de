// Engine over plain pread and pwrite in a pool of threads.
//
// The reference: it needs nothing of the kernel beyond POSIX, so every other engine is compared with it, and it is what
// remains where io_uring and aio are forbidden. Bytes that are in the page cache are copied by as many cores as there
// are threads, which no single-submitter engine does.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "base/fork.h"
#include "io/engine.h"

namespace headrace::io {
namespace {

constexpr unsigned kMaxThreads = 64;

unsigned usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());  // more CPUs than cpu_set_t holds
}

// A ring of fixed capacity: the engine admits `depth` requests, so neither queue below can overflow.
template <class T>
class FixedQueue {
 public:
  explicit FixedQueue(std::size_t capacity) : items_(capacity) {}
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  T& at(std::size_t i) { return items_[(head_ + i) % items_.size()]; }
  void push(const T& item) {
    at(count_) = item;
    ++count_;
  }
  T pop() {
    T item = items_[head_];
    head_ = (head_ + 1) % items_.size();
    --count_;
    return item;
  }
  void erase(std::size_t index) {
    for (std::size_t i = index; i + 1 < count_; ++i) at(i) = at(i + 1);
    --count_;
  }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0, count_ = 0;
};

std::int64_t transfer(const EngineRequest& request) {
  const auto offset = static_cast<off_t>(request.offset_bytes);
  if (request.op == Op::kRead) {
    const ssize_t n = ::pread(request.fd, request.buffer, request.length_bytes, offset);
    return HEADRACE_FAULT("io_threads.pread", n < 0 ? -errno : n);
  }
  const ssize_t n = ::pwrite(request.fd, request.buffer, request.length_bytes, offset);
  return HEADRACE_FAULT("io_threads.pwrite", n < 0 ? -errno : n);
}

class ThreadsEngine final : public Engine {
 public:
  ThreadsEngine(unsigned depth) : work_(depth), done_(depth) {
    info_.depth = depth;
    info_.registers_late = true;
  }

  ~ThreadsEngine() override {
    if (threads_.inherited()) return;  // they are not in this process
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      while (!work_.empty()) work_.pop();
    }
    work_ready_->notify_all();
    for (std::thread& thread : *threads_) thread.join();
  }

  Status start(unsigned threads) {
    threads_->reserve(threads);
    for (unsigned i = 0; i < threads; ++i) {
      try {
        if (const auto fault = HEADRACE_FAULT("io_threads.thread", 0); fault < 0) {
          throw std::system_error(static_cast<int>(-fault), std::generic_category());
        }
        threads_->emplace_back([this] { run(); });
      } catch (const std::system_error& error) {
        if (!threads_->empty()) break;  // fewer threads are slower, not wrong
        return Status(Code::kResourceExhausted, Layer::kIo, "cannot start an I/O thread")
            .with_errno(error.code().value());
      }
    }
    info_.name = "threads";
    info_.features = std::to_string(threads_->size()) + " threads";
    return {};
  }

  const EngineInfo& info() const noexcept override { return info_; }
  Status register_buffers(std::span<const std::span<std::byte>>) override { return {}; }

  Result<std::size_t> submit(std::span<const EngineRequest> requests) override {
    std::size_t taken;
    {
      std::lock_guard lock(mutex_);
      taken = std::min<std::size_t>(requests.size(), info_.depth - in_flight_);
      for (std::size_t i = 0; i < taken; ++i) work_.push(requests[i]);
      in_flight_ += static_cast<unsigned>(taken);
    }
    if (taken == 1) {
      work_ready_->notify_one();
    } else if (taken > 1) {
      work_ready_->notify_all();
    }
    return taken;
  }

  Result<std::size_t> reap(std::span<EngineResult> events, std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return !done_.empty() || woken_; };
    if (!ready() && timeout.count() > 0) {
      reaper_waits_ = true;
      // Bounded: a timeout near the clock's end would overflow inside the library.
      done_ready_->wait_for(lock, std::min(timeout, std::chrono::nanoseconds(std::chrono::hours(1))), ready);
      reaper_waits_ = false;
    }
    woken_ = false;
    std::size_t n = 0;
    while (n < events.size() && !done_.empty()) events[n++] = done_.pop();
    in_flight_ -= static_cast<unsigned>(n);
    return n;
  }

  void cancel(std::uint64_t tag) override {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (work_.at(i).tag != tag) continue;
      work_.erase(i);
      done_.push({tag, -ECANCELED});
      return;
    }
  }

  void wake() noexcept override {
    try {
      std::lock_guard lock(mutex_);
      woken_ = true;
    } catch (const std::system_error&) {  // a std::mutex only fails when misused
    }
    done_ready_->notify_one();
  }

  std::uint64_t system_calls() const noexcept override { return system_calls_.load(std::memory_order_relaxed); }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_ready_->wait(lock, [this] { return stopping_ || !work_.empty(); });
      if (stopping_) return;
      const EngineRequest request = work_.pop();
      lock.unlock();
      system_calls_.fetch_add(1, std::memory_order_relaxed);
      const std::int64_t result = transfer(request);
      lock.lock();
      done_.push({request.tag, result});
      if (reaper_waits_) done_ready_->notify_one();
    }
  }

  EngineInfo info_;
  std::atomic<std::uint64_t> system_calls_{0};
  std::mutex mutex_;
  base::ProcessOwn<std::condition_variable> work_ready_, done_ready_;
  FixedQueue<EngineRequest> work_;  // guarded by mutex_, as is what follows
  FixedQueue<EngineResult> done_;
  unsigned in_flight_ = 0;  // submitted and not yet reaped
  bool woken_ = false, stopping_ = false, reaper_waits_ = false;
  base::ProcessOwn<std::vector<std::thread>> threads_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_threads_engine(const EngineOptions& options) {
  const unsigned depth = std::clamp(options.depth, 1u, 65536u);
  const unsigned threads = std::min({options.threads != 0 ? options.threads : usable_cpus(), depth, kMaxThreads});
  auto engine = std::make_unique<ThreadsEngine>(depth);
  HEADRACE_TRY(engine->start(threads));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace headrace::io

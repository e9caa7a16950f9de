#include "io/blocking_engine.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "os/page_buffer.h"

namespace headrace::io {
namespace {

constexpr unsigned kMaxThreads = 64;

// A fixed-capacity ring. The engine admits `depth` requests, so neither queue below can overflow.
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

class BlockingEngine final : public Engine {
 public:
  BlockingEngine(EngineInfo info, std::unique_ptr<BlockingCalls> calls)
      : info_(std::move(info)), calls_(std::move(calls)), work_(info_.depth), done_(info_.depth) {}

  ~BlockingEngine() override {
    if (threads_.inherited()) return;  // the threads do not exist in this process
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      while (!work_.empty()) calls_->release(work_.pop());
    }
    work_ready_->notify_all();
    for (std::thread& thread : *threads_) thread.join();
  }

  Status start(unsigned threads) {
    threads_->reserve(threads);
    for (unsigned i = 0; i < threads; ++i) {
      try {
        if (const auto fault = calls_->may_start_thread(); fault < 0) {
          throw std::system_error(static_cast<int>(-fault), std::generic_category());
        }
        threads_->emplace_back([this] { run(); });
      } catch (const std::system_error& error) {
        if (!threads_->empty()) break;  // continue with fewer threads: slower but correct
        return Status(Code::kResourceExhausted, Layer::kIo, "cannot start an I/O thread")
            .with_errno(error.code().value());
      }
    }
    info_.features += (info_.features.empty() ? "" : ", ") + std::to_string(threads_->size()) + " threads";
    return {};
  }

  const EngineInfo& info() const noexcept override { return info_; }
  Status register_buffers(std::span<const std::span<std::byte>> buffers) override {
    return calls_->register_buffers(buffers);
  }
  std::string registration() const override { return calls_->registration(); }

  Result<std::size_t> submit(std::span<const EngineRequest> requests) override {
    std::size_t taken;
    {
      std::lock_guard lock(mutex_);
      taken = std::min<std::size_t>(requests.size(), info_.depth - in_flight_);
      for (std::size_t i = 0; i < taken; ++i) {
        calls_->hold(requests[i]);
        work_.push(requests[i]);
      }
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
      // Bounded: a timeout near the clock's maximum would overflow inside the library.
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
      calls_->release(work_.at(i));
      work_.erase(i);
      done_.push({tag, -ECANCELED});
      return;
    }
  }

  void wake() noexcept override {
    try {
      std::lock_guard lock(mutex_);
      woken_ = true;
    } catch (const std::system_error&) {  // std::mutex fails only when misused
    }
    done_ready_->notify_one();
  }

  std::uint64_t system_calls() const noexcept override { return system_calls_.load(std::memory_order_relaxed); }

 private:
  void run() {
    calls_->begin_thread();
    std::unique_lock lock(mutex_);
    while (true) {
      work_ready_->wait(lock, [this] { return stopping_ || !work_.empty(); });
      if (stopping_) return;
      const EngineRequest request = work_.pop();
      lock.unlock();
      system_calls_.fetch_add(1, std::memory_order_relaxed);
      const std::int64_t result = calls_->transfer(request);
      calls_->release(request);
      lock.lock();
      done_.push({request.tag, result});
      if (reaper_waits_) done_ready_->notify_one();
    }
  }

  EngineInfo info_;
  const std::unique_ptr<BlockingCalls> calls_;
  std::atomic<std::uint64_t> system_calls_{0};
  std::mutex mutex_;
  base::ProcessOwn<std::condition_variable> work_ready_, done_ready_;
  FixedQueue<EngineRequest> work_;  // guarded by mutex_, as are the fields below
  FixedQueue<EngineResult> done_;
  unsigned in_flight_ = 0;  // submitted and not yet reaped
  bool woken_ = false, stopping_ = false, reaper_waits_ = false;
  base::ProcessOwn<std::vector<std::thread>> threads_;
};

}  // namespace

std::int64_t transfer_by_system_call(const EngineRequest& request) noexcept {
  const auto offset = static_cast<off_t>(request.offset_bytes);
  const ssize_t n = request.op == Op::kRead ? ::pread(request.fd, request.buffer, request.length_bytes, offset)
                                            : ::pwrite(request.fd, request.buffer, request.length_bytes, offset);
  return n < 0 ? -errno : n;
}

Result<std::unique_ptr<Engine>> make_blocking_engine(EngineInfo info, const EngineOptions& options,
                                                     std::unique_ptr<BlockingCalls> calls) {
  info.depth = std::clamp(options.depth, 1u, 65536u);
  info.registers_late = true;
  const unsigned threads =
      std::min({options.threads != 0 ? options.threads : os::usable_cpus(), info.depth, kMaxThreads});
  auto engine = std::make_unique<BlockingEngine>(std::move(info), std::move(calls));
  HEADRACE_TRY(engine->start(threads));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace headrace::io

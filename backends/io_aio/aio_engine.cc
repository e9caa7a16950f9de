// Engine over Linux native AIO (libaio).
//
// For kernels and containers that forbid io_uring. Only O_DIRECT descriptors are truly asynchronous; a buffered read
// happens inside io_submit. The kernel cannot cancel file I/O through this interface, so cancel() does nothing and the
// request completes with its result.
#include <libaio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <vector>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fork.h"
#include "io/engine.h"

namespace headrace::io {
namespace {

// Without IOCB_CMD_POLL (kernels before 4.18), reap() checks for a wake() at this interval.
constexpr std::chrono::nanoseconds kWakePoll = std::chrono::milliseconds(1);
constexpr unsigned kBatch = 128;
constexpr int kInterrupts = 64;  // interrupted waits that one reap() retries

class AioEngine final : public Engine {
 public:
  ~AioEngine() override {
    if (generation_ != base::fork_generation()) return;  // the context belongs to the parent
    // Waits for whatever is still in flight: afterwards the kernel writes into no buffer.
    if (context_ != nullptr) ::io_destroy(context_);
    if (wake_fd_ >= 0) ::close(wake_fd_);
  }

  Status open(unsigned depth) {
    // fs.aio-max-nr is shared by the whole machine; what is left of it may allow only a smaller depth.
    std::int64_t rc = -EINVAL;
    for (;; depth /= 2) {
      rc = HEADRACE_FAULT("io_aio.setup", 0);
      if (rc == 0) rc = ::io_setup(static_cast<int>(depth) + 1, &context_);
      if (rc == 0 || rc != -EAGAIN || depth <= 8) break;
    }
    if (rc != 0) {
      const bool forbidden = rc == -EPERM || rc == -EACCES;
      const Code code = forbidden ? Code::kPermission : rc == -ENOSYS ? Code::kUnsupported : Code::kResourceExhausted;
      return Status(code, Layer::kIo,
                    forbidden       ? "io_setup is forbidden here (seccomp?)"
                    : rc == -ENOSYS ? "this kernel or sandbox has no native AIO"
                                    : "io_setup failed (see fs.aio-max-nr)")
          .with_errno(static_cast<int>(-rc));
    }
    rc = HEADRACE_FAULT("io_aio.eventfd", 0);
    if (rc == 0) wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) {
      return Status(Code::kResourceExhausted, Layer::kIo, "cannot create an eventfd")
          .with_errno(rc < 0 ? static_cast<int>(-rc) : errno);
    }
    slots_.resize(depth);
    free_.reserve(depth);
    failed_.reserve(depth);
    spare_.reserve(depth);
    for (unsigned i = depth; i-- > 0;) free_.push_back(i);
    arm_wake();
    info_.name = "aio";
    info_.features = poll_works_ ? "poll" : "";
    info_.depth = depth;
    info_.registers_late = true;
    return {};
  }

  const EngineInfo& info() const noexcept override { return info_; }
  Status register_buffers(std::span<const std::span<std::byte>>) override { return {}; }

  Result<std::size_t> submit(std::span<const EngineRequest> requests) override {
    if (!broken_.ok()) return broken_;
    std::size_t taken = 0;
    while (taken < requests.size() && !free_.empty()) {
      iocb* batch[kBatch];
      const std::size_t n = std::min({requests.size() - taken, free_.size(), std::size_t{kBatch}});
      for (std::size_t i = 0; i < n; ++i) {
        const EngineRequest& request = requests[taken + i];
        const unsigned index = free_[free_.size() - 1 - i];
        Slot& slot = slots_[index];
        const auto offset = static_cast<long long>(request.offset_bytes);
        if (request.op == Op::kRead) {
          ::io_prep_pread(&slot.block, request.fd, request.buffer, request.length_bytes, offset);
        } else {
          ::io_prep_pwrite(&slot.block, request.fd, request.buffer, request.length_bytes, offset);
        }
        slot.tag = request.tag;
        slot.block.data = &slot;
        batch[i] = &slot.block;
      }
      std::int64_t rc = HEADRACE_FAULT("io_aio.submit", static_cast<std::int64_t>(n));
      if (rc > 0) {
        count_call();
        rc = ::io_submit(context_, static_cast<long>(rc), batch);
      }
      if (rc == -EINTR || rc == -EAGAIN || rc == 0) break;  // nothing was submitted: the caller retries
      if (rc < 0) {
        // The kernel refused the first request (a bad descriptor, say) and has not looked at the others.
        failed_.push_back({requests[taken].tag, rc});
        free_.pop_back();  // counts against the depth until reaped
        spare_.push_back(slot_index(batch[0]));
        ++taken;
        continue;
      }
      free_.resize(free_.size() - static_cast<std::size_t>(rc));
      taken += static_cast<std::size_t>(rc);
      // After a short count the next iteration learns why the rest was not taken.
    }
    return taken;
  }

  Result<std::size_t> reap(std::span<EngineResult> events, std::chrono::nanoseconds timeout) override {
    if (!broken_.ok()) return broken_;
    std::size_t stored = 0;
    while (stored < events.size() && !failed_.empty()) {
      events[stored++] = failed_.back();
      failed_.pop_back();
      free_.push_back(spare_.back());
      spare_.pop_back();
    }
    if (stored == events.size()) return stored;
    if (stored > 0) timeout = std::chrono::nanoseconds(0);
    if (!wake_armed_) arm_wake();
    const std::uint64_t start = base::now_ns();
    std::chrono::nanoseconds elapsed(0);
    int interrupted = 0;
    while (true) {
      // Without a poll on the eventfd, sleep in short steps.
      auto step = std::max(timeout - elapsed, std::chrono::nanoseconds(0));
      if (!wake_armed_) {
        if (woken_.exchange(false)) return stored;
        step = std::min(step, kWakePoll);
      }
      timespec ts{static_cast<time_t>(step.count() / 1'000'000'000), static_cast<long>(step.count() % 1'000'000'000)};
      io_event done[kBatch];
      const auto room = static_cast<long>(std::min<std::size_t>(events.size() - stored, kBatch));
      count_call();
      const std::int64_t rc = ::io_getevents(context_, 1, room, done, &ts);
      const std::int64_t verdict = HEADRACE_FAULT("io_aio.getevents", rc);
      if (verdict < 0 && verdict != -EINTR && verdict != -EAGAIN) {
        ::io_destroy(std::exchange(context_, nullptr));  // waits for what is in flight
        broken_ = Status(Code::kIo, Layer::kIo, "io_getevents failed").with_errno(static_cast<int>(-verdict));
        return broken_;
      }
      bool woken = false;
      for (std::int64_t i = 0; i < rc; ++i) {
        if (done[i].data == nullptr) {  // the poll on the eventfd
          woken = true;
          continue;
        }
        Slot& slot = *static_cast<Slot*>(done[i].data);
        // res is unsigned in libaio's struct but holds a negative errno.
        const auto result = HEADRACE_FAULT("io_aio.result", static_cast<std::int64_t>(done[i].res));
        events[stored++] = {slot.tag, result};
        free_.push_back(static_cast<unsigned>(&slot - slots_.data()));
      }
      if (woken) {
        drain_wake();
        arm_wake();
      }
      elapsed = std::chrono::nanoseconds(base::now_ns() - start);
      // EINTR also occurs without a signal to the program: task work of an io_uring in the same process counts as one.
      const bool again = rc == -EINTR && ++interrupted < kInterrupts;
      if (stored > 0 || woken || (rc < 0 && !again) || elapsed >= timeout) return stored;
    }
  }

  void cancel(std::uint64_t) override {}

  void wake() noexcept override {
    woken_ = true;
    count_call();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof one);
  }

  std::uint64_t system_calls() const noexcept override { return system_calls_.load(std::memory_order_relaxed); }

 private:
  void count_call() noexcept { system_calls_.fetch_add(1, std::memory_order_relaxed); }

  struct Slot {
    iocb block{};
    std::uint64_t tag = 0;
  };

  unsigned slot_index(const iocb* block) const {
    return static_cast<unsigned>(static_cast<const Slot*>(block->data) - slots_.data());
  }

  void arm_wake() {
    if (!poll_works_) return;
    wake_block_ = {};
    ::io_prep_poll(&wake_block_, wake_fd_, POLLIN);
    wake_block_.data = nullptr;
    iocb* batch[] = {&wake_block_};
    std::int64_t rc = HEADRACE_FAULT("io_aio.poll", 1);
    if (rc == 1) {
      count_call();
      rc = ::io_submit(context_, 1, batch);
    }
    wake_armed_ = rc == 1;
    // EAGAIN is transient; anything else means that this kernel has no poll.
    if (rc < 0 && rc != -EAGAIN && rc != -EINTR) poll_works_ = false;
  }

  void drain_wake() {
    wake_armed_ = false;
    woken_ = false;
    std::uint64_t count;
    [[maybe_unused]] const ssize_t n = ::read(wake_fd_, &count, sizeof count);
  }

  const std::uint64_t generation_ = base::fork_generation();
  std::atomic<std::uint64_t> system_calls_{0};
  EngineInfo info_;
  io_context_t context_ = nullptr;
  int wake_fd_ = -1;
  Status broken_;  // why nothing more can be submitted
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;
  std::vector<EngineResult> failed_;  // refused by io_submit, to be returned by reap()
  std::vector<unsigned> spare_;       // their slots
  std::atomic<bool> woken_{false};
  iocb wake_block_{};
  bool wake_armed_ = false, poll_works_ = true;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_aio_engine(const EngineOptions& options) {
  auto engine = std::make_unique<AioEngine>();
  HEADRACE_TRY(engine->open(std::clamp(options.depth, 1u, 4096u)));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace headrace::io

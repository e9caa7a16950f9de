// Engine over io_uring.
//
// One system call submits a batch and waits for its first completion; two are needed if something intervenes. Checking
// without waiting needs none, since the ring shows whether the kernel has completions. Features are detected by trying:
// a kernel, container or ulimit that refuses a feature costs that feature, and only one that refuses the ring itself
// costs the engine.
//
// Descriptors are not registered. A chunk's file is opened for one read, so registering it costs more than the
// reference count it saves, and a registration that outlives its descriptor would read another file's bytes.
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "base/fork.h"
#include "io/engine.h"

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_SETUP_TASKRUN_FLAG
#define IORING_SETUP_TASKRUN_FLAG (1U << 9)
#define IORING_SQ_TASKRUN (1U << 2)
#endif
#ifndef IORING_FEAT_RSRC_TAGS
#define IORING_FEAT_RSRC_TAGS (1U << 10)
#endif

namespace headrace::io {
namespace {

constexpr unsigned kMinDepth = 4;
constexpr std::size_t kMaxRegistered = std::size_t{1} << 30;  // the kernel's limit for one registered buffer
constexpr std::size_t kMaxRegisteredCount = 1024;             // UIO_MAXIOV: the limit of kernels before 5.13
constexpr int kSubmitTries = 16;

struct FeatureSet {
  unsigned flags;
  const char* name;
  bool one_thread;
};
// Best first. A single-issuer ring belongs to the thread that enables it, so it is created disabled: the engine is
// created on one thread and used on another. No other thread can see its completions or cancel its requests.
constexpr FeatureSet kFeatureSets[] = {
    {IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
         IORING_SETUP_SUBMIT_ALL,
     "single_issuer defer_taskrun", true},                                                                     // 6.1
    {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL, "coop_taskrun", false},  // 5.19
    {0, "", false},
};

// The outcome of register_buffers().
struct Registration {
  std::uint16_t wanted = 0, made = 0;  // buffers
  std::int32_t error = 0;              // errno if none was registered
};

class UringEngine final : public Engine {
 public:
  ~UringEngine() override {
    if (generation_ != base::fork_generation()) return;  // the ring and its requests belong to the parent
    if (ring_open_) {
      drain();
      ::io_uring_queue_exit(&ring_);
    }
    if (wake_fd_ >= 0) ::close(wake_fd_);
  }

  Status open(unsigned depth, bool one_thread) {
    HEADRACE_TRY(open_ring(depth, one_thread));
    std::int64_t rc = HEADRACE_FAULT("io_uring.eventfd", 0);
    if (rc == 0) wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) {
      return Status(Code::kResourceExhausted, Layer::kIo, "cannot create an eventfd")
          .with_errno(rc < 0 ? static_cast<int>(-rc) : errno);
    }
    tags_.resize(info_.depth);
    busy_.resize(info_.depth);
    free_.reserve(info_.depth);
    failed_.reserve(info_.depth);
    for (unsigned i = info_.depth; i-- > 0;) free_.push_back(i);
    info_.name = "io_uring";
    return {};
  }

  const EngineInfo& info() const noexcept override { return info_; }

  Status register_buffers(std::span<const std::span<std::byte>> buffers) override {
    if (!registered_.empty()) {
      ::io_uring_unregister_buffers(&ring_);
      registered_.clear();
    }
    std::vector<iovec> pieces;
    for (std::span<std::byte> buffer : buffers) {
      while (!buffer.empty() && pieces.size() < kMaxRegisteredCount) {
        const std::size_t n = std::min(buffer.size(), kMaxRegistered);
        pieces.push_back({buffer.data(), n});
        buffer = buffer.subspan(n);
      }
    }
    const std::size_t wanted = pieces.size();
    registered_.reserve(wanted);
    std::int64_t rc = -EINVAL;
    while (!pieces.empty()) {
      rc = HEADRACE_FAULT("io_uring.register_buffers", 0);
      if (rc == 0) rc = ::io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
      if (rc == 0) break;
      pieces.resize(rc == -ENOMEM ? pieces.size() / 2 : 0);  // RLIMIT_MEMLOCK: register fewer
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      registered_.push_back({static_cast<std::byte*>(pieces[i].iov_base), pieces[i].iov_len, static_cast<unsigned>(i)});
    }
    std::sort(registered_.begin(), registered_.end(),
              [](const Registered& a, const Registered& b) { return a.base < b.base; });
    registration_.store(Registration{.wanted = static_cast<std::uint16_t>(wanted),
                                     .made = static_cast<std::uint16_t>(pieces.size()),
                                     .error = pieces.empty() ? static_cast<std::int32_t>(-rc) : 0},
                        std::memory_order_relaxed);
    return {};
  }

  std::string registration() const override {
    const Registration now = registration_.load(std::memory_order_relaxed);
    if (now.wanted == 0) return {};
    if (now.made == now.wanted) return "registered_buffers";
    if (now.made != 0) {
      return "registered_buffers(" + std::to_string(now.made) + " of " + std::to_string(now.wanted) + ")";
    }
    if (now.error == ENOMEM) return "(buffers not registered: RLIMIT_MEMLOCK)";
    return "(buffers not registered: errno " + std::to_string(now.error) + ")";
  }

  Result<std::size_t> submit(std::span<const EngineRequest> requests) override { return start(requests, false); }
  Result<std::size_t> submit_before_reap(std::span<const EngineRequest> requests) override {
    return start(requests, true);
  }

  Result<std::size_t> start(std::span<const EngineRequest> requests, bool reap_follows) {
    HEADRACE_TRY(enable());
    arm_wake();
    const std::size_t room = std::min(requests.size(), free_.size());
    const std::int64_t fault = HEADRACE_FAULT("io_uring.submit", static_cast<std::int64_t>(room));
    const std::size_t offered = fault < 0 ? room : static_cast<std::size_t>(fault);
    std::size_t taken = 0;
    for (; taken < offered; ++taken) {
      io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
      if (sqe == nullptr) break;
      prepare(sqe, requests[taken]);
    }
    if (taken == 0) return std::size_t{0};
    if (reap_follows && fault >= 0) return taken;
    return taken - flush(fault < 0 ? fault : 0, taken);
  }

  Result<std::size_t> reap(std::span<EngineResult> events, std::chrono::nanoseconds timeout) override {
    HEADRACE_TRY(enable());
    std::size_t stored = 0;
    while (stored < events.size() && !failed_.empty()) {
      const auto [slot, error] = failed_.back();
      failed_.pop_back();
      events[stored++] = {tags_[slot], error};
      release(slot);
    }
    bool woken = false;
    stored += harvest(events.subspan(stored), woken);
    if (stored > 0 || woken || events.empty()) {
      if (::io_uring_sq_ready(&ring_) != 0) flush(0, 0);
      return stored;
    }
    std::int64_t rc = 0;
    if (timeout.count() <= 0) {
      if (::io_uring_sq_ready(&ring_) != 0) flush(0, 0);
      if (work_waits()) {
        count_call();
        rc = ::io_uring_get_events(&ring_);  // runs deferred completions without waiting
      }
    } else {
      arm_wake();
      if (!wake_armed_) timeout = std::min(timeout, std::chrono::nanoseconds(std::chrono::milliseconds(1)));
      __kernel_timespec ts{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
      io_uring_cqe* cqe = nullptr;
      count_call();
      rc = ::io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &ts, nullptr);
      if (::io_uring_sq_ready(&ring_) != 0) withdraw(rc < 0 ? rc : -EAGAIN, 0);
    }
    rc = HEADRACE_FAULT("io_uring.wait", rc);
    if (rc < 0 && rc != -ETIME && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) {
      drain();
      broken_ = Status(Code::kIo, Layer::kIo, "io_uring_enter failed").with_errno(static_cast<int>(-rc));
      return broken_;
    }
    return stored + harvest(events.subspan(stored), woken);
  }

  void cancel(std::uint64_t tag) override {
    if (!enabled_) return;  // nothing was submitted
    for (unsigned slot = 0; slot < tags_.size(); ++slot) {
      if (busy_[slot] == 0 || tags_[slot] != tag) continue;
      io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
      if (sqe == nullptr) return;
      ::io_uring_prep_cancel64(sqe, slot, 0);
      ::io_uring_sqe_set_data64(sqe, cancel_id());
      flush(0, 0);
      return;
    }
  }

  void wake() noexcept override {
    count_call();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof one);
  }

  std::uint64_t system_calls() const noexcept override { return system_calls_.load(std::memory_order_relaxed); }

 private:
  struct Registered {
    std::byte* base;
    std::size_t size;
    unsigned index;
  };
  struct Failed {
    unsigned slot;
    std::int64_t error;
  };

  // user_data is a request's slot, or one of these two.
  std::uint64_t wake_id() const { return info_.depth; }
  std::uint64_t cancel_id() const { return info_.depth + 1u; }

  Status open_ring(unsigned depth, bool one_thread) {
    std::int64_t rc = -EINVAL;
    for (const FeatureSet& set : kFeatureSets) {
      if (set.one_thread && !one_thread) continue;
      // Kernels before 5.12 charge rings to RLIMIT_MEMLOCK, which may be 64 KiB in a container.
      for (unsigned entries = depth;; entries /= 2) {
        io_uring_params params{};
        params.flags = set.flags | IORING_SETUP_CLAMP;
        rc = HEADRACE_FAULT("io_uring.setup", 0);
        if (rc == 0) rc = ::io_uring_queue_init_params(entries, &ring_, &params);
        if (rc == 0 && (params.features & IORING_FEAT_EXT_ARG) == 0) {
          ::io_uring_queue_exit(&ring_);
          return Status(Code::kUnsupported, Layer::kIo, "this kernel's io_uring is too old (before 5.11)");
        }
        if (rc == 0) {
          ring_open_ = true;
          enabled_ = (set.flags & IORING_SETUP_R_DISABLED) == 0;
          info_.features = set.name;
          if (entries < depth) info_.features += " (depth cut to " + std::to_string(entries) + " by RLIMIT_MEMLOCK)";
          info_.depth = entries;
          // Before 5.13 the kernel waits until nothing is in flight, and the poll for wake() always is.
          info_.registers_late = (params.features & IORING_FEAT_RSRC_TAGS) != 0;
          return {};
        }
        if (rc != -ENOMEM || entries <= kMinDepth) break;
      }
      if (rc != -EINVAL) break;  // try the next set only if a flag is unknown
    }
    const int error = static_cast<int>(-rc);
    if (error == EPERM || error == EACCES) {
      return Status(Code::kPermission, Layer::kIo,
                    "io_uring is forbidden here (a container's seccomp profile, or kernel.io_uring_disabled)")
          .with_errno(error);
    }
    if (error == ENOSYS) {
      return Status(Code::kUnsupported, Layer::kIo, "this kernel or sandbox has no io_uring").with_errno(error);
    }
    const bool memory = error == ENOMEM || error == EMFILE || error == ENFILE;
    return Status(memory ? Code::kResourceExhausted : Code::kUnsupported, Layer::kIo, "io_uring_setup failed")
        .with_errno(error);
  }

  // Makes the calling thread the ring's single issuer.
  Status enable() {
    if (enabled_) return broken_;
    std::int64_t rc = HEADRACE_FAULT("io_uring.enable", 0);
    // liburing 2.3 declares io_uring_enable_rings(), but libraries built from it lack the function.
    if (rc == 0 && ::syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) < 0)
      rc = -errno;
    if (rc < 0) return Status(Code::kIo, Layer::kIo, "cannot enable the ring").with_errno(static_cast<int>(-rc));
    enabled_ = true;
    return {};
  }

  void prepare(io_uring_sqe* sqe, const EngineRequest& request) {
    const unsigned slot = free_.back();
    free_.pop_back();
    tags_[slot] = request.tag;
    busy_[slot] = 1;
    const bool read = request.op == Op::kRead;
    if (const int index = registered_index(request); index >= 0) {
      ::io_uring_prep_rw(read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED, sqe, request.fd, request.buffer,
                         request.length_bytes, request.offset_bytes);
      sqe->buf_index = static_cast<std::uint16_t>(index);
    } else {
      ::io_uring_prep_rw(read ? IORING_OP_READ : IORING_OP_WRITE, sqe, request.fd, request.buffer, request.length_bytes,
                         request.offset_bytes);
    }
    ::io_uring_sqe_set_data64(sqe, slot);
  }

  int registered_index(const EngineRequest& request) const {
    auto after = std::upper_bound(registered_.begin(), registered_.end(), request.buffer,
                                  [](const std::byte* p, const Registered& r) { return p < r.base; });
    if (after == registered_.begin()) return -1;
    const Registered& r = *--after;
    const auto start = static_cast<std::size_t>(request.buffer - r.base);
    return start <= r.size && request.length_bytes <= r.size - start ? static_cast<int>(r.index) : -1;
  }

  void count_call() noexcept { system_calls_.fetch_add(1, std::memory_order_relaxed); }

  // Whether entering the kernel would yield completions that are not in the ring yet.
  bool work_waits() const {
    return (__atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  }

  // Submits the prepared entries. Returns how many of the last `own` requests were not taken; `fault`: an errno to
  // simulate.
  std::size_t flush(std::int64_t fault, std::size_t own) {
    std::int64_t rc = fault;
    for (int tries = 0; tries < kSubmitTries; ++tries) {
      if (fault == 0) {
        count_call();
        rc = ::io_uring_submit(&ring_);
      }
      if (::io_uring_sq_ready(&ring_) == 0) return 0;
      if (rc < 0 && rc != -EINTR) break;
    }
    return withdraw(rc < 0 ? rc : -EAGAIN, own);
  }

  // Removes the entries that the kernel did not take because of `error`, so that the ring never holds one whose caller
  // believes it refused. If the error is transient, entries among the last `own` requests, which the caller is just
  // submitting, are refused (returned: how many). All others end with an event.
  std::size_t withdraw(std::int64_t error, std::size_t own) {
    const bool later = error == -EAGAIN || error == -EBUSY || error == -EINTR || error == -ETIME;
    // Without SQPOLL the kernel reads the ring only inside io_uring_enter, so the tail can be moved back.
    io_uring_sq& sq = ring_.sq;
    const unsigned head = *sq.khead;
    std::size_t withdrawn = 0;
    for (unsigned tail = sq.sqe_tail; tail != head; --tail) {
      const std::uint64_t id = sq.sqes[(tail - 1) & sq.ring_mask].user_data;
      if (id == wake_id()) wake_armed_ = false;
      if (id >= info_.depth) continue;
      const auto slot = static_cast<unsigned>(id);
      if (later && withdrawn < own) {
        ++withdrawn;
        release(slot);
      } else {
        failed_.push_back({slot, later ? -EAGAIN : error});
      }
    }
    sq.sqe_head = sq.sqe_tail = head;
    io_uring_smp_store_release(sq.ktail, head);
    return withdrawn;
  }

  void release(unsigned slot) {
    busy_[slot] = 0;
    free_.push_back(slot);
  }

  void arm_wake() {
    if (wake_armed_) return;
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return;
    ::io_uring_prep_poll_add(sqe, wake_fd_, POLLIN);
    ::io_uring_sqe_set_data64(sqe, wake_id());
    wake_armed_ = true;
  }

  std::size_t harvest(std::span<EngineResult> events, bool& woken) {
    std::size_t stored = 0;
    unsigned head;
    unsigned seen = 0;
    io_uring_cqe* cqe;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      const std::uint64_t id = cqe->user_data;
      if (id < info_.depth && stored == events.size()) break;
      ++seen;
      if (id == wake_id()) {
        woken = true;
        wake_armed_ = false;
        std::uint64_t count;
        count_call();
        [[maybe_unused]] const ssize_t n = ::read(wake_fd_, &count, sizeof count);
      } else if (id < info_.depth && busy_[id] != 0) {
        const auto slot = static_cast<unsigned>(id);
        events[stored++] = {tags_[slot], HEADRACE_FAULT("io_uring.result", cqe->res)};
        release(slot);
      }
    }
    ::io_uring_cq_advance(&ring_, seen);
    return stored;
  }

  // Cancels what is in flight and waits for it, however long that takes: afterwards the kernel writes into no buffer.
  void drain() {
    if (!enabled_) return;
    for (unsigned slot = 0; slot < busy_.size(); ++slot) {
      if (busy_[slot] != 0) cancel(tags_[slot]);
    }
    EngineResult events[16];
    while (static_cast<std::size_t>(std::count(busy_.begin(), busy_.end(), 1)) > failed_.size()) {
      bool woken = false;
      if (harvest(events, woken) > 0) continue;
      io_uring_cqe* cqe = nullptr;
      const int rc = ::io_uring_wait_cqe(&ring_, &cqe);
      // Even a ring that cannot be entered still shows completions.
      if (rc < 0 && rc != -EINTR && rc != -EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const std::uint64_t generation_ = base::fork_generation();
  EngineInfo info_;
  io_uring ring_{};
  bool ring_open_ = false, enabled_ = false, wake_armed_ = false;
  int wake_fd_ = -1;
  std::atomic<std::uint64_t> system_calls_{0};
  Status broken_;                       // why nothing more can be submitted
  std::vector<std::uint64_t> tags_;     // by slot
  std::vector<std::uint8_t> busy_;      // by slot
  std::vector<unsigned> free_;          // slots
  std::vector<Failed> failed_;          // refused by the kernel, to be returned by reap()
  std::vector<Registered> registered_;  // sorted by base
  std::atomic<Registration> registration_{Registration()};
};

}  // namespace

Result<std::unique_ptr<Engine>> make_uring_engine(const EngineOptions& options) {
  auto engine = std::make_unique<UringEngine>();
  HEADRACE_TRY(engine->open(std::clamp(options.depth, kMinDepth, 4096u), options.one_thread));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace headrace::io

// Descriptors: limits how many files the library keeps open in this process, across all contexts.
//
// A process may have few descriptors (ulimit -n: often 1,024), the program needs some itself, and a read opens a file
// per chunk or shard. The library's share is half of the limit. When it is used up, the library first raises the
// limit as far as the process may, then closes idle files in least-recently-used order, and then makes callers wait
// until a file is closed.
//
// No wait is unbounded: a file in use is closed as soon as its bytes are read, and reading them needs no further
// descriptor. Files that cannot promise this (open until a device has copied from their mappings) take at most a
// quarter of the library's share; beyond that, reads use other paths.
//
// Threads: every call from any thread.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace headrace::os {

// Waits for a free descriptor. Called with other locks held, so the implementation must only set a flag.
class DescriptorWaiter {
 public:
  virtual void descriptor_closed() noexcept = 0;

 protected:
  ~DescriptorWaiter() = default;
};

// Keeps idle files open for reuse.
class DescriptorKeeper {
 public:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  virtual std::uint64_t oldest_ns() noexcept = 0;  // time of last use of its least recently used idle file, or kNothing
  virtual bool close_oldest() noexcept = 0;
  virtual bool in_kept_share() const noexcept { return false; }  // its files are counted by Descriptors::keep()

 protected:
  ~DescriptorKeeper() = default;
};

class Descriptors {
 public:
  static Descriptors& of_process();
  Descriptors() noexcept;

  // Whether one more may be opened. If not, use call_when_closed().
  bool room() noexcept;
  void opened() noexcept { open_.fetch_add(1); }
  void closed() noexcept;
  // A keeper's file became idle, and may be closed for those who wait.
  void idle() noexcept;
  // Call after open(2) failed with EMFILE or ENFILE although room() was true. Returns whether to retry after a while.
  // `limit_raises` is the value of limit_raises() before that open().
  bool refused(std::uint64_t limit_raises) noexcept;
  std::uint64_t limit_raises() const noexcept { return limit_raises_.load(); }  // times the limit was raised
  // Whether some files in use will be closed without their user needing another descriptor first.
  bool some_will_close() const noexcept { return open_.load() > held_.load(); }

  // Marks one open file as held: its user needs more descriptors before it closes this one. False: too many are held.
  bool hold() noexcept;
  void end_hold() noexcept;

  // Marks one open file as kept open for later, in use or idle, until end_keep(). At most half of the library's
  // share is kept. To stay within that, the limit is raised and kept files unused for `rest_ns` are closed. False:
  // the half is used up.
  bool keep(std::uint64_t rest_ns) noexcept;
  void end_keep() noexcept;

  // Calls the waiter once, when a file is closed, or at once if there is room. Throws std::bad_alloc.
  void call_when_closed(std::weak_ptr<DescriptorWaiter> waiter);

  void add(DescriptorKeeper& keeper);              // throws std::bad_alloc
  void remove(DescriptorKeeper& keeper) noexcept;  // no-op for a keeper that was never added

  std::uint64_t closings() const noexcept { return closings_.load(std::memory_order_relaxed); }  // so far
  std::int64_t open_now() const noexcept { return open_.load(std::memory_order_relaxed); }

 private:
  bool make_room() noexcept;
  bool close_one_kept() noexcept { return close_least_recent(DescriptorKeeper::kNothing, false); }
  bool close_least_recent(std::uint64_t before_ns, bool in_kept_share) noexcept;
  void raise_limit() noexcept;

  std::atomic<std::uint64_t> closings_{0}, limit_raises_{0};
  std::atomic<std::int64_t> open_{0}, held_{0}, kept_{0}, share_;
  std::atomic<bool> share_reduced_{false};  // share_ was reduced by refused()
  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_;
  bool limit_raised_ = false;                             // guarded by mutex_
  std::vector<DescriptorKeeper*> keepers_;                // guarded by mutex_
  std::mutex waiters_mutex_;                              // taken last
  std::vector<std::weak_ptr<DescriptorWaiter>> waiters_;  // guarded by waiters_mutex_
};

inline bool is_shortage(int error) noexcept { return error == EMFILE || error == ENFILE; }

// Returns what `open` returns, a descriptor or -errno. If descriptors have run out, it retries while others close some,
// and for a third of a second after the last close, since the caller itself may be the one to close something.
template <class Open>
int open_patiently(Open&& open) {
  constexpr int kTries = 300;
  Descriptors& all = Descriptors::of_process();
  std::uint64_t closings = all.closings();
  for (int tries = 0;; ++tries) {
    const std::uint64_t limit_raises = all.limit_raises();
    const int fd = open();
    if (!is_shortage(-fd) || !all.refused(limit_raises)) return fd;
    if (const std::uint64_t now = all.closings(); now != closings) {
      closings = now;
      tries = 0;
    }
    if (tries == kTries) return fd;
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace headrace::os

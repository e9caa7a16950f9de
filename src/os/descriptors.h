// Descriptors: how many files the library keeps open in this process, of all contexts together.
//
// A process may have few descriptors (ulimit -n: often 1,024), the program needs some itself, and a read opens a file
// for each chunk or shard. Half of the limit is the library's. When that is used up, the limit is raised as far as the
// process may; then what is kept for later is closed, longest unused first; then whoever wants one more waits until
// another is closed.
//
// Nobody waits for ever: what is in use is closed as soon as its bytes are read, by somebody who needs no further
// descriptor for it. What cannot promise that (files open until a device has copied from their mappings) holds at most
// a quarter of the library's share, and goes other ways where that is used up.
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

// Cannot go on before a descriptor is free. Called with locks of others held: it only takes note.
class DescriptorWaiter {
 public:
  virtual void descriptor_closed() noexcept = 0;

 protected:
  ~DescriptorWaiter() = default;
};

// Keeps files open that are not in use, because they may be used again.
class DescriptorKeeper {
 public:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  virtual std::uint64_t oldest_ns() noexcept = 0;  // when what it has not used for longest was used last, or kNothing
  virtual bool close_oldest() noexcept = 0;
  virtual bool in_kept_half() const noexcept { return false; }  // what it has open is there by Descriptors::keep()

 protected:
  ~DescriptorKeeper() = default;
};

class Descriptors {
 public:
  static Descriptors& of_process();
  Descriptors() noexcept;

  // Whether one more may be opened. Else call_when_closed().
  bool room() noexcept;
  void opened() noexcept { open_.fetch_add(1); }
  void closed() noexcept;
  // What a keeper has open is out of use, and may be closed for those who wait.
  void idle() noexcept;
  // open(2) has given EMFILE or ENFILE, which room() did not foresee. True: it may be tried again, after a while.
  // `raises`: of before it was called.
  bool refused(std::uint64_t raises) noexcept;
  std::uint64_t raises() const noexcept { return raises_.load(); }  // of the limit, so far
  // Whether some are in use that will be closed without anybody getting another one first.
  bool some_will_close() const noexcept { return open_.load() > held_.load(); }

  // One of those that are open is not closed before its user has got more of them. False: too many are.
  bool hold() noexcept;
  void end_hold() noexcept;

  // One of those that are open stays open for later, in use or not, until end_keep(). What is kept so is at most half
  // of the library's share, for which the limit is raised, and what of it was not used for `rest_ns` is closed. False:
  // else it would be more.
  bool keep(std::uint64_t rest_ns) noexcept;
  void end_keep() noexcept;

  // Once, as soon as one is closed; at once if there is room. Throws std::bad_alloc.
  void call_when_closed(std::weak_ptr<DescriptorWaiter> waiter);

  void add(DescriptorKeeper& keeper);              // throws std::bad_alloc
  void remove(DescriptorKeeper& keeper) noexcept;  // also of one that was never added

  std::uint64_t closings() const noexcept { return closings_.load(std::memory_order_relaxed); }  // so far
  std::int64_t open_now() const noexcept { return open_.load(std::memory_order_relaxed); }

 private:
  bool make_room() noexcept;
  bool close_one_kept() noexcept { return close_longest(DescriptorKeeper::kNothing, false); }
  bool close_longest(std::uint64_t before_ns, bool in_kept_half) noexcept;
  void raise_limit() noexcept;

  std::atomic<std::uint64_t> closings_{0}, raises_{0};
  std::atomic<std::int64_t> open_{0}, held_{0}, kept_{0}, share_;
  std::atomic<bool> lessened_{false};  // share_, by refused()
  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_;
  bool raised_ = false;                                   // guarded by mutex_
  std::vector<DescriptorKeeper*> keepers_;                // guarded by mutex_
  std::mutex waiters_mutex_;                              // taken last
  std::vector<std::weak_ptr<DescriptorWaiter>> waiters_;  // guarded by waiters_mutex_
};

inline bool is_shortage(int error) noexcept { return error == EMFILE || error == ENFILE; }

// What `open` gives, a descriptor or -errno; where there are none left it is called again as long as others close some,
// and for a third of a second after the last: the caller may be the one who should close something.
template <class Open>
int open_patiently(Open&& open) {
  constexpr int kTries = 300;
  Descriptors& all = Descriptors::of_process();
  std::uint64_t closings = all.closings();
  for (int tries = 0;; ++tries) {
    const std::uint64_t raises = all.raises();
    const int fd = open();
    if (!is_shortage(-fd) || !all.refused(raises)) return fd;
    if (const std::uint64_t now = all.closings(); now != closings) {
      closings = now;
      tries = 0;
    }
    if (tries == kTries) return fd;
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace headrace::os

// How objects behave when their process forks.
//
// Only the forking thread exists in the child. The threads, rings and drivers of an inherited object belong to the
// parent, and a lock may be held forever by a thread that does not exist. So such an object stores the fork generation
// it was created in. If that differs from the current one, its calls return kForked and its destructor
// only frees memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace headrace::base {

// Differs in the child of every fork(). Costs one atomic load.
std::uint64_t fork_generation() noexcept;

// A T that is destroyed only in the process that created it. In a forked child, destroying a joinable thread would
// terminate the program, and destroying a condition variable would wait for the parent's threads, so the T
// is leaked there.
template <class T>
class ProcessOwn {
 public:
  template <class... Arguments>
  explicit ProcessOwn(Arguments&&... arguments) : generation_(fork_generation()) {
    new (storage_) T(std::forward<Arguments>(arguments)...);
  }
  ProcessOwn(const ProcessOwn&) = delete;
  ProcessOwn& operator=(const ProcessOwn&) = delete;
  ~ProcessOwn() {
    if (!inherited()) (**this).~T();
  }
  // Whether this process is a forked child of the one that created the object.
  bool inherited() const noexcept { return generation_ != fork_generation(); }
  T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
  const T& operator*() const noexcept { return *std::launder(reinterpret_cast<const T*>(storage_)); }
  T* operator->() noexcept { return &**this; }
  const T* operator->() const noexcept { return &**this; }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
  const std::uint64_t generation_;
};

// A T per process, created at first use and never destroyed, for statics. A forked child gets its own, since the
// parent's may be locked or half modified.
template <class T>
class PerProcess {
 public:
  // Throws what T's constructor throws.
  T& get() {
    Made* found = made_.load(std::memory_order_acquire);
    while (found == nullptr || found->generation != fork_generation()) {
      auto made = std::make_unique<Made>();
      made->parents = found;
      if (made_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return made.release()->value;
    }
    return found->value;
  }

 private:
  struct Made {
    const std::uint64_t generation = fork_generation();
    T value;
    const Made* parents = nullptr;  // keeps it reachable, for leak checkers
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace headrace::base

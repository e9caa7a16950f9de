// What becomes of objects when their process forks.
//
// A child has no thread but the one that forked. Threads, rings and drivers behind an inherited object are the
// parent's, and a lock may be held for ever by a thread that is not there. So what has such things keeps the number
// that it was made under: where that is not the process's own, calls say kForked, and a destructor only frees memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace headrace::base {

// Changes in the child of every fork(); one atomic load.
std::uint64_t fork_generation() noexcept;

// A T that only the process that made it destroys. In a forked child the destructor of a joinable thread would end the
// program, and that of a condition variable would wait for the parent's threads: there the T is left as it is.
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
  // Whether this process is a child of the one that made it.
  bool inherited() const noexcept { return generation_ != fork_generation(); }
  T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
  const T& operator*() const noexcept { return *std::launder(reinterpret_cast<const T*>(storage_)); }
  T* operator->() noexcept { return &**this; }
  const T* operator->() const noexcept { return &**this; }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
  const std::uint64_t generation_;
};

// The T of this process, made at its first use and never destroyed. A forked child gets one of its own: its parent's
// may be locked, or half changed. For statics.
template <class T>
class PerProcess {
 public:
  // Throws what making a T throws.
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
    const Made* parents = nullptr;  // so that nothing looks leaked
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace headrace::base

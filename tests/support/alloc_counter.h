// AllocCounter counts allocations and can make the n-th one fail.
//
// Linked into a test executable (headrace_test(... LINK headrace_alloc_counter)), it replaces malloc and its relatives,
// which operator new also calls. Memory from mmap or from a CUDA driver is not counted.
//
// AddressSanitizer and ThreadSanitizer need malloc for themselves. With them, everything here does nothing and
// kAllocCounterWorks is false, so tests that need it skip.
//
// Threads: any. Counts exist per thread and per process; fail_at applies to all threads or to the calling thread only.
#pragma once

#include <cstdint>

namespace headrace::support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADRACE_ALLOC_COUNTER 0
#elif defined(__has_feature)
#define HEADRACE_ALLOC_COUNTER \
  (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && !__has_feature(memory_sanitizer))
#else
#define HEADRACE_ALLOC_COUNTER 1
#endif
inline constexpr bool kAllocCounterWorks = HEADRACE_ALLOC_COUNTER;

struct AllocCounts {
  std::uint64_t allocations = 0;  // calls of malloc, calloc, realloc, memalign..., including refused ones
  std::uint64_t frees = 0;        // of a non-null pointer
  std::uint64_t bytes = 0;        // requested
};

AllocCounts thread_allocs() noexcept;  // the calling thread's, since it started
// Blocks of the process that are allocated and not yet freed.
std::int64_t live_blocks() noexcept;

AllocCounts process_allocs() noexcept;  // all threads', since the program started

// Counts the allocations made in a scope.
class AllocScope {
 public:
  enum class Of : std::uint8_t { kThread, kProcess };
  explicit AllocScope(Of of = Of::kProcess) noexcept : of_(of), start_(now()) {}
  std::uint64_t allocations() const noexcept { return now().allocations - start_.allocations; }
  std::uint64_t bytes() const noexcept { return now().bytes - start_.bytes; }

 private:
  AllocCounts now() const noexcept { return of_ == Of::kThread ? thread_allocs() : process_allocs(); }
  Of of_;
  AllocCounts start_;
};

enum class AllocFailure : std::uint8_t {
  kOnce,     // only the n-th
  kForever,  // the n-th and all later ones
};

// Makes the n-th request from here, counted from 0, fail (null and ENOMEM; std::bad_alloc from operator new). Replaces
// an earlier plan. Call stop_failing() before using the test framework, which allocates too.
void fail_at(std::uint64_t n, AllocFailure how = AllocFailure::kOnce) noexcept;
void fail_at_in_this_thread(std::uint64_t n, AllocFailure how = AllocFailure::kOnce) noexcept;
// While one exists, its thread's requests are neither refused nor counted by the plan.
class AllocFailurePause {
 public:
  AllocFailurePause() noexcept;
  ~AllocFailurePause();
  AllocFailurePause(const AllocFailurePause&) = delete;
  AllocFailurePause& operator=(const AllocFailurePause&) = delete;
};
// Cancels the plan. Returns how many requests it refused.
std::uint64_t stop_failing() noexcept;

}  // namespace headrace::support

// AllocCounter: how many times memory was asked for, and the power to refuse the n-th request.
//
// Linked into a test executable (headrace_test(... LINK headrace_alloc_counter)), it takes the place of malloc and its
// relatives, which operator new calls too. Memory from mmap, and from a CUDA driver, is not seen.
//
// With AddressSanitizer or ThreadSanitizer, which need malloc for themselves, everything here does nothing and
// kAllocCounterWorks is false: such a test skips.
//
// Threads: counting is per thread and per process at once; fail_at concerns requests of every thread, or of the calling
// thread only.
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
  std::uint64_t allocations = 0;  // malloc, calloc, realloc, memalign..., refused ones included
  std::uint64_t frees = 0;        // of a non-null pointer
  std::uint64_t bytes = 0;        // asked for
};

AllocCounts thread_allocs() noexcept;  // of the calling thread, since it started
// Blocks of the process that were given out and not yet taken back.
std::int64_t live_blocks() noexcept;

AllocCounts process_allocs() noexcept;  // of all threads, since the program started

// Allocations made in a scope.
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
  kOnce,     // the n-th only
  kForever,  // the n-th and all after it
};

// The n-th request from now, counted from 0, gives null (ENOMEM; std::bad_alloc from operator new). Replaces an earlier
// plan. Disarm before the test framework is used again: it allocates as well.
void fail_at(std::uint64_t n, AllocFailure how = AllocFailure::kOnce) noexcept;
void fail_at_in_this_thread(std::uint64_t n, AllocFailure how = AllocFailure::kOnce) noexcept;
// While one lives, requests of its thread are neither refused nor numbered.
class AllocFailurePause {
 public:
  AllocFailurePause() noexcept;
  ~AllocFailurePause();
  AllocFailurePause(const AllocFailurePause&) = delete;
  AllocFailurePause& operator=(const AllocFailurePause&) = delete;
};
// Ends the plan; says how many requests were refused under it.
std::uint64_t stop_failing() noexcept;

}  // namespace headrace::support

#include "support/alloc_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

// glibc's own entry points. Unlike dlsym(RTLD_NEXT, "malloc"), they work before the first constructor has run and do
// not allocate.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);
}

namespace headrace::support {
namespace {

// A plan identifies its thread by the address of the thread's thread_local; 0: every thread.
constinit thread_local AllocCounts t_counts;
constinit thread_local int t_pauses = 0;
constinit std::atomic<std::uint64_t> g_allocations{0}, g_frees{0}, g_bytes{0};

constinit std::atomic<std::int64_t> g_live{0};

constinit std::atomic<bool> g_armed{false};
constinit std::atomic<std::uintptr_t> g_thread{0};
constinit std::atomic<std::uint64_t> g_seen{0}, g_refused{0}, g_nth{0};
constinit std::atomic<bool> g_forever{false};

std::uintptr_t this_thread() noexcept { return reinterpret_cast<std::uintptr_t>(&t_counts); }

void arm(std::uint64_t n, AllocFailure how, std::uintptr_t thread) noexcept {
  g_armed = false;
  g_thread = thread;
  g_nth = n;
  g_forever = how == AllocFailure::kForever;
  g_seen = 0;
  g_refused = 0;
  g_armed = kAllocCounterWorks;
}

// Counts a request; true if it must be refused.
[[maybe_unused]] bool note_request(std::size_t bytes) noexcept {
  ++t_counts.allocations;
  t_counts.bytes += bytes;
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  g_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!g_armed.load(std::memory_order_acquire) || t_pauses > 0) return false;
  const std::uintptr_t thread = g_thread.load(std::memory_order_relaxed);
  if (thread != 0 && thread != this_thread()) return false;
  const std::uint64_t index = g_seen.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t nth = g_nth.load(std::memory_order_relaxed);
  if (index != nth && !(index > nth && g_forever.load(std::memory_order_relaxed))) return false;
  g_refused.fetch_add(1, std::memory_order_relaxed);
  errno = ENOMEM;
  return true;
}

[[maybe_unused]] void* note_block(void* memory) noexcept {
  if (memory != nullptr) g_live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

[[maybe_unused]] void note_free() noexcept {
  g_live.fetch_sub(1, std::memory_order_relaxed);
  ++t_counts.frees;
  g_frees.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

AllocCounts thread_allocs() noexcept { return t_counts; }
std::int64_t live_blocks() noexcept { return g_live.load(std::memory_order_relaxed); }

AllocCounts process_allocs() noexcept {
  return {g_allocations.load(std::memory_order_relaxed), g_frees.load(std::memory_order_relaxed),
          g_bytes.load(std::memory_order_relaxed)};
}

void fail_at(std::uint64_t n, AllocFailure how) noexcept { arm(n, how, 0); }
void fail_at_in_this_thread(std::uint64_t n, AllocFailure how) noexcept { arm(n, how, this_thread()); }

AllocFailurePause::AllocFailurePause() noexcept { ++t_pauses; }
AllocFailurePause::~AllocFailurePause() { --t_pauses; }

std::uint64_t stop_failing() noexcept {
  g_armed = false;
  return g_refused.load(std::memory_order_relaxed);
}

}  // namespace headrace::support

#if HEADRACE_ALLOC_COUNTER
#define HEADRACE_REPLACES extern "C" __attribute__((visibility("default")))

HEADRACE_REPLACES void* malloc(std::size_t bytes) {
  return headrace::support::note_request(bytes) ? nullptr : headrace::support::note_block(__libc_malloc(bytes));
}
HEADRACE_REPLACES void* calloc(std::size_t count, std::size_t bytes) {
  return headrace::support::note_request(count * bytes) ? nullptr
                                                        : headrace::support::note_block(__libc_calloc(count, bytes));
}
HEADRACE_REPLACES void* realloc(void* memory, std::size_t bytes) {
  if (headrace::support::note_request(bytes)) return nullptr;
  void* moved = __libc_realloc(memory, bytes);
  if (memory == nullptr) return headrace::support::note_block(moved);
  if (bytes == 0) headrace::support::note_free();
  return moved;
}
HEADRACE_REPLACES void* memalign(std::size_t alignment, std::size_t bytes) {
  return headrace::support::note_request(bytes) ? nullptr
                                                : headrace::support::note_block(__libc_memalign(alignment, bytes));
}
HEADRACE_REPLACES void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
HEADRACE_REPLACES int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int saved = errno;  // POSIX: free() leaves errno alone
  void* memory = memalign(alignment, bytes);
  errno = saved;
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
HEADRACE_REPLACES void free(void* memory) {
  if (memory == nullptr) return;
  headrace::support::note_free();
  __libc_free(memory);
}
#endif

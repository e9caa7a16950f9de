// Runs device code on the CPU, so that its logic can be tested and fuzzed without a GPU.
//
// It runs one thread block, or one cluster of blocks, at a time. Threads are coroutines that run until they reach a
// warp operation or barrier. The last lane of the mask to arrive executes a warp operation, and only if every lane of
// the mask arrived at the same operation with the same mask. Anything else is reported at once as a deadlock; a GPU may
// or may not hang there. Each lane pays one stack switch, a few nanoseconds, per operation. The caller provides shared
// memory. Declare the test or fuzz target with DEVICE_CODE (tools/cmake).
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define HEADRACE_ASAN_FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEADRACE_ASAN_FIBERS 1
#endif
#endif
#ifdef HEADRACE_ASAN_FIBERS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define __device__
#define __noinline__
#define __global__
#define __host__
#define __forceinline__ inline

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace headrace::testing::gpu {

struct Dim {
  unsigned x = 0, y = 0, z = 0;
};
inline Dim thread_index, block_index, block_size, grid_size;

// The scheduler itself is excluded from sanitizers and from fuzzer coverage, which would take most of the time. It
// touches only its own memory.
#if defined(__clang__)
#define HEADRACE_UNWATCHED __attribute__((no_sanitize("address", "undefined", "coverage")))
#elif defined(HEADRACE_ASAN_FIBERS)
#define HEADRACE_UNWATCHED __attribute__((no_sanitize("address", "undefined")))
#else
#define HEADRACE_UNWATCHED
#endif

// Saved stack pointer of a suspended coroutine.
class Fiber {
 public:
  // The next switch to this fiber calls entry, which must not return, on the stack that ends at `top`.
  HEADRACE_UNWATCHED void prepare(char* top, [[maybe_unused]] std::size_t bytes, void (*entry)()) {
#if defined(__x86_64__)
    auto* words = reinterpret_cast<std::uintptr_t*>(top) - 8;  // six registers, the address, alignment as after a call
    for (int i = 0; i < 8; ++i) words[i] = 0;
    words[6] = reinterpret_cast<std::uintptr_t>(entry);
    stack_pointer_ = words;
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = top - bytes;
    context_.uc_stack.ss_size = bytes;
    makecontext(&context_, entry, 0);
#endif
  }
  // Suspends `from` and resumes `to`. Returns when something switches back to `from`.
  HEADRACE_UNWATCHED static void switch_stack(Fiber& from, Fiber& to) {
#if defined(__x86_64__)
    swap(&from.stack_pointer_, to.stack_pointer_);
#else
    swapcontext(&from.context_, &to.context_);
#endif
  }
  // Prefetches what a switch to this fiber touches.
  HEADRACE_UNWATCHED void fetch() const {
#if defined(__x86_64__)
    for (int line = 0; line < 2; ++line) __builtin_prefetch(static_cast<const char*>(stack_pointer_) + 64 * line, 1);
#endif
  }

 private:
#if defined(__x86_64__)
  [[gnu::naked, gnu::noinline]] HEADRACE_UNWATCHED static void swap(void** /*save: rdi*/, void* /*load: rsi*/) {
    asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
  }
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_{};
#endif
};

// The stacks of a block's lanes, with an inaccessible guard below each one. Sanitizers see them as one stack: they are
// notified when a block begins and ends, not of every switch.
class Stacks {
 public:
  static constexpr std::size_t kBytes = 64 << 10;

  explicit Stacks(unsigned count) : bytes_(count * kEach) {
    void* const map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) std::abort();
    bottom_ = static_cast<char*>(map);
    for (unsigned i = 0; i < count; ++i) {
      if (mprotect(bottom_ + i * kEach, kGuard, PROT_NONE) != 0) std::abort();
    }
  }
  ~Stacks() { munmap(bottom_, bytes_); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // The tops have different page offsets; otherwise the frames of all lanes would share the same few cache sets.
  HEADRACE_UNWATCHED char* top(unsigned i) const { return bottom_ + (i + 1) * kEach - i * 320 % 4096; }
  HEADRACE_UNWATCHED const char* bottom() const { return bottom_; }
  HEADRACE_UNWATCHED std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kGuard = 64 << 10, kEach = kGuard + 2 * kBytes;  // multiples of every page size
  std::size_t bytes_;
  char* bottom_ = nullptr;
};

enum class WarpOp : std::uint8_t { kSync, kShuffle, kBallot, kOr, kMin, kMax, kAdd, kMatch };

// A block, or a cluster of blocks that consist of whole warps.
class Block {
 public:
  explicit Block(unsigned threads, unsigned cluster = 1)
      : count_(threads * cluster),
        block_threads_(threads),
        stacks_(count_),
        lanes_(new Lane[count_]),
        warps_(new Warp[(count_ + 31) / 32]),
        barriers_(new Barrier[cluster]) {
    if (cluster > 1 && threads % 32 != 0) fail("a cluster of blocks that are not of whole warps");
    for (unsigned i = 0; i < count_; ++i) {
      lanes_[i].thread = static_cast<std::uint16_t>(i % threads);
      lanes_[i].block = static_cast<std::uint16_t>(i / threads);
    }
  }
  ~Block() {
    delete[] lanes_;
    delete[] warps_;
    delete[] barriers_;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  HEADRACE_UNWATCHED void run(const std::function<void()>& body) {
    current_ = this;
    body_ = &body;
    for (unsigned i = 0; i < count_; ++i) lanes_[i].fiber.prepare(stacks_.top(i), Stacks::kBytes, &Block::enter);
    ready(0, count_);
    for (unsigned i = 0; i < count_ / block_threads_; ++i) barriers_[i] = {};
    at_cluster_barrier_ = done_ = 0;
    first_block_ = block_index.x;
    become(0);
#ifdef HEADRACE_ASAN_FIBERS
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, stacks_.bottom(), stacks_.bytes());
#endif
    Fiber::switch_stack(main_, lanes_[0].fiber);
#ifdef HEADRACE_ASAN_FIBERS
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }

  // Returns how many lanes voted for it.
  HEADRACE_UNWATCHED unsigned meet_block(bool vote = false) {
    const unsigned block = lanes_[running_].block;
    Barrier& barrier = barriers_[block];
    barrier.votes += vote ? 1 : 0;
    if (++barrier.lanes == block_threads_) {
      ready(block * block_threads_, block_threads_);
      barrier = {0, 0, barrier.votes};
    } else {
      sleep();
    }
    return barrier.outcome;  // valid until every lane has met again
  }
  HEADRACE_UNWATCHED void meet_cluster() {
    if (++at_cluster_barrier_ == count_) {
      at_cluster_barrier_ = 0;
      ready(0, count_);
    } else {
      sleep();
    }
  }
  HEADRACE_UNWATCHED unsigned rank() const { return lanes_[running_].block; }
  HEADRACE_UNWATCHED unsigned blocks() const { return count_ / block_threads_; }
  // Returns the operation's result for this lane. `argument` is the source lane of a shuffle.
  HEADRACE_UNWATCHED std::uint32_t meet_warp(std::uint32_t mask, WarpOp op, std::uint32_t value,
                                             std::uint32_t argument) {
    const unsigned self = running_, bit = 1u << self % 32;
    Warp& warp = warps_[self / 32];
    Lane* const lanes = &lanes_[self / 32 * 32];
    Lane& own = lanes_[self];
    own.mask = mask;
    own.op = op;
    own.value = value;
    own.argument = argument;
    if ((mask & bit) == 0) fail("a lane outside its own mask");
    warp.ready &= ~bit;
    warp.waiting |= bit;
    bool all = (warp.waiting & mask) == mask;
    for (std::uint32_t rest = mask; all && rest != 0; rest &= rest - 1) {
      const Lane& lane = lanes[__builtin_ctz(rest)];
      all = lane.mask == mask && lane.op == op;
    }
    if (all) {
      complete(lanes, mask, op);
      warp.waiting &= ~mask;
      warp.ready |= mask;
    } else {
      leave();
    }
    return own.result;
  }
  HEADRACE_UNWATCHED static Block& current() { return *current_; }

 private:
  struct Lane {
    Fiber fiber;
    // Stored, because a division costs more than what lanes mostly do between two switches.
    std::uint16_t thread = 0, block = 0;
    WarpOp op = WarpOp::kSync;
    std::uint32_t mask = 0, value = 0, argument = 0, result = 0;
  };
  struct Barrier {
    unsigned lanes = 0, votes = 0, outcome = 0;
  };
  struct Warp {
    std::uint32_t ready = 0, waiting = 0;  // bit masks of lanes: runnable, and waiting in a warp operation
  };

  HEADRACE_UNWATCHED static void enter() {
    Block* const block = current_;
#ifdef HEADRACE_ASAN_FIBERS
    if (block->running_ == 0) __sanitizer_finish_switch_fiber(nullptr, &block->main_bottom_, &block->main_bytes_);
#endif
    (*block->body_)();
    block->warps_[block->running_ / 32].ready &= ~(1u << block->running_ % 32);
    ++block->done_;
    block->leave();
    std::abort();  // a finished lane is never resumed
  }
  HEADRACE_UNWATCHED void ready(unsigned first, unsigned lanes) {
    for (unsigned w = 0; w < lanes / 32; ++w) warps_[first / 32 + w] = {~0u, 0};
    if (lanes % 32 != 0) warps_[(first + lanes) / 32] = {(1u << lanes % 32) - 1, 0};
  }
  HEADRACE_UNWATCHED void become(unsigned lane) {
    running_ = lane;
    thread_index.x = lanes_[lane].thread;
    block_index.x = first_block_ + lanes_[lane].block;
  }
  // Suspends this lane until what it waits for makes it ready.
  HEADRACE_UNWATCHED void sleep() {
    warps_[running_ / 32].ready &= ~(1u << running_ % 32);
    leave();
  }
  // Runs the next ready lane, until this lane is ready and resumed.
  HEADRACE_UNWATCHED void leave() {
    const unsigned self = running_, own = self / 32, warps = (count_ + 31) / 32;
    const std::uint32_t below = (1u << self % 32) - 1;
    std::uint32_t ready = warps_[own].ready & ~below;
    unsigned w = own;
    for (unsigned i = 1; ready == 0 && i < warps; ++i) {
      w = own + i < warps ? own + i : own + i - warps;
      ready = warps_[w].ready;
    }
    if (ready == 0) {
      w = own;
      ready = warps_[own].ready & below;
    }
    if (ready != 0) {
      const unsigned next = w * 32 + static_cast<unsigned>(__builtin_ctz(ready));
      become(next);
      // Lanes mostly run in turn. The stacks of a large block exceed the cache, and each is on a page of its own.
      if (count_ > 128) lanes_[next + 2 < count_ ? next + 2 : 0].fiber.fetch();
      Fiber::switch_stack(lanes_[self].fiber, lanes_[next].fiber);
      return;
    }
    if (done_ != count_) fail("a warp or block did not meet as a whole");
#ifdef HEADRACE_ASAN_FIBERS
    __sanitizer_start_switch_fiber(nullptr, main_bottom_, main_bytes_);
#endif
    Fiber::switch_stack(lanes_[self].fiber, main_);
  }
  HEADRACE_UNWATCHED static void complete(Lane* lanes, std::uint32_t mask, WarpOp op) {
    std::uint32_t folded = op == WarpOp::kMin ? ~0u : 0;
    if (op == WarpOp::kSync) return;
    if (op == WarpOp::kShuffle) {
      for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        Lane& lane = lanes[__builtin_ctz(rest)];
        if ((mask >> (lane.argument & 31) & 1) == 0) fail("a shuffle from a lane outside its mask");
        lane.result = lanes[lane.argument & 31].value;
      }
      return;
    }
    if (op == WarpOp::kMatch) {
      for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        Lane& lane = lanes[__builtin_ctz(rest)];
        lane.result = 0;
        for (std::uint32_t all = mask; all != 0; all &= all - 1) {
          if (lanes[__builtin_ctz(all)].value == lane.value) lane.result |= all & -all;
        }
      }
      return;
    }
    if (op == WarpOp::kBallot) {
      for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        if (lanes[__builtin_ctz(rest)].value != 0) folded |= rest & -rest;
      }
      for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) lanes[__builtin_ctz(rest)].result = folded;
      return;
    }
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const std::uint32_t value = lanes[__builtin_ctz(rest)].value;
      if (op == WarpOp::kOr) folded |= value;
      if (op == WarpOp::kMin && value < folded) folded = value;
      if (op == WarpOp::kMax && value > folded) folded = value;
      if (op == WarpOp::kAdd) folded += value;
    }
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) lanes[__builtin_ctz(rest)].result = folded;
  }
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "device code on the CPU: %s\n", what);
    std::abort();
  }

  inline static Block* current_ = nullptr;
  const unsigned count_, block_threads_;
  Stacks stacks_;
  Lane* const lanes_;
  Warp* const warps_;
  Barrier* const barriers_;
  Fiber main_;
  const void* main_bottom_ = nullptr;
  std::size_t main_bytes_ = 0;
  const std::function<void()>* body_ = nullptr;
  unsigned running_ = 0;
  unsigned at_cluster_barrier_ = 0, done_ = 0, first_block_ = 0;
};

inline void launch(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  static std::map<unsigned, std::unique_ptr<Block>> by_size;
  std::unique_ptr<Block>& block = by_size[threads];
  if (block == nullptr) block = std::make_unique<Block>(threads);
  grid_size.x = blocks;
  block_size.x = threads;
  for (unsigned b = 0; b < blocks; ++b) {
    block_index.x = b;
    block->run(body);
  }
}

// Shared memory of the blocks of a cluster, contiguous.
struct ClusterMemory {
  char* begin = nullptr;
  std::size_t stride = 0;
};
inline ClusterMemory cluster_memory;

// Runs clusters one after the other. `body` receives the shared memory of its block.
template <class Shared>
void launch_clusters(unsigned clusters, unsigned cluster, unsigned threads, Shared* memory,
                     const std::function<void(Shared&)>& body) {
  static std::map<std::pair<unsigned, unsigned>, std::unique_ptr<Block>> by_size;
  std::unique_ptr<Block>& blocks = by_size[{threads, cluster}];
  if (blocks == nullptr) blocks = std::make_unique<Block>(threads, cluster);
  grid_size.x = clusters * cluster;
  block_size.x = threads;
  cluster_memory = {reinterpret_cast<char*>(memory), sizeof(Shared)};
  for (unsigned i = 0; i < clusters; ++i) {
    block_index.x = i * cluster;
    blocks->run([&] { body(memory[Block::current().rank()]); });
  }
}

inline std::uint32_t meet(std::uint32_t mask, WarpOp op, std::uint32_t value = 0, std::uint32_t argument = 0) {
  return Block::current().meet_warp(mask, op, value, argument);
}

}  // namespace headrace::testing::gpu

namespace headrace::codec::gpu::cluster {

inline void sync() { testing::gpu::Block::current().meet_cluster(); }
inline std::uint32_t rank() { return testing::gpu::Block::current().rank(); }
inline std::uint32_t blocks() { return testing::gpu::Block::current().blocks(); }
template <class T>
T* of_block(T* at, std::uint32_t rank) {
  const testing::gpu::ClusterMemory& memory = testing::gpu::cluster_memory;
  const auto within = static_cast<std::size_t>(reinterpret_cast<char*>(at) - memory.begin) % memory.stride;
  return reinterpret_cast<T*>(memory.begin + rank * memory.stride + within);
}

}  // namespace headrace::codec::gpu::cluster

#define threadIdx ::headrace::testing::gpu::thread_index
#define blockIdx ::headrace::testing::gpu::block_index
#define blockDim ::headrace::testing::gpu::block_size
#define gridDim ::headrace::testing::gpu::grid_size

inline void __syncthreads() { headrace::testing::gpu::Block::current().meet_block(); }
inline void __syncwarp(unsigned mask = ~0u) {
  headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kSync);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) {}
template <class T>
inline T __ldcg(const T* at) {
  return *at;
}
// For 32-bit types; the source lane is taken modulo the warp width.
template <class T>
inline T __shfl_sync(unsigned mask, T value, unsigned lane) {
  static_assert(sizeof(T) == 4);
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kShuffle, bits, lane & 31);
  std::memcpy(&value, &bits, 4);
  return value;
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  const unsigned lane = threadIdx.x % 32;
  return __shfl_sync(mask, value, lane + delta < 32 ? lane + delta : lane);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  const unsigned lane = threadIdx.x % 32;
  return __shfl_sync(mask, value, lane >= delta ? lane - delta : lane);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, unsigned bits) {
  return __shfl_sync(mask, value, (threadIdx.x % 32) ^ bits);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  return headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kBallot, vote ? 1 : 0);
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == mask; }
inline unsigned __match_any_sync(unsigned mask, unsigned value) {
  return headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kMatch, value);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kOr, value);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kMin, value);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kMax, value);
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kAdd, value);
}

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(unsigned v) { return __builtin_ffs(static_cast<int>(v)); }
inline int __clz(unsigned v) { return v == 0 ? 32 : __builtin_clz(v); }
inline int __clzll(unsigned long long v) { return v == 0 ? 64 : __builtin_clzll(v); }
inline unsigned __brev(unsigned v) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= (v >> i & 1) << (31 - i);
  return out;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t both = (static_cast<std::uint64_t>(b) << 32) | a;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i)
    out |= static_cast<unsigned>((both >> (8 * ((selector >> (4 * i)) & 7))) & 0xff) << (8 * i);
  return out;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<std::uint64_t>(high) << 32) | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((((static_cast<std::uint64_t>(high) << 32) | low) << (shift & 31)) >> 32);
}
inline int __dp4a(int a, int b, int c) {
  for (unsigned k = 0; k < 32; k += 8) {
    c += static_cast<signed char>(static_cast<unsigned>(a) >> k) *
         static_cast<signed char>(static_cast<unsigned>(b) >> k);
  }
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (unsigned k = 0; k < 32; k += 8) c += (a >> k & 0xFF) * (b >> k & 0xFF);
  return c;
}
inline float __fdividef(float x, float y) { return x / y; }
template <class T>
inline T __ldg(const T* at) {
  return *at;
}

// A plain operation is atomic, since only one thread runs at a time.
template <class T, class U>
inline T atomicAdd(T* at, U value) {
  const T old = *at;
  *at = static_cast<T>(old + static_cast<T>(value));
  return old;
}
template <class T, class U>
inline T atomicMin(T* at, U value) {
  const T old = *at;
  if (static_cast<T>(value) < old) *at = static_cast<T>(value);
  return old;
}
template <class T, class U>
inline T atomicMax(T* at, U value) {
  const T old = *at;
  if (static_cast<T>(value) > old) *at = static_cast<T>(value);
  return old;
}
template <class T, class U>
inline T atomicOr(T* at, U value) {
  const T old = *at;
  *at = old | static_cast<T>(value);
  return old;
}
template <class T, class U>
inline T atomicXor(T* at, U value) {
  const T old = *at;
  *at = old ^ static_cast<T>(value);
  return old;
}
template <class T, class U>
inline T atomicExch(T* at, U value) {
  const T old = *at;
  *at = static_cast<T>(value);
  return old;
}
template <class T, class U>
inline T atomicCAS(T* at, U expected, U value) {
  const T old = *at;
  if (old == static_cast<T>(expected)) *at = static_cast<T>(value);
  return old;
}

inline int __syncthreads_count(int vote) {
  return static_cast<int>(headrace::testing::gpu::Block::current().meet_block(vote != 0));
}
inline int __syncthreads_or(int vote) { return __syncthreads_count(vote) != 0 ? 1 : 0; }

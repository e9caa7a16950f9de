// Runs device code on the CPU, so that its logic is tested and fuzzed where there is no GPU.
//
// One thread block at a time; its threads are coroutines that run until they meet at a warp operation or barrier. A
// warp operation is done by the last lane of its mask to arrive, and only if all of the mask's lanes arrive at the same
// kind with the same mask: anything else deadlocks here at once (reported), where a GPU may or may not.
// Cost: a switch of stacks, a few nanoseconds, for each lane and meeting. Shared memory is the caller's.
// Declare the test or fuzz target with DEVICE_CODE (tools/cmake).
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

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

// A stack that runs when it is switched to.
class Fiber {
 public:
  Fiber() = default;
  explicit Fiber(std::size_t stack_bytes) : stack_(std::make_unique<char[]>(stack_bytes)), stack_bytes_(stack_bytes) {}

  // The next switch to it calls entry, which must not return and tells a sanitizer first that it has arrived.
  void prepare(void (*entry)()) {
    fake_stack_ = nullptr;
#ifdef HEADRACE_ASAN_FIBERS
    // The frames of its last run were left, not returned from.
    __asan_unpoison_memory_region(stack_.get(), stack_bytes_);
#endif
#if defined(__x86_64__)
    auto top = reinterpret_cast<std::uintptr_t>(stack_.get() + stack_bytes_) & ~std::uintptr_t{15};
    auto* words = reinterpret_cast<std::uintptr_t*>(top) - 8;  // six registers, the address, alignment as after a call
    for (int i = 0; i < 8; ++i) words[i] = 0;
    words[6] = reinterpret_cast<std::uintptr_t>(entry);
    stack_pointer_ = words;
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = stack_bytes_;
    makecontext(&context_, entry, 0);
#endif
  }
  // Leaves `from` for `to`; returns when somebody switches back. `last`: nobody will.
  static void switch_stack(Fiber& from, Fiber& to, bool last = false) {
#ifdef HEADRACE_ASAN_FIBERS
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack_, to.bottom(), to.stack_bytes_);
#endif
#if defined(__x86_64__)
    swap(&from.stack_pointer_, to.stack_pointer_);
#else
    swapcontext(&from.context_, &to.context_);
#endif
#ifdef HEADRACE_ASAN_FIBERS
    __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
    (void)last;
  }
  // A thread's own stack, which must be known before it is switched to.
  void set_own_stack(const void* bottom, std::size_t bytes) {
    own_bottom_ = bottom;
    stack_bytes_ = bytes;
  }

 private:
  const void* bottom() const { return stack_ ? stack_.get() : own_bottom_; }
#if defined(__x86_64__)
  [[gnu::naked, gnu::noinline]] static void swap(void** /*save: rdi*/, void* /*load: rsi*/) {
    asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
  }
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_{};
#endif
  std::unique_ptr<char[]> stack_;
  std::size_t stack_bytes_ = 0;
  const void* own_bottom_ = nullptr;
  void* fake_stack_ = nullptr;
};

enum class WarpOp : std::uint8_t { kSync, kShuffle, kBallot, kOr, kMin, kMax, kAdd, kMatch };

class Block {
 public:
  explicit Block(unsigned threads) : lanes_(threads) {
    for (Lane& lane : lanes_) lane.fiber = Fiber(kStack);
  }

  void run(const std::function<void()>& body) {
    current() = this;
    body_ = &body;
    for (Lane& lane : lanes_) {
      lane.fiber.prepare(&Block::enter);
      lane.state = State::kReady;
    }
    at_barrier_ = done_ = 0;
    become(0);
    Fiber::switch_stack(main_, lanes_[0].fiber);
  }

  void meet_block() {
    lanes_[running_].state = State::kAtBarrier;
    if (++at_barrier_ == lanes_.size()) {
      at_barrier_ = 0;
      for (Lane& lane : lanes_) lane.state = State::kReady;
      return;
    }
    leave();
  }
  // What the operation gives to this lane. `argument` is the lane asked by a shuffle.
  std::uint32_t meet_warp(std::uint32_t mask, WarpOp op, std::uint32_t value = 0, std::uint32_t argument = 0) {
    const unsigned self = running_, first = self / 32 * 32;
    Lane& own = lanes_[self];
    own.mask = mask;
    own.op = op;
    own.value = value;
    own.argument = argument;
    own.state = State::kInWarp;
    if ((mask >> (self - first) & 1) == 0) fail("a lane outside its own mask");
    bool all = true;
    for (unsigned i = 0; i < 32 && all; ++i) {
      if ((mask >> i & 1) == 0) continue;
      all = first + i < lanes_.size() && lanes_[first + i].state == State::kInWarp && lanes_[first + i].mask == mask &&
            lanes_[first + i].op == op;
    }
    if (all) {
      complete(first, mask, op);
    } else {
      leave();
    }
    return own.result;
  }
  static Block*& current() {
    static Block* block = nullptr;
    return block;
  }

 private:
  static constexpr std::size_t kStack = 64 << 10;
  enum class State : std::uint8_t { kReady, kInWarp, kAtBarrier, kDone };
  struct Lane {
    Fiber fiber;
    State state = State::kReady;
    WarpOp op = WarpOp::kSync;
    std::uint32_t mask = 0, value = 0, argument = 0, result = 0;
  };

  static void enter() {
    Block* const block = current();
    Lane& lane = block->lanes_[block->running_];
    block->arrived_first();
    (*block->body_)();
    lane.state = State::kDone;
    ++block->done_;
    block->leave(true);
    std::abort();  // a lane that is done is not run again
  }
  void arrived_first() {
#ifdef HEADRACE_ASAN_FIBERS
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (running_ == 0) main_.set_own_stack(bottom, bytes);  // lane 0 is the one that is entered from there
#endif
  }
  void become(unsigned lane) {
    running_ = lane;
    thread_index.x = lane;
  }
  // Runs somebody else until this lane is ready again.
  void leave(bool last = false) {
    const unsigned self = running_;
    const auto count = static_cast<unsigned>(lanes_.size());
    for (unsigned i = 1; i <= count; ++i) {
      const unsigned next = self + i < count ? self + i : self + i - count;
      if (lanes_[next].state != State::kReady) continue;
      become(next);
      Fiber::switch_stack(lanes_[self].fiber, lanes_[next].fiber, last);
      return;
    }
    if (done_ != count) fail("a warp or block did not meet as a whole");
    Fiber::switch_stack(lanes_[self].fiber, main_, last);
  }
  void complete(unsigned first, std::uint32_t mask, WarpOp op) {
    std::uint32_t folded = op == WarpOp::kMin ? ~0u : 0;
    for (unsigned i = 0; i < 32; ++i) {
      if ((mask >> i & 1) == 0) continue;
      const std::uint32_t value = lanes_[first + i].value;
      if (op == WarpOp::kBallot) folded |= (value != 0 ? 1u : 0u) << i;
      if (op == WarpOp::kOr) folded |= value;
      if (op == WarpOp::kMin && value < folded) folded = value;
      if (op == WarpOp::kMax && value > folded) folded = value;
      if (op == WarpOp::kAdd) folded += value;
    }
    for (unsigned i = 0; i < 32; ++i) {
      if ((mask >> i & 1) == 0) continue;
      Lane& lane = lanes_[first + i];
      lane.result = folded;
      if (op == WarpOp::kShuffle) {
        if ((mask >> (lane.argument & 31) & 1) == 0) fail("a shuffle from a lane outside its mask");
        lane.result = lanes_[first + (lane.argument & 31)].value;
      }
      if (op == WarpOp::kMatch) {
        lane.result = 0;
        for (unsigned k = 0; k < 32; ++k) {
          if ((mask >> k & 1) != 0 && lanes_[first + k].value == lane.value) lane.result |= 1u << k;
        }
      }
      lane.state = State::kReady;
    }
  }
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "device code on the CPU: %s\n", what);
    std::abort();
  }

  std::vector<Lane> lanes_;
  Fiber main_;
  const std::function<void()>* body_ = nullptr;
  unsigned running_ = 0;
  std::size_t at_barrier_ = 0, done_ = 0;
};

inline void launch(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  static std::map<unsigned, std::unique_ptr<Block>> by_size;  // stacks are dear
  std::unique_ptr<Block>& block = by_size[threads];
  if (block == nullptr) block = std::make_unique<Block>(threads);
  grid_size.x = blocks;
  block_size.x = threads;
  for (unsigned b = 0; b < blocks; ++b) {
    block_index.x = b;
    block->run(body);
  }
}

inline std::uint32_t meet(std::uint32_t mask, WarpOp op, std::uint32_t value = 0, std::uint32_t argument = 0) {
  return Block::current()->meet_warp(mask, op, value, argument);
}

}  // namespace headrace::testing::gpu

#define threadIdx ::headrace::testing::gpu::thread_index
#define blockIdx ::headrace::testing::gpu::block_index
#define blockDim ::headrace::testing::gpu::block_size
#define gridDim ::headrace::testing::gpu::grid_size

inline void __syncthreads() { headrace::testing::gpu::Block::current()->meet_block(); }
inline void __syncwarp(unsigned mask = ~0u) {
  headrace::testing::gpu::meet(mask, headrace::testing::gpu::WarpOp::kSync);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
// 32-bit types; the source lane is taken modulo the width of the warp.
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
inline float __fdividef(float x, float y) { return x / y; }
template <class T>
inline T __ldg(const T* at) {
  return *at;
}

// Only one thread runs at a time.
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
  static int votes = 0;
  if (vote != 0) ++votes;
  __syncthreads();
  const int all = votes;
  __syncthreads();  // everybody has read
  votes = 0;
  __syncthreads();
  return all;
}
inline int __syncthreads_or(int vote) { return __syncthreads_count(vote) != 0 ? 1 : 0; }

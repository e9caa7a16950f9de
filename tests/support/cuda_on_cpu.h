// Runs device code on the CPU, so that its logic is tested where there is no GPU.
//
// One thread block at a time; its threads are coroutines that run until they meet at a shuffle, ballot or barrier.
// Slow and exact: a divergent shuffle deadlocks here at once (reported), where a GPU may or may not.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __device__
#define __global__
#define __host__

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
  unsigned x = 0;
};
inline Dim thread_index, block_index, block_size, grid_size;

class Block {
 public:
  explicit Block(unsigned threads) : fibers_(threads), value_(threads), seen_(threads) {}

  void run(const std::function<void()>& body) {
    current() = this;
    body_ = &body;
    for (unsigned t = 0; t < fibers_.size(); ++t) {
      Fiber& fiber = fibers_[t];
      if (!fiber.stack) fiber.stack = std::make_unique<char[]>(kStack);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &main_;
      fiber.state = State::kReady;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    for (bool progress = true; progress;) {
      progress = false;
      for (unsigned t = 0; t < fibers_.size(); ++t) {
        if (fibers_[t].state != State::kReady) continue;
        progress = true;
        running_ = t;
        thread_index.x = t;
        swapcontext(&main_, &fibers_[t].context);
      }
      progress |= release();
    }
    for (const Fiber& fiber : fibers_) {
      if (fiber.state != State::kDone) std::abort();  // a warp or block did not meet as a whole
    }
  }

  void meet_block() { wait(State::kAtBarrier); }
  // Gives every lane the values of its warp, for as long as it does not meet again.
  const std::uint32_t* meet_warp(std::uint32_t value) {
    value_[running_] = value;
    const unsigned first = running_ / 32 * 32;
    wait(State::kInWarp);
    std::memcpy(&seen_[first], &value_[first], 32 * sizeof(std::uint32_t));
    wait(State::kInWarp);  // nobody overwrites before everybody has read
    return &seen_[first];
  }
  static Block*& current() {
    static Block* block = nullptr;
    return block;
  }

 private:
  static constexpr std::size_t kStack = 64 << 10;
  enum class State { kReady, kInWarp, kAtBarrier, kDone };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    State state = State::kReady;
  };

  static void enter() {
    Block* block = current();
    (*block->body_)();
    block->fibers_[block->running_].state = State::kDone;
  }
  void wait(State state) {
    const unsigned self = running_;
    fibers_[self].state = state;
    swapcontext(&fibers_[self].context, &main_);
  }
  bool release() {
    bool any = false;
    for (std::size_t first = 0; first < fibers_.size(); first += 32)
      any |= release_if_all(first, first + 32, State::kInWarp);
    any |= release_if_all(0, fibers_.size(), State::kAtBarrier);
    return any;
  }
  bool release_if_all(std::size_t first, std::size_t last, State state) {
    for (std::size_t t = first; t < last; ++t) {
      if (fibers_[t].state != state) return false;
    }
    for (std::size_t t = first; t < last; ++t) fibers_[t].state = State::kReady;
    return true;
  }

  std::vector<Fiber> fibers_;
  std::vector<std::uint32_t> value_, seen_;
  ucontext_t main_{};
  const std::function<void()>* body_ = nullptr;
  unsigned running_ = 0;
};

inline void launch(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  static std::unique_ptr<Block> block;
  static unsigned size = 0;
  if (size != threads) {
    block = std::make_unique<Block>(threads);
    size = threads;
  }
  grid_size.x = blocks;
  block_size.x = threads;
  for (unsigned b = 0; b < blocks; ++b) {
    block_index.x = b;
    block->run(body);
  }
}

}  // namespace headrace::testing::gpu

#define threadIdx ::headrace::testing::gpu::thread_index
#define blockIdx ::headrace::testing::gpu::block_index
#define blockDim ::headrace::testing::gpu::block_size
#define gridDim ::headrace::testing::gpu::grid_size

inline void __syncthreads() { headrace::testing::gpu::Block::current()->meet_block(); }
inline unsigned __shfl_sync(unsigned, unsigned value, int lane) {
  return headrace::testing::gpu::Block::current()->meet_warp(value)[lane];
}
inline unsigned __shfl_down_sync(unsigned, unsigned value, unsigned delta) {
  const unsigned lane = threadIdx.x % 32;
  const std::uint32_t* all = headrace::testing::gpu::Block::current()->meet_warp(value);
  return lane + delta < 32 ? all[lane + delta] : value;
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const std::uint32_t* all = headrace::testing::gpu::Block::current()->meet_warp(vote ? 1 : 0);
  unsigned mask = 0;
  for (unsigned i = 0; i < 32; ++i) mask |= all[i] << i;
  return mask;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
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

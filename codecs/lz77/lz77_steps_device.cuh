// Output by tiles: the order of the steps, and the dependencies of each. Device code without a CUDA header.
//
// A step links or follows one tile of a slice (lz77_tiles_device.cuh). Slices are issued in this order, with kAhead 2:
//   link 0, link 1, link 2, follow 0, link 3, follow 1, ..., link n, follow n - 2, follow n - 1, follow n
// A slice's dependencies were thus issued some slices earlier, and are usually done. The waits are
//   W1  link s: all slices up to s - kOpen are followed
//   W2  follow s: all slices up to s are linked
//   W3  follow s: all slices up to s - kBehind are followed
// All of these were issued earlier. There is no deadlock: a thread block takes its next step only when its last one is
// done, so the first unfinished step is held by a thread block that is working on it.
//
// A ring of kRing slices is large enough. By W3, the slices not yet followed while s is are s - kBehind + 1 and later.
// Their open bytes come from at most kOpen - 1 slices earlier, so following s reaches no slice before s - kBehind -
// kOpen + 2; those in between that are already followed have their final values. By W1, no slice after s + kOpen - 1 is
// linked meanwhile. This range contains 2 * kOpen + kBehind - 2 slices, each with its own space.
//
// Slices of a stretch have the same shape. The next stretch has another, and begins when all earlier slices, which were
// issued before it, are followed.
#pragma once

#include "lz77_device.cuh"

namespace headrace::codec::gpu::lz77 {

struct TileStep {
  bool link;            // false: follow
  std::uint32_t slice;  // global number
  std::uint32_t first;  // first slice of its stretch
  std::uint32_t rank;   // of the stream
  std::uint32_t tile;   // within the stream
};

__device__ inline TileStep step_of(const Stretch& stretch, std::uint32_t number) {
  const std::uint32_t in_slice = stretch.each * stretch.streams, at = number - stretch.step;
  const std::uint32_t turn = at / in_slice, which = at % in_slice, slices = stretch.slices;
  const std::uint32_t ahead = TileOrder::kAhead < slices ? TileOrder::kAhead : slices;
  const std::uint32_t both = turn - ahead;  // turns since they began to alternate
  TileStep step{true, turn, stretch.slice, which % stretch.streams, 0};
  if (turn >= 2 * slices - ahead) {
    step.link = false;
    step.slice = turn - slices;
  } else if (turn >= ahead) {
    step.link = both % 2 == 0;
    step.slice = both / 2 + (step.link ? ahead : 0);
  }
  step.tile = stretch.tile + step.slice * stretch.each + which / stretch.streams;
  step.slice += stretch.slice;
  return step;
}

// Index into TileJob::left.
__device__ inline std::uint32_t counter_of(std::uint32_t slice, bool link) { return 2 * slice + (link ? 0 : 1); }

// The counter that a lane checks: it must be 0 before the step (`needed`), or its value is useful. Earlier slices need
// no check, since the checked ones could only begin after them.
struct TileWait {
  bool any, needed;
  std::uint32_t counter;
};
__device__ inline TileWait wait_of(const TileStep& step, unsigned lane) {
  using Order = TileOrder;
  static_assert(Order::kOpen + Order::kBehind <= 33 && 2 * Order::kOpen - Order::kBehind <= 32);
  static_assert(Order::kAhead < Order::kOpen && 1 <= Order::kBehind && Order::kBehind <= Order::kOpen);
  const auto slice = static_cast<std::int32_t>(step.slice), first = static_cast<std::int32_t>(step.first);
  constexpr std::int32_t kOpen = Order::kOpen, kBehind = Order::kBehind;
  const auto look = [](std::int32_t at, bool link, bool wanted, bool needed) {
    const bool any = at >= 0 && wanted;
    return TileWait{any, any && needed, any ? counter_of(static_cast<std::uint32_t>(at), link) : 0};
  };
  const auto k = static_cast<std::int32_t>(lane);
  if (step.link) {
    const std::int32_t last = slice - kOpen > first - 1 ? slice - kOpen : first - 1, at = slice - 1 - k;
    return look(at, false, at > last - kBehind, at <= last);
  }
  if (k < kOpen) return look(slice - k, true, true, true);
  return look(slice - kBehind - (k - kOpen), false, k < 2 * kOpen - kBehind, true);
}

// The first slice not known to be followed, from the lanes whose counters are 0. No open byte comes from an earlier
// slice.
__device__ inline std::uint32_t first_open_slice(const TileStep& step, unsigned zeros) {
  const std::uint32_t own = step.slice - step.first;
  const std::uint32_t open = own < TileOrder::kOpen - 1 ? own : TileOrder::kOpen - 1;
  const unsigned left = ~zeros & ((1u << open) - 1);
  return left == 0 ? step.slice : step.slice - 1 - (31 - static_cast<unsigned>(__clz(left)));
}

}  // namespace headrace::codec::gpu::lz77

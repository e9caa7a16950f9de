// Output by tiles: the order of its steps, and what each has to wait for. Device code without a CUDA header.
//
// A step links or follows one tile of a slice (lz77_tiles_device.cuh). Slices are dealt like this, kAhead being 2:
//   link 0, link 1, link 2, follow 0, link 3, follow 1, ..., link n, follow n - 2, follow n - 1, follow n
// so that what a slice waits for was dealt some slices before, and most often is done. Waits are
//   W1  link s: all slices up to s - kOpen are followed
//   W2  follow s: all slices up to s are linked
//   W3  follow s: all slices up to s - kBehind are followed
// of which all were dealt before. So of the steps that are not done the first one can always go on: a thread block has
// taken it, and works on it, as it takes no step before the last one is done.
//
// A ring of kRing slices has room enough. By W3, slices that are not followed while s is are s - kBehind + 1 and later.
// Their open bytes come from kOpen - 1 slices before or later, so whoever follows s comes by no slice before
// s - kBehind - kOpen + 2; those in between that are followed have their final values. By W1, no slice behind
// s + kOpen - 1 is linked meanwhile. From the one to the other are 2 * kOpen + kBehind - 2 slices, which have places of
// their own.
//
// Slices of a stretch have one shape. The next stretch has another, and begins when all slices before are followed:
// they are dealt before it.
#pragma once

#include "lz77_device.cuh"

namespace headrace::codec::gpu::lz77 {

struct TileStep {
  bool link;            // or follow
  std::uint32_t slice;  // of all
  std::uint32_t first;  // slice of its stretch
  std::uint32_t rank;   // of the stream
  std::uint32_t tile;   // of the stream
};

__device__ inline TileStep step_of(const Stretch& stretch, std::uint32_t number) {
  const std::uint32_t in_slice = stretch.each * stretch.streams, at = number - stretch.step;
  const std::uint32_t turn = at / in_slice, which = at % in_slice, slices = stretch.slices;
  const std::uint32_t ahead = TileOrder::kAhead < slices ? TileOrder::kAhead : slices;
  const std::uint32_t both = turn - ahead;  // where they alternate
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

// Of TileJob::left.
__device__ inline std::uint32_t counter_of(std::uint32_t slice, bool link) { return 2 * slice + (link ? 0 : 1); }

// What a lane looks at: a counter that has to be 0 before the step, or is good to know. Earlier slices need no look, as
// those looked at could not have begun before them.
struct Look {
  bool any, needed;
  std::uint32_t counter;
};
__device__ inline Look look_of(const TileStep& step, unsigned lane) {
  using Order = TileOrder;
  static_assert(Order::kOpen + Order::kBehind <= 33 && 2 * Order::kOpen - Order::kBehind <= 32);
  static_assert(Order::kAhead < Order::kOpen && 1 <= Order::kBehind && Order::kBehind <= Order::kOpen);
  const auto slice = static_cast<std::int32_t>(step.slice), first = static_cast<std::int32_t>(step.first);
  constexpr std::int32_t kOpen = Order::kOpen, kBehind = Order::kBehind;
  const auto look = [](std::int32_t at, bool link, bool wanted, bool needed) {
    const bool any = at >= 0 && wanted;
    return Look{any, any && needed, any ? counter_of(static_cast<std::uint32_t>(at), link) : 0};
  };
  const auto k = static_cast<std::int32_t>(lane);
  if (step.link) {
    const std::int32_t last = slice - kOpen > first - 1 ? slice - kOpen : first - 1, at = slice - 1 - k;
    return look(at, false, at > last - kBehind, at <= last);
  }
  if (k < kOpen) return look(slice - k, true, true, true);
  return look(slice - kBehind - (k - kOpen), false, k < 2 * kOpen - kBehind, true);
}

// The first slice that is not known to be followed, from the lanes whose counters are 0. No open byte comes from
// before.
__device__ inline std::uint32_t first_open_slice(const TileStep& step, unsigned zeros) {
  const std::uint32_t own = step.slice - step.first;
  const std::uint32_t open = own < TileOrder::kOpen - 1 ? own : TileOrder::kOpen - 1;
  const unsigned left = ~zeros & ((1u << open) - 1);
  return left == 0 ? step.slice : step.slice - 1 - (31 - static_cast<unsigned>(__clz(left)));
}

}  // namespace headrace::codec::gpu::lz77

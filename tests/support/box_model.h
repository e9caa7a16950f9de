// A slow, obvious model of box copies, and random boxes to compare implementations with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "device/box.h"
#include "support/convert_model.h"
#include "support/sanitizer.h"

namespace headrace::testing {

// Copies element by element, in order. `move` maps an address in the box to where the bytes really are.
template <class MoveSrc, class MoveDst>
HEADRACE_TEST_OWN_BYTES void model_copy_box(const device::Box& box, const device::ElementOp& op, const std::byte* fill,
                                            MoveSrc move_src, MoveDst move_dst) {
  const std::uint64_t count = box.element_count();
  std::byte* const dst = move_dst(box.dst);
  const std::byte* const src = box.src == nullptr ? nullptr : move_src(box.src);
  for (std::uint64_t n = 0; n < count; ++n) {
    std::uint64_t rest = n;
    std::int64_t src_offset = 0, dst_offset = 0;
    for (int d = box.rank - 1; d >= 0; --d) {
      const device::BoxDim& dim = box.dim[static_cast<std::size_t>(d)];
      const auto i = static_cast<std::int64_t>(rest % dim.extent);
      rest /= dim.extent;
      src_offset += i * dim.src_stride_bytes;
      dst_offset += i * dim.dst_stride_bytes;
    }
    std::byte* to = dst + dst_offset;
    if (src == nullptr) {
      std::memcpy(to, fill, op.result_bytes());
      continue;
    }
    const std::byte* from = src + src_offset;
    const std::uint32_t width = std::max(1u, op.swap_width);
    std::byte number[8];
    std::byte* swapped = op.conversion.active() ? number : to;
    for (std::uint32_t b = 0; b < op.element_bytes; ++b) {
      swapped[b] = from[b / width * width + (width - 1 - b % width)];
    }
    if (op.conversion.active()) model_convert(op.conversion, number, to);
  }
}

struct BoxShape {
  device::Box box;              // src and dst are offsets from null until placed
  std::int64_t src_origin = 0;  // offset of element 0 in its buffer
  std::int64_t dst_origin = 0;
  std::size_t src_bytes = 0;  // buffer sizes needed
  std::size_t dst_bytes = 0;
};

struct BoxOptions {
  int max_rank = 6;
  std::uint64_t max_elements = 4000;
  bool negative = true;
  bool empty = true;
  std::uint32_t result_bytes = 0;  // size of a destination element; 0: the same as in the source
};

// Destinations are distinct; sources may repeat (stride 0) or run backwards. Each side has its own axis order and gaps.
inline BoxShape random_box(std::mt19937_64& rng, std::uint32_t element_bytes, const BoxOptions& options = {}) {
  auto below = [&](std::uint64_t n) { return rng() % n; };
  BoxShape out;
  device::Box& box = out.box;
  box.rank = static_cast<int>(below(static_cast<std::uint64_t>(options.max_rank) + 1));
  std::uint64_t budget = 1 + below(options.max_elements);
  std::vector<int> order;
  for (int d = 0; d < box.rank; ++d) {
    const std::uint64_t most = std::max<std::uint64_t>(1, std::min<std::uint64_t>(budget, 1 + below(300)));
    const std::uint64_t extent = 1 + below(most);
    box.dim[static_cast<std::size_t>(d)].extent = extent;
    budget = std::max<std::uint64_t>(1, budget / extent);
    order.push_back(d);
  }
  auto lay_out = [&](bool source) {
    const bool identity = below(2) == 0;
    std::vector<int> axes = order;
    if (!identity) std::shuffle(axes.begin(), axes.end(), rng);
    const bool dense = below(2) == 0;
    const std::uint32_t size = source || options.result_bytes == 0 ? element_bytes : options.result_bytes;
    std::int64_t step = size, low = 0;
    for (auto it = axes.rbegin(); it != axes.rend(); ++it) {
      device::BoxDim& dim = box.dim[static_cast<std::size_t>(*it)];
      std::int64_t stride = step;
      if (!dense && below(3) == 0) stride += static_cast<std::int64_t>(size * below(4) + below(3));
      step = stride * static_cast<std::int64_t>(dim.extent);
      if (source && below(12) == 0) stride = 0;
      if (options.negative && below(5) == 0) stride = -stride;
      if (stride < 0) low += stride * static_cast<std::int64_t>(dim.extent - 1);
      (source ? dim.src_stride_bytes : dim.dst_stride_bytes) = stride;
    }
    const std::int64_t shift = static_cast<std::int64_t>(below(20));  // any alignment
    (source ? out.src_origin : out.dst_origin) = shift - low;
    (source ? out.src_bytes : out.dst_bytes) = static_cast<std::size_t>(shift + step + 32);
  };
  lay_out(true);
  lay_out(false);
  if (options.empty && box.rank > 0 && below(40) == 0) {
    box.dim[below(static_cast<std::uint64_t>(box.rank))].extent = 0;
  }
  return out;
}

HEADRACE_TEST_OWN_BYTES inline void fill_random(std::byte* data, std::size_t bytes, std::uint64_t seed) {
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < bytes; i += 8) {  // splitmix64
    std::uint64_t v = state += 0x9e3779b97f4a7c15u;
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    v ^= v >> 31;
    std::memcpy(data + i, &v, std::min<std::size_t>(8, bytes - i));
  }
}

// A random operation that converts.
inline device::ElementOp random_converting_op(std::mt19937_64& rng) {
  device::ElementOp op;
  op.conversion = random_conversion(rng);
  op.element_bytes = device::number_bytes(op.conversion.from);
  op.swap_width = rng() % 2 == 0 ? 1 : op.element_bytes;
  return op;
}
inline BoxShape random_box_for(std::mt19937_64& rng, const device::ElementOp& op, BoxOptions options = {}) {
  options.result_bytes = op.result_bytes();
  return random_box(rng, op.element_bytes, options);
}

// A random width, out of those that headrace may be asked to swap in an element of this size.
inline std::uint32_t random_swap_width(std::mt19937_64& rng, std::uint32_t element_bytes) {
  std::vector<std::uint32_t> widths = {1};
  for (std::uint32_t w = 2; w <= element_bytes; ++w) {
    if (element_bytes % w == 0) widths.push_back(w);
  }
  return rng() % 2 == 0 ? 1 : widths[rng() % widths.size()];
}

}  // namespace headrace::testing

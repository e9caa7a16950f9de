// Box: one strided N-dimensional copy, the last step of every read.
//
// A chunk (or its selected part) is a box in the decoded bytes and a box in the caller's tensor, both with arbitrary
// strides. The same description serves to fill in a constant for absent chunks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/convert.h"

namespace headrace::device {

inline constexpr int kMaxRank = 32;

struct BoxDim {
  std::uint64_t extent = 1;
  std::int64_t src_stride_bytes = 0;
  std::int64_t dst_stride_bytes = 0;
};

// What happens to each element on the way: its bytes are swapped, then it is converted. The fill element is given in
// its final form: result_bytes() bytes that are neither swapped nor converted.
struct ElementOp {
  std::uint32_t element_bytes = 1;  // in the source; with a conversion, the size of `from`
  std::uint32_t swap_width = 1;  // bytes are reversed within groups of this size; 1: not swapped; divides element_bytes
  Conversion conversion = {};    // if active, swap_width is 1 or element_bytes

  std::uint32_t result_bytes() const noexcept {
    return conversion.active() ? number_bytes(conversion.to) : element_bytes;
  }
  // Whether source and result have the same bytes, so that they may be copied, read or decoded straight into place.
  bool moves_bytes_only() const noexcept { return swap_width <= 1 && !conversion.active(); }
  bool operator==(const ElementOp&) const = default;
};

// Slowest dimension first. A null `src` means: write the fill element.
struct Box {
  const std::byte* src = nullptr;
  std::byte* dst = nullptr;
  int rank = 0;
  std::array<BoxDim, kMaxRank> dim;

  std::uint64_t element_count() const noexcept {
    std::uint64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim[static_cast<std::size_t>(i)].extent;
    return n;
  }
};

// Whether all elements of a box lie inside memory of `bytes` bytes: they have `element_bytes`, start `at` bytes into
// it, and are spaced by the member `stride` of the box's dimensions. True for an empty box.
inline bool fits(const Box& box, std::int64_t BoxDim::*stride, std::int64_t at, std::uint32_t element_bytes,
                 std::uint64_t bytes) noexcept {
  std::int64_t low = at, high = at;  // offsets of the outermost elements
  bool wraps = false;
  for (int i = 0; i < box.rank; ++i) {
    const BoxDim& dim = box.dim[static_cast<std::size_t>(i)];
    if (dim.extent == 0) return true;
    std::int64_t reach = 0;
    std::int64_t& end = dim.*stride < 0 ? low : high;
    wraps = __builtin_mul_overflow(dim.extent - 1, dim.*stride, &reach) || __builtin_add_overflow(end, reach, &end) ||
            wraps;
  }
  return !wraps && low >= 0 && element_bytes <= bytes && static_cast<std::uint64_t>(high) <= bytes - element_bytes;
}

// Drops dimensions of extent 1 and merges neighbours that are contiguous on both sides. The result addresses the same
// elements in the same order.
void simplify(Box& box) noexcept;

// After simplify(): at most one dimension, contiguous on both sides for elements of this size.
bool is_contiguous(const Box& box, std::uint32_t element_bytes) noexcept;

// The same for a box whose source is not known yet, so that `src` does not tell whether it fills.
void simplify(Box& box, bool fills) noexcept;
bool is_contiguous(const Box& box, std::uint32_t element_bytes, bool fills) noexcept;

// Prepares for fast copying: sorts dimensions by destination address, makes destination strides positive, then calls
// simplify(). Same elements in another order. If a destination stride is 0, only the last element remains, the one that
// an in-order loop would leave.
void normalize(Box& box) noexcept;

// Copies on the calling thread. `fill` has op.result_bytes() bytes and is used if box.src is null. Each side's strides
// count its own bytes: source elements have op.element_bytes, destination elements op.result_bytes(). REQUIRES: the two
// sides are disjoint or identical with equal element sizes; destination elements don't partly overlap.
void copy_box(const Box& box, const ElementOp& op, const std::byte* fill) noexcept;

// Converts one packed element in native byte order, such as a fill value. REQUIRES: conversion.active().
void convert_element(const Conversion& conversion, const std::byte* from, std::byte* to) noexcept;

}  // namespace headrace::device

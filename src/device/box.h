// Box: one strided N-dimensional copy, the last step of every read.
//
// A chunk (or the part of it that was asked for) is a box in the decoded bytes and a box in the caller's tensor; both
// may have any strides. The same description is filled with a constant where a chunk is absent.
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

// What happens to each element on the way: its bytes are swapped, then it is converted. The fill element is already as
// it shall appear: result_bytes() bytes that are neither swapped nor converted.
struct ElementOp {
  std::uint32_t element_bytes = 1;  // in the source; with a conversion, the size of `from`
  std::uint32_t swap_width =
      1;  // bytes are reversed within each group of this many; 1: copy as is; divides element_bytes
  Conversion conversion = {};  // with one, swap_width is 1 or element_bytes

  std::uint32_t result_bytes() const noexcept {
    return conversion.active() ? number_bytes(conversion.to) : element_bytes;
  }
  // The source's bytes are the result's: they may be copied, read or decoded straight to where they belong.
  bool moves_bytes_only() const noexcept { return swap_width <= 1 && !conversion.active(); }
  bool operator==(const ElementOp&) const = default;
};

// Slowest dimension first. `src` null means: write the fill element.
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

// Whether elements of `element_bytes` that begin `at` bytes into memory of `bytes`, and lie as far apart as `stride` of
// the box's dimensions says, are all inside it. An empty box has none.
inline bool fits(const Box& box, std::int64_t BoxDim::*stride, std::int64_t at, std::uint32_t element_bytes,
                 std::uint64_t bytes) noexcept {
  std::int64_t low = at, high = at;  // first bytes of the elements that lie furthest out
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

// Drops dimensions of extent 1 and merges neighbours that are contiguous in both tensors. The result addresses the same
// elements in the same order.
void simplify(Box& box) noexcept;

// After simplify(): one dimension (or none), contiguous on both sides for elements of this size.
bool is_contiguous(const Box& box, std::uint32_t element_bytes) noexcept;

// The same two of a box whose source is not known yet, so that `src` does not say whether it fills.
void simplify(Box& box, bool fills) noexcept;
bool is_contiguous(const Box& box, std::uint32_t element_bytes, bool fills) noexcept;

// Prepares for copying fast: dimensions go into the order of destination addresses, destination strides become
// positive, then simplify(). Same elements in another order. Where a destination stride is 0, only the last element
// stays: the one that a loop in order would leave.
void normalize(Box& box) noexcept;

// Copies on the calling thread. `fill` holds op.result_bytes() bytes and is used where box.src is null. Strides count
// the bytes of their own side: source elements have op.element_bytes, those of the destination op.result_bytes().
// REQUIRES: the sides lie apart or are the same elements of one size; none of the destination's overlap in part.
void copy_box(const Box& box, const ElementOp& op, const std::byte* fill) noexcept;

// One packed element in native byte order, such as a fill value. REQUIRES: conversion.active().
void convert_element(const Conversion& conversion, const std::byte* from, std::byte* to) noexcept;

}  // namespace headrace::device

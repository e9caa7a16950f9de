// Converting elements on the host: a tile at a time, so that every step but the first and the last works in the first
// cache, and memory is gone through once.
#pragma once

#include <cstddef>

#include "device/box.h"
#include "device/box_kernels.h"

namespace headrace::device::kernels {

// The loops for one Conversion, chosen once per box.
class Converter {
 public:
  // REQUIRES: op.conversion.active(), op.element_bytes is the size of its `from`, op.swap_width 1 or that size.
  explicit Converter(const ElementOp& op) noexcept;

  // `gather` is the kernel that copies the plane's source elements, swapped, into dense rows. `square`: the two sides
  // run in different directions.
  void run(const Plane& plane, PlaneKernel gather, bool square) const noexcept;
  // Packed elements in native order to packed elements.
  void run(const std::byte* src, std::byte* dst, std::size_t count) const noexcept;

 private:
  using Widen = void (*)(const std::byte* src, std::byte* work, std::size_t count, const Conversion& c) noexcept;
  using Scale = void (*)(std::byte* work, std::size_t count, const Conversion& c) noexcept;
  using Narrow = void (*)(const std::byte* work, std::byte* dst, std::size_t count) noexcept;

  const ElementOp op_;
  Widen widen_;
  Scale scale_;  // null: not scaled
  Narrow narrow_;
};

}  // namespace headrace::device::kernels

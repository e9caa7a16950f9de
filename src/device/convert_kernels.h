// Conversion of elements on the host, tile by tile, so that all but the first and last step work in the L1 cache and
// memory is traversed once.
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

  // `gather` copies the plane's source elements, swapped, into dense rows. `square`: the fastest dimensions of the two
  // sides differ, so square tiles are used.
  void run(const Plane& plane, PlaneKernel gather, bool square) const noexcept;
  // Converts packed elements in native byte order to packed elements.
  void run(const std::byte* src, std::byte* dst, std::size_t count) const noexcept;

 private:
  using Widen = void (*)(const std::byte* src, std::byte* work, std::size_t count, const Conversion& c) noexcept;
  using Scale = void (*)(std::byte* work, std::size_t count, const Conversion& c) noexcept;
  using Narrow = void (*)(const std::byte* work, std::byte* dst, std::size_t count) noexcept;

  const ElementOp op_;
  Widen widen_;
  Scale scale_;  // null: no scaling
  Narrow narrow_;
};

}  // namespace headrace::device::kernels

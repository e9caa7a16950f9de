// The loops under copy_box: one or two dimensions of elements of one size, chosen once per box.
//
// Vectors are the compiler's own (vector_size), so the same source serves x86 and Arm; on x86 the byte shuffles are
// also compiled for SSSE3 and AVX2 and chosen when the program runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::device::kernels {

// A plane: `rows` rows of `columns` elements, any strides. Rows are the slower dimension of the destination.
struct Plane {
  const std::byte* src;
  std::byte* dst;
  std::uint64_t rows, columns;
  std::int64_t src_row_stride, src_column_stride;
  std::int64_t dst_row_stride, dst_column_stride;
};

using PlaneKernel = void (*)(const Plane& plane, std::uint32_t element_bytes, std::uint32_t swap_width) noexcept;

// Both columns contiguous (stride == element_bytes).
PlaneKernel contiguous_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept;
// Any strides, row after row.
PlaneKernel strided_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept;
// Destination columns and source rows contiguous: a transpose, done in tiles of cache lines.
// Null where the element size has none (strided_kernel then).
PlaneKernel transpose_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept;

// `pattern` (element_bytes bytes) repeated; only the destination half of the plane is read.
void fill_plane(const Plane& plane, std::uint32_t element_bytes, const std::byte* pattern) noexcept;

}  // namespace headrace::device::kernels

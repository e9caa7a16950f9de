// Inner loops of copy_box: one or two dimensions of equally sized elements, chosen once per box.
//
// Vectors are the compiler's own (vector_size), so one source serves x86 and Arm. On x86, byte shuffles are also
// compiled for SSSE3 and AVX2 and selected at run time.
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

// Both sides have contiguous columns (stride == element_bytes).
PlaneKernel contiguous_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept;
// Any strides, row by row.
PlaneKernel strided_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept;
// Contiguous destination columns and source rows: a transpose, in tiles of cache lines. Null if the element size has no
// such kernel; use strided_kernel then.
PlaneKernel transpose_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept;

// Repeats `pattern` (element_bytes bytes). Only the destination half of the plane is used.
void fill_plane(const Plane& plane, std::uint32_t element_bytes, const std::byte* pattern) noexcept;

}  // namespace headrace::device::kernels

#include "device/box.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "device/box_kernels.h"
#include "device/convert_kernels.h"

namespace headrace::device {
namespace {

BoxDim& at(Box& box, int i) { return box.dim[static_cast<std::size_t>(i)]; }
const BoxDim& at(const Box& box, int i) { return box.dim[static_cast<std::size_t>(i)]; }

// extent * stride without undefined overflow. A box that addresses real memory never overflows.
std::int64_t span_of(std::uint64_t extent, std::int64_t stride) {
  return static_cast<std::int64_t>(extent * static_cast<std::uint64_t>(stride));
}

void make_empty(Box& box) {
  box.rank = 1;
  at(box, 0) = BoxDim{0, 0, 0};
}

std::uint64_t magnitude(std::int64_t stride) {
  return stride < 0 ? 0 - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
}

// Visits every combination of the first `outer` dimensions, calling visit(src, dst).
template <class Visit>
void for_each_plane(const Box& box, int outer, Visit visit) {
  std::array<std::uint64_t, kMaxRank> index;
  std::fill_n(index.begin(), outer, 0);
  const std::byte* src = box.src;
  std::byte* dst = box.dst;
  for (;;) {
    visit(src, dst);
    int d = outer - 1;
    for (; d >= 0; --d) {
      const BoxDim& dim = at(box, d);
      src += dim.src_stride_bytes;
      dst += dim.dst_stride_bytes;
      if (++index[static_cast<std::size_t>(d)] < dim.extent) break;
      index[static_cast<std::size_t>(d)] = 0;
      src -= span_of(dim.extent, dim.src_stride_bytes);
      dst -= span_of(dim.extent, dim.dst_stride_bytes);
    }
    if (d < 0) return;
  }
}

// Pads the box in front with extent 1, to two dimensions for a kernel.
void pad_to_two(Box& box) {
  while (box.rank < 2) {
    for (int i = box.rank; i > 0; --i) at(box, i) = at(box, i - 1);
    at(box, 0) = BoxDim{1, 0, 0};
    ++box.rank;
  }
}

kernels::Plane plane_of(const Box& box) {
  const BoxDim& rows = at(box, box.rank - 2);
  const BoxDim& columns = at(box, box.rank - 1);
  return {nullptr,
          nullptr,
          rows.extent,
          columns.extent,
          rows.src_stride_bytes,
          columns.src_stride_bytes,
          rows.dst_stride_bytes,
          columns.dst_stride_bytes};
}

bool is_word(std::uint64_t bytes) { return bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16; }

void move_element(std::byte* dst, const std::byte* src, std::uint32_t bytes) {
  switch (bytes) {  // compile-time sizes become moves instead of calls
    case 1:
      *dst = *src;
      return;
    case 2:
      std::memcpy(dst, src, 2);
      return;
    case 4:
      std::memcpy(dst, src, 4);
      return;
    case 8:
      std::memcpy(dst, src, 8);
      return;
    default:
      std::memcpy(dst, src, bytes);
  }
}

// Moves dimension `from` to position `to` > from, keeping the order of the others.
void move_dim(Box& box, int from, int to) {
  std::rotate(box.dim.begin() + from, box.dim.begin() + from + 1, box.dim.begin() + to + 1);
}

// For planes whose sides differ in their fastest dimension: tiles use each cache line fully while it is cached.
void run_in_tiles(kernels::PlaneKernel kernel, const kernels::Plane& plane, std::uint32_t size, std::uint32_t width) {
  constexpr std::uint64_t kTile = 32;
  for (std::uint64_t row = 0; row < plane.rows; row += kTile) {
    for (std::uint64_t column = 0; column < plane.columns; column += kTile) {
      const auto r = static_cast<std::int64_t>(row), c = static_cast<std::int64_t>(column);
      kernels::Plane tile = plane;
      tile.src += r * plane.src_row_stride + c * plane.src_column_stride;
      tile.dst += r * plane.dst_row_stride + c * plane.dst_column_stride;
      tile.rows = std::min(kTile, plane.rows - row);
      tile.columns = std::min(kTile, plane.columns - column);
      kernel(tile, size, width);
    }
  }
}

}  // namespace

void simplify(Box& box) noexcept { simplify(box, box.src == nullptr); }

void simplify(Box& box, bool fills) noexcept {
  int kept = 0;
  for (int i = 0; i < box.rank; ++i) {
    BoxDim dim = at(box, i);
    if (dim.extent == 0) return make_empty(box);
    if (dim.extent == 1) continue;
    if (fills) dim.src_stride_bytes = 0;
    if (kept > 0) {
      BoxDim& outer = at(box, kept - 1);
      if (outer.dst_stride_bytes == span_of(dim.extent, dim.dst_stride_bytes) &&
          (fills || outer.src_stride_bytes == span_of(dim.extent, dim.src_stride_bytes))) {
        dim.extent *= outer.extent;
        outer = dim;
        continue;
      }
    }
    at(box, kept++) = dim;
  }
  box.rank = kept;
}

void normalize(Box& box) noexcept {
  for (int i = 0; i < box.rank; ++i) {
    BoxDim& dim = at(box, i);
    if (dim.extent == 0) return make_empty(box);
    const std::int64_t last = static_cast<std::int64_t>(dim.extent - 1);
    if (dim.dst_stride_bytes == 0) {
      if (box.src != nullptr) box.src += last * dim.src_stride_bytes;
      dim = BoxDim{1, 0, 0};
    } else if (dim.dst_stride_bytes < 0) {
      box.dst += last * dim.dst_stride_bytes;
      if (box.src != nullptr) box.src += last * dim.src_stride_bytes;
      dim.dst_stride_bytes = -dim.dst_stride_bytes;
      dim.src_stride_bytes = -dim.src_stride_bytes;
    }
  }
  // Insertion sort: ranks are small, and most boxes are already sorted.
  for (int i = 1; i < box.rank; ++i) {
    for (int j = i; j > 0 && at(box, j - 1).dst_stride_bytes < at(box, j).dst_stride_bytes; --j) {
      std::swap(at(box, j - 1), at(box, j));
    }
  }
  simplify(box);
}

bool is_contiguous(const Box& box, std::uint32_t element_bytes) noexcept {
  return is_contiguous(box, element_bytes, box.src == nullptr);
}

bool is_contiguous(const Box& box, std::uint32_t element_bytes, bool fills) noexcept {
  if (box.rank == 0) return true;
  if (box.rank != 1) return false;
  const BoxDim& dim = at(box, 0);
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  return dim.extent == 0 || (dim.dst_stride_bytes == bytes && (fills || dim.src_stride_bytes == bytes));
}

void copy_box(const Box& original, const ElementOp& op, const std::byte* fill) noexcept {
  // A single element, as for selections of points.
  if (original.rank == 0 && original.src != nullptr && op.moves_bytes_only()) {
    return move_element(original.dst, original.src, op.element_bytes);
  }
  Box box;
  box.src = original.src;
  box.dst = original.dst;
  box.rank = original.rank;
  std::copy_n(original.dim.begin(), original.rank, box.dim.begin());
  normalize(box);
  if (box.rank == 1 && at(box, 0).extent == 0) return;

  std::uint32_t size = op.element_bytes, width = op.swap_width;
  if (box.src == nullptr) {
    pad_to_two(box);
    kernels::Plane plane = plane_of(box);
    for_each_plane(box, box.rank - 2, [&](const std::byte*, std::byte* dst) {
      plane.dst = dst;
      kernels::fill_plane(plane, op.result_bytes(), fill);
    });
    return;
  }

  const bool converts = op.conversion.active();
  // Elements of an unusual size with swap groups of a usual one: the groups become a dimension.
  if (width > 1 && !is_word(size) && size != width && box.rank < kMaxRank) {
    at(box, box.rank++) = BoxDim{size / width, width, width};
    size = width;
    simplify(box);
  }
  // A short contiguous run the size of a machine word is treated as one element.
  if (width <= 1 && !converts && box.rank > 1) {
    const BoxDim& inner = at(box, box.rank - 1);
    const auto bytes = static_cast<std::int64_t>(size);
    if (inner.dst_stride_bytes == bytes && inner.src_stride_bytes == bytes && inner.extent <= 16 &&
        is_word(inner.extent * size)) {
      size *= static_cast<std::uint32_t>(inner.extent);
      --box.rank;
    }
  }
  pad_to_two(box);

  const auto bytes = static_cast<std::int64_t>(size);
  const std::int64_t result = converts ? op.result_bytes() : bytes;
  const int inner = box.rank - 1;
  kernels::PlaneKernel kernel = nullptr;
  bool tiled = false, across = false;
  if ((converts || at(box, inner).dst_stride_bytes == bytes) && at(box, inner).src_stride_bytes == bytes) {
    kernel = kernels::contiguous_kernel(size, width);
  } else {
    // The dimension with the smallest source stride becomes the rows of the plane.
    int rows = inner;
    for (int i = 0; i < inner; ++i) {
      if (at(box, i).extent > 1 && magnitude(at(box, i).src_stride_bytes) < magnitude(at(box, rows).src_stride_bytes)) {
        rows = i;
      }
    }
    if (rows != inner) {
      // A source that runs backwards along the rows is read forwards, so that one transpose kernel serves both.
      BoxDim& dim = at(box, rows);
      if (dim.src_stride_bytes < 0) {
        const std::int64_t last = static_cast<std::int64_t>(dim.extent - 1);
        box.src += last * dim.src_stride_bytes;
        box.dst += last * dim.dst_stride_bytes;
        dim.src_stride_bytes = -dim.src_stride_bytes;
        dim.dst_stride_bytes = -dim.dst_stride_bytes;
      }
      // A conversion has dense rows between its two copies, whatever the destination's strides.
      const bool transpose = dim.src_stride_bytes == bytes && (converts || at(box, inner).dst_stride_bytes == result);
      move_dim(box, rows, inner - 1);
      across = true;
      if (transpose) kernel = kernels::transpose_kernel(size, width);
      tiled = kernel == nullptr;
    }
    if (kernel == nullptr) kernel = kernels::strided_kernel(size, width);
  }

  kernels::Plane plane = plane_of(box);
  std::optional<kernels::Converter> converter;
  if (converts) converter.emplace(op);
  for_each_plane(box, box.rank - 2, [&](const std::byte* src, std::byte* dst) {
    plane.src = src;
    plane.dst = dst;
    if (converter) {
      converter->run(plane, kernel, across);
    } else if (tiled) {
      run_in_tiles(kernel, plane, size, width);
    } else {
      kernel(plane, size, width);
    }
  });
}

void convert_element(const Conversion& conversion, const std::byte* from, std::byte* to) noexcept {
  ElementOp op;
  op.element_bytes = number_bytes(conversion.from);
  op.conversion = conversion;
  kernels::Converter(op).run(from, to, 1);
}

}  // namespace headrace::device

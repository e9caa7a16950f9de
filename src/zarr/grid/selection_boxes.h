// SelectionBoxes: computes the boxes of a chunk for a selection by axes (not points), for any position and shape of the
// chunk.
//
// Threads: immutable once made; the state of a walk over several boxes is kept in the task's detail.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "zarr/grid/footprint.h"
#include "zarr/grid/projection.h"

namespace headrace::zarr {

class SelectionBoxes {
 public:
  // `axes` are of input.selection. The caller keeps them, input.src_strides and input.axis_order longer than this
  // object.
  SelectionBoxes(std::span<const Projection> axes, const FootprintInput& input)
      : axes_(axes),
        src_strides_(input.src_strides),
        axis_order_(input.axis_order),
        dst_(input.dst),
        first_(input.dst.data() + input.dst_first),
        element_bytes_(input.element_bytes) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const ResolvedSelection::Dim& dim = input.selection->dims[i];
      dst_strides_[i] = dim.dropped ? 0 : input.dst_strides[kept];
      kept += dim.dropped ? 0 : 1;
      lists_ = lists_ || dim.list != nullptr;
    }
  }

  // Sets the first box of the chunk that begins at element `begin` of the array. REQUIRES: the chunk has selected
  // elements.
  void describe(const std::uint64_t* begin, const std::uint64_t* shape, transfer::TaskDetail& detail) const {
    detail.several = false;
    if (lists_) return describe_lists(begin, shape, detail);
    Strides room;
    const std::int64_t* const strides = strides_in(shape, room);
    device::Box& box = detail.box;
    box.rank = static_cast<int>(axes_.size());
    std::int64_t src = 0, dst = 0;
    bool whole = true;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const Intersection part = axes_[i].intersect(begin[i], shape[i]);
      box.dim[i] = {part.count, source_stride(strides[i], part.count, axes_[i].step()), dst_strides_[i]};
      src += strides[i] * static_cast<std::int64_t>(part.in_chunk);
      dst += dst_strides_[i] * static_cast<std::int64_t>(part.in_result);
      whole = whole && part.count == shape[i];
    }
    finish(src, dst, whole, detail);
  }

  // Advances `detail` to the next box; false after the last.
  bool next(transfer::TaskDetail& detail) const {
    if (!detail.several) return false;
    transfer::TaskDetail::Walk& walk = detail.walk;
    std::size_t axis = axes_.size();
    while (axis > 0 && ++walk.at[axis - 1] == walk.first[axis - 1] + walk.count[axis - 1]) {
      --axis;
      walk.at[axis] = walk.first[axis];
    }
    if (axis == 0) return false;
    make_box(detail);
    return true;
  }

 private:
  using Strides = std::array<std::int64_t, device::kMaxRank>;

  // Strides of a decoded chunk; computed into `room` if they depend on its shape.
  const std::int64_t* strides_in(const std::uint64_t* shape, Strides& room) const noexcept {
    if (axis_order_.empty()) return src_strides_.data();
    strides_in_chunk(axis_order_, element_bytes_, shape, room.data());
    return room.data();
  }

  // With a single element the step is unused, and it may be too large to multiply.
  static std::int64_t source_stride(std::int64_t stride, std::uint64_t count, std::uint64_t step) {
    return count > 1 ? stride * static_cast<std::int64_t>(step) : 0;
  }

  void finish(std::int64_t src, std::int64_t dst, bool whole, transfer::TaskDetail& detail) const {
    device::Box& box = detail.box;
    box.src = nullptr;
    box.dst = first_ + dst;
    detail.source_offset = src;
    detail.tensor = dst_;
    device::simplify(box, false);
    // Contiguous in the chunk and in the tensor. Whether the bytes are equal depends on the element operation.
    detail.whole_chunk = whole && device::is_contiguous(box, element_bytes_, false);
  }

  void describe_lists(const std::uint64_t* begin, const std::uint64_t* shape, transfer::TaskDetail& detail) const {
    Strides room;
    const std::int64_t* const strides = strides_in(shape, room);
    transfer::TaskDetail::Walk& walk = detail.walk;
    std::int64_t span_begin = 0, span_end = element_bytes_;
    detail.elements = 1;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const Pieces pieces = axes_[i].pieces(begin[i], shape[i]);
      walk.begin[i] = begin[i];
      walk.length[i] = shape[i];
      walk.first[i] = walk.at[i] = pieces.first;
      walk.count[i] = pieces.count;
      detail.several = detail.several || pieces.count > 1;
      std::uint64_t selected = 0;
      for (std::uint64_t p = pieces.first; p < pieces.first + pieces.count; ++p) {
        const Intersection part = axes_[i].piece(p, begin[i], shape[i]);
        selected += part.count;
        if (p == pieces.first) span_begin += strides[i] * static_cast<std::int64_t>(part.in_chunk);
        if (p + 1 == pieces.first + pieces.count) {
          const std::uint64_t last = part.in_chunk + (part.count - 1) * axes_[i].step(p);
          span_end += strides[i] * static_cast<std::int64_t>(last);
        }
      }
      detail.elements *= selected;
    }
    detail.span_begin = static_cast<std::uint64_t>(span_begin);
    detail.span_end = static_cast<std::uint64_t>(span_end);
    make_box(detail);
    if (detail.several) detail.whole_chunk = false;
  }

  void make_box(transfer::TaskDetail& detail) const {
    const transfer::TaskDetail::Walk& walk = detail.walk;
    Strides room;
    const std::int64_t* const strides = strides_in(walk.length.data(), room);
    device::Box& box = detail.box;
    box.rank = static_cast<int>(axes_.size());
    std::int64_t src = 0, dst = 0;
    bool whole = true;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const std::uint64_t number = walk.at[i];
      const Intersection part = axes_[i].piece(number, walk.begin[i], walk.length[i]);
      const std::uint64_t step = axes_[i].step(number);
      box.dim[i] = {part.count, source_stride(strides[i], part.count, step),
                    dst_strides_[i] * axes_[i].result_step(number)};
      src += strides[i] * static_cast<std::int64_t>(part.in_chunk);
      dst += dst_strides_[i] * static_cast<std::int64_t>(part.in_result);
      whole = whole && part.count == walk.length[i] && (step == 1 || part.count == 1);
    }
    finish(src, dst, whole, detail);
  }

  const std::span<const Projection> axes_;
  const std::span<const std::int64_t> src_strides_;
  const std::span<const std::uint8_t> axis_order_;          // not empty: strides depend on a chunk's shape
  std::array<std::int64_t, device::kMaxRank> dst_strides_;  // one per array axis, 0 where dropped
  const std::span<std::byte> dst_;
  std::byte* const first_;
  const std::uint32_t element_bytes_;
  bool lists_ = false;
};

}  // namespace headrace::zarr

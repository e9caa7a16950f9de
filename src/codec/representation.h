// Representation: what the elements of one chunk are on their way into a chain, from codec to codec in encoding order.
//
// [v3/core "Determination of encoded representations"] Array codecs change the type, the shape or the order; the way
// back folds order and byte order into one Layout. Behind a codec that gives other axes (reshape), or to which
// neighbours matter (delta), axes that move are no longer the array's: what comes out of the codecs behind it has to
// be put in order before that codec is undone. Such a step is a Reorder.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstdint>
#include <vector>

#include "codec/codec.h"

namespace headrace::codec {

struct Reorder {
  std::size_t codec_count = 0;       // it stands behind so many codecs, in encoding order
  std::vector<std::uint64_t> shape;  // of what it gives
  std::vector<std::uint8_t>
      stored_order;  // stored_order[i] is the axis of `shape` that is i-th slowest in what it takes
  std::uint32_t item_bytes = 1;
};

class Representation {
 public:
  // An empty axis_order in `layout` stands for C order.
  Representation(const DataType& dtype, std::vector<std::uint64_t> shape, Layout layout);

  // Goes through one codec. kCorrupt or kUnsupported where it cannot take such elements.
  Status enter(const Codec& codec);

  // What array codecs say of themselves, in their own enter().
  //
  // Axis i of what is stored is axis order[i] of what enters. REQUIRES: a permutation of the axes. Several compose by
  // indexing: if axis_order says which array axis each axis was, axis i is then array axis axis_order[order[i]].
  void move_axes(const std::vector<std::uint8_t>& order);
  // The same elements in the same C order have other axes.
  void change_axes(std::vector<std::uint64_t> shape);
  // Elements are encoded to such of another type or value, each by itself or not, so that their order matters.
  void change_values(DataType stored, bool elementwise);
  void set_byte_order(bool swapped) noexcept { layout_.byte_swapped = swapped; }

  const DataType& dtype() const noexcept { return dtype_; }
  const std::vector<std::uint64_t>& shape() const noexcept { return shape_; }
  // In terms of the array's own axes.
  const Layout& layout() const noexcept { return layout_; }
  // A codec has changed values: the elements are no longer the array's.
  bool values_changed() const noexcept { return values_changed_; }
  // In encoding order.
  std::vector<Reorder> reorders() const;

 private:
  DataType dtype_;
  std::vector<std::uint64_t> shape_;
  Layout layout_;
  bool values_changed_ = false;
  std::size_t codec_count_ = 0;
  bool other_axes_ = false;  // axes that move from here on move in open_ and not in layout_
  Reorder open_;
  std::vector<Reorder> closed_;
};

}  // namespace headrace::codec

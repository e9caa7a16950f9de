// Representation: tracks type, shape and layout of a chunk's elements from codec to codec, in encoding order.
//
// [v3/core "Determination of encoded representations"] Array codecs change the type, the shape or the order. Decoding
// folds order and byte order into one Layout. After a codec that gives other axes (reshape), or for which neighbours
// matter (delta), moving axes are no longer the array's own: the output of the later codecs must be reordered before
// that codec is decoded. Such a step is a Reorder.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstdint>
#include <vector>

#include "codec/codec.h"

namespace headrace::codec {

struct Reorder {
  std::size_t codec_count = 0;             // number of codecs before it, in encoding order
  std::vector<std::uint64_t> shape;        // of its output
  std::vector<std::uint8_t> stored_order;  // stored_order[i] is the axis of `shape` that is i-th slowest in its input
  std::uint32_t item_bytes = 1;
};

class Representation {
 public:
  // An empty axis_order in `layout` means C order.
  Representation(const DataType& dtype, std::vector<std::uint64_t> shape, Layout layout);

  // Applies one codec. kCorrupt or kUnsupported if it cannot take such elements.
  Status enter(const Codec& codec);

  // Array codecs call these in their own enter().
  //
  // Stored axis i is axis order[i] of the input. REQUIRES: a permutation of the axes. Permutations compose by indexing:
  // if axis_order maps axes to array axes, then axis i becomes array axis axis_order[order[i]].
  void move_axes(const std::vector<std::uint8_t>& order);
  // The same elements in the same C order get other axes.
  void change_axes(std::vector<std::uint64_t> shape);
  // Elements are encoded to another type or value: elementwise, or not, so that their order matters.
  void change_values(DataType stored, bool elementwise);
  void set_byte_order(bool swapped) noexcept { layout_.byte_swapped = swapped; }

  const DataType& dtype() const noexcept { return dtype_; }
  const std::vector<std::uint64_t>& shape() const noexcept { return shape_; }
  // In terms of the array's own axes.
  const Layout& layout() const noexcept { return layout_; }
  // Whether a codec has changed values, so that the elements are no longer the array's.
  bool values_changed() const noexcept { return values_changed_; }
  // In encoding order.
  std::vector<Reorder> reorders() const;

 private:
  DataType dtype_;
  std::vector<std::uint64_t> shape_;
  Layout layout_;
  bool values_changed_ = false;
  std::size_t codec_count_ = 0;
  bool other_axes_ = false;  // axes that move from here on move in open_ instead of layout_
  Reorder open_;
  std::vector<Reorder> closed_;
};

}  // namespace headrace::codec

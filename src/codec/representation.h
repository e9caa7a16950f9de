// Representation: what the elements of one chunk are on their way into a chain, from codec to codec in encoding order.
//
// [v3/core "Determination of encoded representations"] Array codecs change the type, the shape or the order; the way
// back folds order and byte order into one Layout.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstdint>
#include <vector>

#include "codec/codec.h"

namespace headrace::codec {

class Representation {
 public:
  // An empty axis_order in `layout` stands for C order.
  Representation(const DataType& dtype, std::vector<std::uint64_t> shape, Layout layout);

  // Goes through one array codec. kCorrupt or kUnsupported where the codec cannot take such elements.
  Status enter(const Codec& codec);

  const DataType& dtype() const noexcept { return dtype_; }
  const std::vector<std::uint64_t>& shape() const noexcept { return shape_; }
  // In terms of the array's own axes.
  const Layout& layout() const noexcept { return layout_; }
  // A codec has changed values: the elements are no longer the array's.
  bool values_changed() const noexcept { return values_changed_; }

 private:
  DataType dtype_;
  std::vector<std::uint64_t> shape_;
  Layout layout_;
  bool values_changed_ = false;
  bool order_fixed_ = false;  // a codec behind whose back no axes may move
};

}  // namespace headrace::codec

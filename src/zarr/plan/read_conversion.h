// What ReadOptions ask to be done to each element.
#pragma once

#include <headrace/array.h>
#include <headrace/status.h>

#include <span>
#include <vector>

#include "device/box.h"

namespace headrace::zarr {

// How elements of one array get into the tensor of one read.
struct ReadConversion {
  DataType dtype;                  // of the tensor
  device::ElementOp op;            // from a decoded chunk into the tensor
  std::vector<std::byte> fill;     // one element of the tensor, where nothing is stored
  std::vector<std::byte> damaged;  // likewise, where a chunk is damaged; empty: that ends the read
};

// `stored_op` and `fill` are those of the array without a conversion. `fill_defined`: metadata name a fill value, so
// that elements equal to it are missing ones.
Result<ReadConversion> make_conversion(const DataType& stored, const device::ElementOp& stored_op,
                                       std::span<const std::byte> fill, bool fill_defined, const ReadOptions& options);

}  // namespace headrace::zarr

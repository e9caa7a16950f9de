// The conversion that ReadOptions request for each element.
#pragma once

#include <headrace/array.h>
#include <headrace/status.h>

#include <span>
#include <vector>

#include "device/box.h"

namespace headrace::zarr {

// How elements of one array are converted into the tensor of one read.
struct ReadConversion {
  DataType dtype;                  // of the tensor
  device::ElementOp op;            // from a decoded chunk into the tensor
  std::vector<std::byte> fill;     // one element of the tensor, for absent chunks
  std::vector<std::byte> damaged;  // one element, for damaged chunks; empty: such a chunk ends the read
};

// `stored_op` and `fill` are the array's without conversion. `fill_defined`: the metadata have a fill value, so
// elements equal to it count as missing.
Result<ReadConversion> make_conversion(const DataType& stored, const device::ElementOp& stored_op,
                                       std::span<const std::byte> fill, bool fill_defined, const ReadOptions& options);

}  // namespace headrace::zarr

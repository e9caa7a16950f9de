// Scales and offsets by index, applied to batches that have been read.
#pragma once

#include <headrace/loader.h>

#include <span>
#include <vector>

#include "device/device.h"
#include "loader/batch_layout.h"

namespace headrace::loader {

// Every box of `boxes`, in any order, where it lies; returns once that is done. The elements are complete before.
// Threads: one at a time for a stream.
Status scale_boxes(device::Device& device, device::Stream& stream, std::span<const LoaderArray> arrays,
                   const BatchLayout& layout, std::vector<ScaledBox>& boxes);

}  // namespace headrace::loader

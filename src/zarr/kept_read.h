// Reads of an array whose decoded chunks are kept on the device from one read to the next.
#pragma once

#include <headrace/array.h>
#include <headrace/device.h>

#include <memory>
#include <span>

#include "transfer/read/chunk_cache.h"

namespace headrace::zarr {

// As Array::read_many_async(). kept: null, or a cache of this device that is used for this array only.
Result<Completion> read_many_kept(const Array& array, std::span<const ReadPart> parts, const Device& device,
                                  const ReadOptions& options, std::shared_ptr<transfer::ChunkCache> kept);

}  // namespace headrace::zarr

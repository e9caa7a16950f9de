// Reads of an array whose chunks are kept from one read to the next, and whose elements are worked on behind each.
#pragma once

#include <headrace/array.h>
#include <headrace/device.h>

#include <memory>
#include <span>

#include "transfer/read/read_end.h"

namespace headrace::zarr {

// Whether the array's store has no files, so that its chunks may be kept in memory of the host.
bool is_distant(const Array& array) noexcept;

// As Array::read_many_async(). kept: caches that are used for this array only. end: null for nothing.
Result<Completion> read_many_kept(const Array& array, std::span<const ReadPart> parts, const Device& device,
                                  const ReadOptions& options, transfer::KeptChunks kept,
                                  std::unique_ptr<transfer::ReadEnd> end = nullptr);

}  // namespace headrace::zarr

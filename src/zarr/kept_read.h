// Reads that keep an array's chunks in caches for later reads, and run a ReadEnd on the elements before they complete.
#pragma once

#include <headrace/array.h>
#include <headrace/device.h>

#include <memory>
#include <span>

#include "transfer/read/read_end.h"

namespace headrace::zarr {

// Whether the array's store has no files, so that its chunks may be kept in host memory.
bool has_no_files(const Array& array) noexcept;

// As Array::read_many_async(). kept: caches used for this array only. end: null for none.
Result<Completion> read_many_kept(const Array& array, std::span<const ReadPart> parts, const Device& device,
                                  const ReadOptions& options, transfer::KeptChunks kept,
                                  std::unique_ptr<transfer::ReadEnd> end = nullptr);

}  // namespace headrace::zarr

// Loads saved decode indices into the cache that reads use.
#pragma once

#include <headrace/decode_index.h>

#include <string>

#include "zarr/array/array_impl.h"
#include "zarr/index/index_file.h"

namespace headrace::zarr {

// Returns a line that reports how much the file in `directory` holds, or why it is not used. An unusable file is not a
// failure. kInvalidArgument: no memory is set aside for indices. Throws std::bad_alloc.
Result<std::string> load_decode_index(const Array::Impl& array, const std::string& directory);

}  // namespace headrace::zarr

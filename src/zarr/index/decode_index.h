// Decode indices that were saved, put where reads look for them.
#pragma once

#include <headrace/decode_index.h>

#include <string>

#include "zarr/array/array_impl.h"
#include "zarr/index/index_file.h"

namespace headrace::zarr {

// What has become of the file in `directory`, in a line: how much it holds, or why it is not used. Files that cannot be
// used are no failure. kInvalidArgument where no memory is set aside for indices. Throws std::bad_alloc.
Result<std::string> load_decode_index(const Array::Impl& array, const std::string& directory);

}  // namespace headrace::zarr

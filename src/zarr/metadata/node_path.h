// Names of nodes in a hierarchy.
//
// Threads: pure functions.
#pragma once

#include <headrace/status.h>

#include <string>
#include <string_view>

namespace headrace::zarr {

// Whether a node may have `path` (not the root's). v3 ("v3/core", node names): no name may be empty, consist only of
// periods, be "zarr.json" or begin with "__" (allowed if `reserved`). v2 ("v2", logical paths): no name may be empty,
// "." or "..". Stores here also refuse names of more than 255 bytes, or with a backslash or NUL.
bool valid_node_path(std::string_view path, int zarr_format, bool reserved = false) noexcept;

// Normalises a path written by a user: backslashes become slashes, repeated slashes become one, and leading and
// trailing slashes are removed ("v2", logical paths). "" is the root. kInvalidArgument: not a valid path in either
// format.
Result<std::string> normalize_path(std::string_view path);

}  // namespace headrace::zarr

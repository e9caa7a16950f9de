// Names of nodes in a hierarchy.
//
// Threads: pure functions.
#pragma once

#include <headrace/status.h>

#include <string>
#include <string_view>

namespace headrace::zarr {

// Whether a node may lie at `path`, which is not the root's. v3 ("v3/core", node names): no name is empty, only
// periods, "zarr.json" or begins with "__". v2 ("v2", logical paths): no name is empty, "." or "..". No store here
// takes a name of more than 255 bytes, or with a backslash or NUL. `reserved`: names that begin with "__" pass.
bool valid_node_path(std::string_view path, int zarr_format, bool reserved = false) noexcept;

// A path as users write it to one of ours: slashes around it are taken away and several become one, as does a
// backslash ("v2", logical paths). "" is the root. kInvalidArgument for what no format has a name for.
Result<std::string> normalize_path(std::string_view path);

}  // namespace headrace::zarr

// Walking a hierarchy in its store, for listings.
#pragma once

#include <headrace/status.h>

#include <functional>
#include <string>

#include "store/store.h"
#include "zarr/node_io.h"

namespace headrace::zarr {

// Called for each node, and for each folder whose metadata cannot be read (the status is then never kNotFound).
using VisitNode = std::function<void(const std::string& path, Result<LoadedNode> node)>;

// Visits what lies below `path`, parents before children, siblings by name; only what lies directly below unless
// `recursive`. Folders that are no nodes are passed over: v2 groups may be implied by nothing but their children, v3
// has no implied groups, and neither hides a node below.
Status walk_below(store::Store& store, const std::string& path, const LoadOptions& options, bool recursive,
                  const VisitNode& visit);

// Whether `path`, where there is no metadata, is a group of Zarr v2 all the same: an array or a group of v2 lies
// directly below. Looks at no more than the first thousand entries.
bool is_implied_v2_group(store::Store& store, const std::string& path);

}  // namespace headrace::zarr

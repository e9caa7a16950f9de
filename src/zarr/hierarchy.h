// Walks a hierarchy in its store, for listings.
#pragma once

#include <headrace/status.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "store/store.h"
#include "zarr/metadata/node_io.h"

namespace headrace::zarr {

// Called for each node, and for each folder whose metadata cannot be read (the status is then never kNotFound). A
// failure ends the walk.
using VisitNode = std::function<Status(const std::string& path, Result<LoadedNode> node)>;

// Visits the nodes below `path` in no particular order; only direct children unless `recursive`. Folders that are not
// nodes are not reported, but the walk continues below them: a v2 group may be implied by its children alone, and v3
// has no implied groups.
//
// A directory's contents are visited once, however many symbolic links lead to it, and under its own path if that lies
// below `path`. A folder nested too deep is visited with a status that says so. kResourceExhausted: options.memory has
// too little room for listings.
Status walk_below(store::Store& store, const std::string& path, const LoadOptions& options, bool recursive,
                  const VisitNode& visit);

// Sorts by Item::path: parents before children, siblings by name.
template <class Item>
void sort_by_path(std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return path_before(a.path, b.path); });
}

// Whether `path`, which has no metadata, is an implied group of Zarr v2: a v2 array or group lies directly below it.
// Looks at the first thousand entries only.
bool is_implied_v2_group(store::Store& store, const std::string& path, const LoadOptions& options);

// Whether `path`, which has no metadata, is a folder with Zarr v3 nodes directly below it. It is not a group, since v3
// groups need a document, but it is worth listing.
bool is_folder_of_v3(store::Store& store, const std::string& path, const LoadOptions& options);

}  // namespace headrace::zarr

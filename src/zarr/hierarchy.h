// Walking a hierarchy in its store, for listings.
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

// Visits what lies below `path`, in no order; only what lies directly below unless `recursive`. Folders that are no
// nodes are passed over: v2 groups may be implied by nothing but their children, v3 has no implied groups, and neither
// hides a node below.
//
// What lies below a directory is visited once, however many symbolic links lead to it, by its own path where that lies
// below `path`, too. A folder nested too deep is visited with the status that says so. kResourceExhausted where
// options.memory has too little for listings.
Status walk_below(store::Store& store, const std::string& path, const LoadOptions& options, bool recursive,
                  const VisitNode& visit);

// Sorts by Item::path: parents before children, siblings by name.
template <class Item>
void sort_by_path(std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return path_before(a.path, b.path); });
}

// Whether `path`, where there is no metadata, is a group of Zarr v2 all the same: an array or a group of v2 lies
// directly below. Looks at no more than the first thousand entries.
bool is_implied_v2_group(store::Store& store, const std::string& path, const LoadOptions& options);

// Whether `path`, where there is no metadata, is a folder with nodes of Zarr v3 directly below. No group, as v3 has
// none without a document, but worth listing.
bool is_folder_of_v3(store::Store& store, const std::string& path, const LoadOptions& options);

}  // namespace headrace::zarr

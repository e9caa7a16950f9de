// Finding nodes of a hierarchy in a store and reading their metadata documents.
#pragma once

#include <headrace/status.h>

#include <optional>
#include <string>
#include <string_view>

#include "store/store.h"
#include "zarr/metadata.h"

namespace headrace::zarr {

struct LoadedNode {
  std::string key;                     // of the document that defines the node
  std::optional<ArrayMetadata> array;  // one of these two is set
  std::optional<GroupMetadata> group;
};

// The node at `path` ("" = root). Zarr v3 is looked for first; a path that holds both formats is read as v3.
// kNotFound: no metadata document there.
Result<LoadedNode> load_node(store::Store& store, std::string_view path);

}  // namespace headrace::zarr

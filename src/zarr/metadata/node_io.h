// Finds nodes of a hierarchy in a store and reads their metadata documents.
#pragma once

#include <headrace/status.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/store.h"
#include "zarr/metadata/consolidated.h"
#include "zarr/metadata/lenient.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {

struct LoadedNode {
  std::string key;                     // of the document that defines the node
  std::optional<ArrayMetadata> array;  // one of these two is set
  std::optional<GroupMetadata> group;
  std::shared_ptr<const Consolidated> consolidated;  // of a group that has it, if requested
  Lenient lenient;                                   // leniencies used
  base::Charge memory;  // upper bound of what reading the node takes, without `consolidated`
};

struct LoadOptions {
  Lenient lenient;
  bool consolidated = false;
  std::shared_ptr<base::MemoryBudget> memory = {};  // null: no limit
};

// Approximate memory that an open array keeps for its metadata.
std::uint64_t kept_bytes(const ArrayMetadata& array);

// The node at `path` ("" = root). Zarr v3 is tried first; a path that holds both formats is read as v3.
// kNotFound: no metadata document there. kInvalidArgument: not a valid node path.
Result<LoadedNode> load_node(store::Store& store, std::string_view path, const LoadOptions& options = {});

// Parses a node of consolidated metadata. `key` names its document in messages.
Result<LoadedNode> parse_node(const ConsolidatedNode& node, int zarr_format, std::string key,
                              const LoadOptions& options);

std::string join_path(std::string_view path, std::string_view name);

}  // namespace headrace::zarr

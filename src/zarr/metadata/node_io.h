// Finding nodes of a hierarchy in a store and reading their metadata documents.
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
  std::shared_ptr<const Consolidated> consolidated;  // of a group that has it, if asked for
  Lenient lenient;                                   // what was let pass
  base::Charge memory;                               // what reading it takes at most: not of `consolidated`
};

struct LoadOptions {
  Lenient lenient;
  bool consolidated = false;
  std::shared_ptr<base::MemoryBudget> memory = {};  // null: no limit
};

// What an array that stays open keeps of its metadata, about.
std::uint64_t kept_bytes(const ArrayMetadata& array);

// The node at `path` ("" = root). Zarr v3 is looked for first; a path that holds both formats is read as v3.
// kNotFound: no metadata document there. kInvalidArgument: a path that no node can have.
Result<LoadedNode> load_node(store::Store& store, std::string_view path, const LoadOptions& options = {});

// A node from consolidated metadata. `key`: what to call its document in messages.
Result<LoadedNode> parse_node(const ConsolidatedNode& node, int zarr_format, std::string key,
                              const LoadOptions& options);

std::string join_path(std::string_view path, std::string_view name);

}  // namespace headrace::zarr

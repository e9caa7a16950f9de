// Consolidated metadata: one document that contains the documents of all nodes below a group.
//
// Zarr v2 keeps it in `.zmetadata` (a convention of zarr-python), v3 in the member "consolidated_metadata" of the
// group's zarr.json ("v3/core", additional fields). The document can be large, and a caller rarely needs most of it.
// One pass over the text checks it and splits it into nodes; a node is parsed only on request.
//
// Threads: immutable once made.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_scan.h"
#include "store/store.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {

// The views point into the document that Consolidated owns. Each is a valid JSON value, or empty.
struct ConsolidatedNode {
  std::string path;                   // relative to the group, "" for the group itself (v2 only)
  bool is_array = false;              // otherwise a group
  std::string_view document;          // zarr.json, .zarray or .zgroup
  std::string_view attributes;        // v2: .zattrs
  std::string_view shape, data_type;  // of `document`; set for arrays only
};

class Consolidated {
 public:
  // `.zmetadata`. kCorrupt: not JSON, the wrong form, or an invalid node path.
  // `memory` already holds the document's bytes. The nodes are charged to it too, and Consolidated keeps all of it
  // while it lives. kResourceExhausted: no room for the nodes.
  static Result<std::shared_ptr<const Consolidated>> parse_v2(store::Bytes document, base::Charge memory = {});
  // A group's zarr.json. Sets *group_text to the document without its consolidated metadata, for parse_v3_group.
  // Returns null if the document has none.
  static Result<std::shared_ptr<const Consolidated>> parse_v3(store::Bytes document, base::Charge memory,
                                                              std::string* group_text, bool reserved_names = false);

  int zarr_format() const noexcept { return zarr_format_; }
  // Parents come before children, siblings are sorted by name.
  const std::vector<ConsolidatedNode>& nodes() const noexcept { return nodes_; }
  const ConsolidatedNode* find(std::string_view path) const noexcept;
  // The nodes below `path`. In v2, having any makes `path` an implied group.
  std::span<const ConsolidatedNode> below(std::string_view path) const noexcept;
  bool has_below(std::string_view path) const noexcept { return !below(path).empty(); }

 private:
  Consolidated(int zarr_format, store::Bytes document, base::Charge memory)
      : memory_(std::move(memory)), zarr_format_(zarr_format), document_(std::move(document)) {}
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(document_.data()), document_.size()}; }
  std::vector<ConsolidatedNode>::const_iterator lower_bound(std::string_view path) const noexcept;
  Status add(ConsolidatedNode node);
  Status scan_v2_entries(base::JsonScanner& scanner);
  Status scan_v3_nodes(base::JsonScanner& scanner, bool reserved_names);
  Status finish();

  base::Charge memory_;
  int zarr_format_;
  store::Bytes document_;
  std::vector<ConsolidatedNode> nodes_;
};

// Order of hierarchy paths: parents come before children, siblings are sorted by name.
bool path_before(std::string_view a, std::string_view b) noexcept;

}  // namespace headrace::zarr

// Consolidated metadata: the documents of all nodes below a group, in one.
//
// Zarr v2 keeps it in `.zmetadata` (a convention of zarr-python), v3 in the member "consolidated_metadata" of the
// group's zarr.json ("v3/core", additional fields). Such a document can be large, and most of it is not wanted: it is
// checked and cut into nodes by one pass over the text, and a node is parsed when it is asked for.
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

// All views are parts of the document that the Consolidated holds; each is a valid JSON value, or empty.
struct ConsolidatedNode {
  std::string path;                   // relative to the group, "" for the group itself (v2 only)
  bool is_array = false;              // otherwise a group
  std::string_view document;          // zarr.json, .zarray or .zgroup
  std::string_view attributes;        // v2: .zattrs
  std::string_view shape, data_type;  // of `document`, where it is an array's
};

class Consolidated {
 public:
  // `.zmetadata`. kCorrupt for what is not JSON, has another form, or names what no node can be called.
  // `memory` holds what the document takes; the nodes are taken as well, and all of it is kept for as long as they are:
  // kResourceExhausted.
  static Result<std::shared_ptr<const Consolidated>> parse_v2(store::Bytes document, base::Charge memory = {});
  // A group's zarr.json. *group_text becomes the document less its consolidated metadata, for parse_v3_group. Null
  // where the document has none.
  static Result<std::shared_ptr<const Consolidated>> parse_v3(store::Bytes document, base::Charge memory,
                                                              std::string* group_text, bool reserved_names = false);

  int zarr_format() const noexcept { return zarr_format_; }
  // Parents before children, siblings by name.
  const std::vector<ConsolidatedNode>& nodes() const noexcept { return nodes_; }
  const ConsolidatedNode* find(std::string_view path) const noexcept;
  // The nodes below `path`; v2 groups may be implied by that alone.
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

// Order of hierarchy paths: parents before children, siblings by name.
bool path_before(std::string_view a, std::string_view b) noexcept;

}  // namespace headrace::zarr

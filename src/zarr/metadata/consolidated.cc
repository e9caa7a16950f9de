#include "zarr/metadata/consolidated.h"

#include <algorithm>

#include "base/json_scan.h"
#include "zarr/metadata/metadata_text.h"
#include "zarr/metadata/node_path.h"

namespace headrace::zarr {
namespace {

using base::Json;
using base::JsonScanner;

// A node costs some 150 bytes of memory, but only five bytes of a hostile document.
constexpr std::size_t kMaxNodes = std::size_t{1} << 20;
constexpr base::JsonLimits kLimits{.max_bytes = base::kLargeDocumentBytes};
constexpr std::string_view kV3Where = "consolidated_metadata";
constexpr std::string_view kV3Form = "an object with must_understand: false, kind: \"inline\" and an object 'metadata'";

Status too_many_nodes() {
  return unsupported("consolidated metadata of more than " + std::to_string(kMaxNodes) + " nodes");
}

Status wrong_path(std::string_view path) {
  return corrupt("consolidated metadata names " + quote(path) + ", which is not a valid node path");
}

// Records what a listing needs of the node's document, which is the next value of `scanner`.
Status scan_node(JsonScanner& scanner, ConsolidatedNode& node, std::string_view dtype_key) {
  HEADRACE_TRY_ASSIGN(const bool is_object, scanner.enter_object());
  if (!is_object) return corrupt("consolidated metadata of " + quote(node.path) + " must be an object");
  std::string_view key;
  for (;;) {
    HEADRACE_TRY_ASSIGN(const bool more, scanner.next_key(key));
    if (!more) return {};
    const bool is_shape = key == "shape", is_type = key == dtype_key, is_node_type = key == "node_type";
    HEADRACE_TRY_ASSIGN(const std::string_view value, scanner.skip_value());
    if (is_shape) node.shape = value;
    if (is_type) node.data_type = value;
    if (is_node_type && dtype_key == "data_type") node.is_array = value == "\"array\"";
  }
}

}  // namespace

Status Consolidated::add(ConsolidatedNode node) {
  if (nodes_.size() == kMaxNodes) return too_many_nodes();
  // Covers the growing list, and merging and sorting it.
  constexpr std::uint64_t kNodeBytes = 2 * sizeof(ConsolidatedNode) + 32;
  HEADRACE_TRY(memory_.take(kNodeBytes + node.path.size(), "the nodes of consolidated metadata"));
  nodes_.push_back(std::move(node));
  return {};
}

// Scans the object "metadata" of v3: path -> zarr.json. It is the next value of `scanner`.
Status Consolidated::scan_v3_nodes(JsonScanner& scanner, bool reserved_names) {
  std::string_view key;
  for (;;) {
    HEADRACE_TRY_ASSIGN(const bool more, scanner.next_key(key));
    if (!more) return {};
    if (!valid_node_path(key, 3, reserved_names)) return wrong_path(key);
    ConsolidatedNode node;
    node.path = key;
    const std::size_t before = scanner.next_position();
    HEADRACE_TRY(scan_node(scanner, node, "data_type"));
    node.document = text().substr(before, scanner.position() - before);
    HEADRACE_TRY(add(std::move(node)));
  }
}

// Scans the object "metadata" of v2: "path/.zarray" and so on -> document. It is the next value of `scanner`.
Status Consolidated::scan_v2_entries(JsonScanner& scanner) {
  std::string_view key;
  for (;;) {
    HEADRACE_TRY_ASSIGN(const bool more, scanner.next_key(key));
    if (!more) return {};
    const std::size_t slash = key.rfind('/');
    const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
    if (name != ".zarray" && name != ".zgroup" && name != ".zattrs") {
      HEADRACE_TRY(scanner.skip_value().status());  // not a document of Zarr v2
      continue;
    }
    ConsolidatedNode node;
    if (slash != std::string_view::npos) node.path = key.substr(0, slash);
    if (slash != std::string_view::npos && !valid_node_path(node.path, 2)) return wrong_path(node.path);
    node.is_array = name == ".zarray";
    const bool is_attributes = name == ".zattrs";
    const std::size_t before = scanner.next_position();
    HEADRACE_TRY(scan_node(scanner, node, "dtype"));
    const std::string_view document = text().substr(before, scanner.position() - before);
    (is_attributes ? node.attributes : node.document) = document;
    if (!node.is_array) node.shape = node.data_type = {};
    HEADRACE_TRY(add(std::move(node)));
  }
}

bool path_before(std::string_view a, std::string_view b) noexcept {
  const std::size_t length = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < length; ++i) {
    if (a[i] == b[i]) continue;
    if (a[i] == '/' || b[i] == '/') return a[i] == '/';
    return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[i]);
  }
  return a.size() < b.size();
}

// Sorts the nodes. In v2, merges up to three entries into one node.
Status Consolidated::finish() {
  const auto before = [](const ConsolidatedNode& a, const ConsolidatedNode& b) { return path_before(a.path, b.path); };
  if (!std::is_sorted(nodes_.begin(), nodes_.end(), before)) std::stable_sort(nodes_.begin(), nodes_.end(), before);
  if (zarr_format_ == 3) return {};
  std::vector<ConsolidatedNode> merged;
  for (ConsolidatedNode& node : nodes_) {
    if (merged.empty() || merged.back().path != node.path) {
      merged.push_back(std::move(node));
      continue;
    }
    ConsolidatedNode& into = merged.back();
    if (!node.attributes.empty()) {
      into.attributes = node.attributes;
    } else if (into.document.empty() || node.is_array) {  // a path that is both an array and a group is an array
      into.is_array = node.is_array;
      into.document = node.document;
      into.shape = node.shape;
      into.data_type = node.data_type;
    }
  }
  // Attributes without a node.
  std::erase_if(merged, [](const ConsolidatedNode& node) { return node.document.empty(); });
  nodes_ = std::move(merged);
  return {};
}

Result<std::shared_ptr<const Consolidated>> Consolidated::parse_v2(store::Bytes document, base::Charge memory) {
  std::shared_ptr<Consolidated> out(new Consolidated(2, std::move(document), std::move(memory)));
  JsonScanner scanner(out->text(), true, kLimits, &out->memory_);
  HEADRACE_TRY_ASSIGN(const bool is_object, scanner.enter_object());
  if (!is_object) return corrupt(".zmetadata must be a JSON object");
  bool has_format = false, has_metadata = false;
  std::string_view key;
  for (;;) {
    HEADRACE_TRY_ASSIGN(const bool more, scanner.next_key(key));
    if (!more) break;
    if (key == "metadata") {
      has_metadata = true;
      HEADRACE_TRY_ASSIGN(const bool is_map, scanner.enter_object());
      if (!is_map) return corrupt("metadata in .zmetadata must be an object");
      HEADRACE_TRY(out->scan_v2_entries(scanner));
      continue;
    }
    const bool is_format = key == "zarr_consolidated_format";
    HEADRACE_TRY_ASSIGN(const std::string_view value, scanner.skip_value());
    if (!is_format) continue;
    has_format = true;
    if (value != "1") return corrupt("zarr_consolidated_format of .zmetadata must be 1, not " + quote(value));
  }
  HEADRACE_TRY(scanner.finish());
  if (!has_format) return corrupt(".zmetadata has no 'zarr_consolidated_format', which is required");
  if (!has_metadata) return corrupt(".zmetadata has no 'metadata', which is required");
  HEADRACE_TRY(out->finish());
  return std::shared_ptr<const Consolidated>(std::move(out));
}

Result<std::shared_ptr<const Consolidated>> Consolidated::parse_v3(store::Bytes document, base::Charge memory,
                                                                   std::string* group_text, bool reserved_names) {
  std::shared_ptr<Consolidated> out(new Consolidated(3, std::move(document), std::move(memory)));
  const std::string_view text = out->text();
  // Non-finite numbers are accepted here and checked when a node is parsed.
  JsonScanner scanner(text, true, kLimits, &out->memory_);
  HEADRACE_TRY_ASSIGN(const bool is_object, scanner.enter_object());
  if (!is_object) return corrupt("zarr.json must be a JSON object");
  group_text->assign("{");
  bool found = false;
  std::string_view key;
  for (;;) {
    HEADRACE_TRY_ASSIGN(const bool more, scanner.next_key(key));
    if (!more) break;
    const std::size_t before = scanner.next_position();
    const std::string name(key);
    if (name != kV3Where || scanner.peek() != '{') {  // parse_v3_group checks null
      HEADRACE_TRY(scanner.skip_value().status());
      const std::size_t added = name.size() + (scanner.position() - before);
      if (group_text->size() + added > base::JsonLimits().max_bytes) {
        return Status(Code::kResourceExhausted, Layer::kZarr,
                      "a group's metadata of more than " + std::to_string(base::JsonLimits().max_bytes) +
                          " bytes beside its consolidated metadata");
      }
      if (group_text->size() > 1) *group_text += ',';
      *group_text += Json(name).dump();
      *group_text += ':';
      group_text->append(text.substr(before, scanner.position() - before));
      continue;
    }
    found = true;
    HEADRACE_TRY(scanner.enter_object().status());
    bool optional = false, is_inline = false, has_metadata = false;
    for (;;) {
      HEADRACE_TRY_ASSIGN(const bool inner, scanner.next_key(key));
      if (!inner) break;
      if (key == "metadata") {
        HEADRACE_TRY_ASSIGN(has_metadata, scanner.enter_object());
        if (!has_metadata) break;
        HEADRACE_TRY(out->scan_v3_nodes(scanner, reserved_names));
        continue;
      }
      const bool is_flag = key == "must_understand", is_kind = key == "kind";
      HEADRACE_TRY_ASSIGN(const std::string_view value, scanner.skip_value());
      if (is_flag) optional = value == "false";
      if (is_kind) is_inline = value == "\"inline\"";
    }
    if (!optional || !is_inline || !has_metadata) {
      return corrupt(std::string(kV3Where) + " must be " + std::string(kV3Form));
    }
  }
  HEADRACE_TRY(scanner.finish());
  *group_text += '}';
  HEADRACE_TRY(out->finish());
  return found ? std::shared_ptr<const Consolidated>(std::move(out)) : nullptr;
}

std::vector<ConsolidatedNode>::const_iterator Consolidated::lower_bound(std::string_view path) const noexcept {
  return std::lower_bound(nodes_.begin(), nodes_.end(), path, [](const ConsolidatedNode& node, std::string_view value) {
    return path_before(node.path, value);
  });
}

const ConsolidatedNode* Consolidated::find(std::string_view path) const noexcept {
  const auto found = lower_bound(path);
  return found != nodes_.end() && found->path == path ? &*found : nullptr;
}

std::span<const ConsolidatedNode> Consolidated::below(std::string_view path) const noexcept {
  auto first = lower_bound(path), last = nodes_.end();
  if (first != nodes_.end() && first->path == path) ++first;
  if (!path.empty()) {
    last = std::partition_point(first, nodes_.end(), [path](const ConsolidatedNode& node) {
      return node.path.size() > path.size() && node.path[path.size()] == '/' &&
             std::string_view(node.path).substr(0, path.size()) == path;
    });
  }
  return {first, last};
}

}  // namespace headrace::zarr

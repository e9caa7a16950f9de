#include "zarr/node_io.h"

#include "zarr/metadata_text.h"
#include "zarr/node_path.h"

namespace headrace::zarr {
namespace {

constexpr std::string_view kConsolidatedKey = "\"consolidated_metadata\"";

std::string_view as_text(const store::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The object, or nothing where there is none. What may hold consolidated metadata may be large; whatever is parsed has
// the parser's own limit besides.
Result<std::optional<store::Bytes>> get_if_present(store::Store& store, const std::string& key,
                                                   std::uint64_t limit = base::JsonLimits().max_bytes) {
  auto document = store.get(key, limit);
  if (document.ok()) return std::optional<store::Bytes>(std::move(*document));
  if (document.status().code() == Code::kNotFound) return std::optional<store::Bytes>();
  return std::move(document).status();
}

Lenient* if_any(Lenient& lenient) { return lenient.any() ? &lenient : nullptr; }

void set_v2_attributes(ArrayMetadata& array, base::Json attributes) {
  array.attributes = std::move(attributes);
  // xarray and netCDF name v2 dimensions in this attribute; anything else it may hold is the user's own.
  auto names = array.attributes.find("_ARRAY_DIMENSIONS");
  if (names == array.attributes.end() || !names->is_array() || names->size() != array.shape.size()) return;
  for (const auto& name : *names) {
    if (name.is_string()) array.dimension_names.emplace_back(name.get<std::string>());
  }
  if (array.dimension_names.size() != array.shape.size()) array.dimension_names.clear();
}

Status parse_v3(std::string_view text, LoadedNode& node) {
  auto parsed = parse_v3_node(text, if_any(node.lenient));
  if (!parsed.ok()) return std::move(parsed).status().with_key(node.key);
  node.array = std::move(parsed->array);
  node.group = std::move(parsed->group);
  return {};
}

// A document that may hold consolidated metadata is never parsed as a whole: it can be megabytes.
Status load_v3(store::Bytes document, bool keep_consolidated, LoadedNode& node) {
  if (as_text(document).find(kConsolidatedKey) == std::string_view::npos) return parse_v3(as_text(document), node);
  std::string rest;
  auto consolidated = Consolidated::parse_v3(document, &rest, node.lenient.allows(Leniency::kReservedNames));
  if (!consolidated.ok()) {
    // What the parser says of a document that is malformed elsewhere names the member.
    if (document.size() <= base::JsonLimits().max_bytes) HEADRACE_TRY(parse_v3(as_text(document), node));
    return std::move(consolidated).status().with_key(node.key);
  }
  // An array may have no such member, which only the whole document shows.
  if (*consolidated == nullptr) return parse_v3(as_text(document), node);
  HEADRACE_TRY(parse_v3(rest, node));
  if (!node.group) return parse_v3(as_text(document), node);
  node.group->has_consolidated = true;
  if (keep_consolidated) node.consolidated = std::move(*consolidated);
  return {};
}

Result<base::Json> load_v2_attributes(store::Store& store, std::string_view path) {
  const std::string key = join_path(path, ".zattrs");
  HEADRACE_TRY_ASSIGN(const auto document, get_if_present(store, key));
  if (!document) return base::Json::object();
  auto parsed = parse_v2_attributes(as_text(*document));
  if (!parsed.ok()) return std::move(parsed).status().with_key(key);
  return parsed;
}

}  // namespace

std::string join_path(std::string_view path, std::string_view name) {
  std::string key(path);
  if (!key.empty() && !name.empty()) key += '/';
  key += name;
  return key;
}

Result<LoadedNode> parse_node(const ConsolidatedNode& from, int zarr_format, std::string key, const Lenient& lenient) {
  LoadedNode node;
  node.key = std::move(key);
  node.lenient = lenient;
  if (zarr_format == 3) {
    HEADRACE_TRY(parse_v3(from.document, node));
    return node;
  }
  base::Json attributes = base::Json::object();
  if (!from.attributes.empty()) {
    auto parsed = parse_v2_attributes(from.attributes);
    if (!parsed.ok()) return std::move(parsed).status().with_key(node.key);
    attributes = std::move(*parsed);
  }
  if (from.is_array) {
    auto array = parse_v2_array(from.document, if_any(node.lenient));
    if (!array.ok()) return std::move(array).status().with_key(node.key);
    node.array = std::move(*array);
    set_v2_attributes(*node.array, std::move(attributes));
  } else {
    auto group = parse_v2_group(from.document, if_any(node.lenient));
    if (!group.ok()) return std::move(group).status().with_key(node.key);
    node.group = std::move(*group);
    node.group->attributes = std::move(attributes);
  }
  return node;
}

Result<LoadedNode> load_node(store::Store& store, std::string_view path, const LoadOptions& options) {
  if (!path.empty()) HEADRACE_TRY(store::check_key(path));
  LoadedNode node;
  node.lenient = options.lenient;
  node.key = join_path(path, "zarr.json");
  HEADRACE_TRY_ASSIGN(auto v3, get_if_present(store, node.key, base::kLargeDocumentBytes));
  if (v3) {
    const bool by_the_rules = path.empty() || valid_node_path(path, 3);
    if (!by_the_rules && !(valid_node_path(path, 3, true) &&
                           node.lenient.use(Leniency::kReservedNames, "'" + std::string(path) + "'"))) {
      return Status(Code::kInvalidArgument, Layer::kZarr,
                    "no node of Zarr v3 can be called so: a name must not be only periods, begin with '__' (which the "
                    "leniency 'reserved-names' lets pass) or be 'zarr.json'")
          .with_key(path);
    }
    HEADRACE_TRY(load_v3(std::move(*v3), options.consolidated, node));
    return node;
  }
  node.key = join_path(path, ".zarray");
  HEADRACE_TRY_ASSIGN(const auto array_document, get_if_present(store, node.key));
  if (array_document) {
    auto array = parse_v2_array(as_text(*array_document), if_any(node.lenient));
    if (!array.ok()) return std::move(array).status().with_key(node.key);
    HEADRACE_TRY_ASSIGN(auto attributes, load_v2_attributes(store, path));
    node.array = std::move(*array);
    set_v2_attributes(*node.array, std::move(attributes));
    return node;
  }
  if (options.consolidated) {
    const std::string key = join_path(path, ".zmetadata");
    HEADRACE_TRY_ASSIGN(auto document, get_if_present(store, key, base::kLargeDocumentBytes));
    if (document) {
      auto consolidated = Consolidated::parse_v2(std::move(*document));
      if (!consolidated.ok()) return std::move(consolidated).status().with_key(key);
      node.consolidated = std::move(*consolidated);
      const ConsolidatedNode* self = node.consolidated->find("");
      if (self != nullptr) {
        HEADRACE_TRY_ASSIGN(LoadedNode parsed, parse_node(*self, 2, key, options.lenient));
        parsed.consolidated = std::move(node.consolidated);
        return parsed;
      }
    }
  }
  node.key = join_path(path, ".zgroup");
  HEADRACE_TRY_ASSIGN(const auto group_document, get_if_present(store, node.key));
  if (group_document) {
    auto group = parse_v2_group(as_text(*group_document), if_any(node.lenient));
    if (!group.ok()) return std::move(group).status().with_key(node.key);
    HEADRACE_TRY_ASSIGN(auto attributes, load_v2_attributes(store, path));
    node.group = std::move(*group);
    node.group->attributes = std::move(attributes);
    return node;
  }
  if (node.consolidated != nullptr) {  // nodes below, and only they say that this is a group
    node.group.emplace();
    node.group->zarr_format = 2;
    return node;
  }
  return Status(Code::kNotFound, Layer::kZarr,
                "no Zarr node here: neither zarr.json, .zarray nor .zgroup exists at '" + std::string(path) + "' in " +
                    store.url());
}

}  // namespace headrace::zarr

#include "zarr/metadata/node_io.h"

#include "base/json_budget.h"
#include "zarr/metadata/metadata_text.h"
#include "zarr/metadata/node_path.h"

namespace headrace::zarr {
namespace {

constexpr std::string_view kConsolidatedKey = "\"consolidated_metadata\"";

std::string_view as_text(const store::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The object, or nullopt if it does not exist. `limit` is higher for documents with consolidated metadata, which may be
// large; the parser applies its own limit to what it parses.
Result<std::optional<store::Bytes>> get_if_present(store::Store& store, const std::string& key, base::Charge& memory,
                                                   std::uint64_t limit = base::JsonLimits().max_bytes) {
  auto document = store.get(key, limit, &memory);
  if (document.ok()) return std::optional<store::Bytes>(std::move(*document));
  if (document.status().code() == Code::kNotFound) return std::optional<store::Bytes>();
  return std::move(document).status();
}

Lenient* if_any(Lenient& lenient) { return lenient.any() ? &lenient : nullptr; }

void set_v2_attributes(ArrayMetadata& array, base::Json attributes) {
  array.attributes = std::move(attributes);
  // xarray and netCDF name v2 dimensions in this attribute. Any other value in it is the user's own.
  auto names = array.attributes.find("_ARRAY_DIMENSIONS");
  if (names == array.attributes.end() || !names->is_array() || names->size() != array.shape.size()) return;
  for (const auto& name : *names) {
    if (name.is_string()) array.dimension_names.emplace_back(name.get<std::string>());
  }
  if (array.dimension_names.size() != array.shape.size()) array.dimension_names.clear();
}

// Charges the most that parsing `text` can take, before parsing.
Status reserve_parsing(std::string_view text, LoadedNode& node) {
  return node.memory.take(base::max_parse_bytes(text.size()), "parsing a metadata document").with_key(node.key);
}

Status parse_v3(std::string_view text, LoadedNode& node) {
  HEADRACE_TRY(reserve_parsing(text, node));
  auto parsed = parse_v3_node(text, if_any(node.lenient));
  if (!parsed.ok()) return std::move(parsed).status().with_key(node.key);
  node.array = std::move(parsed->array);
  node.group = std::move(parsed->group);
  return {};
}

// Loads a v3 node. A document with consolidated metadata can have megabytes, so it is never parsed as a whole. `memory`
// already holds the document's bytes.
Status load_v3(store::Bytes document, base::Charge memory, bool keep_consolidated, LoadedNode& node) {
  if (as_text(document).find(kConsolidatedKey) == std::string_view::npos) return parse_v3(as_text(document), node);
  // The whole document is parsed after all if it turns out not to have the member, or is malformed: the parser's
  // message names the member. A document above the parser's size limit is refused by its size.
  store::Bytes whole;
  const std::uint64_t bytes = document.size();
  if (bytes <= base::JsonLimits().max_bytes) {
    HEADRACE_TRY(node.memory.take(bytes, "a metadata document").with_key(node.key));
    whole = document;
  }
  const auto parse_whole = [&] {
    if (whole.size() == bytes) return parse_v3(as_text(whole), node);
    return Status(Code::kResourceExhausted, Layer::kZarr,
                  "a document of " + std::to_string(bytes) + " bytes without consolidated metadata is too large")
        .with_key(node.key);
  };
  std::string rest;
  auto consolidated = Consolidated::parse_v3(std::move(document), std::move(memory), &rest,
                                             node.lenient.allows(Leniency::kReservedNames));
  if (!consolidated.ok()) {
    if (consolidated.status().code() != Code::kResourceExhausted && whole.size() == bytes) HEADRACE_TRY(parse_whole());
    return std::move(consolidated).status().with_key(node.key);
  }
  // The whole document is parsed if it lacks the member, or is an array's, where the parser must reject the member.
  if (*consolidated == nullptr) return parse_whole();
  HEADRACE_TRY(parse_v3(rest, node));
  if (!node.group) return parse_whole();
  node.group->has_consolidated = true;
  if (keep_consolidated) node.consolidated = std::move(*consolidated);
  return {};
}

Result<base::Json> load_v2_attributes(store::Store& store, std::string_view path, LoadedNode& node) {
  const std::string key = join_path(path, ".zattrs");
  HEADRACE_TRY_ASSIGN(const auto document, get_if_present(store, key, node.memory));
  if (!document) return base::Json::object();
  HEADRACE_TRY(reserve_parsing(as_text(*document), node));
  auto parsed = parse_v2_attributes(as_text(*document));
  if (!parsed.ok()) return std::move(parsed).status().with_key(key);
  return parsed;
}

}  // namespace

namespace {

std::uint64_t kept_bytes(const base::Json& value) {
  std::uint64_t bytes = sizeof(base::Json);
  if (value.is_string()) bytes += sizeof(std::string) + value.get_ref<const std::string&>().size();
  if (value.is_array()) {
    for (const base::Json& item : value) bytes += kept_bytes(item);
  }
  if (value.is_object()) {
    constexpr std::uint64_t kMember = 64;
    for (const auto& [name, item] : value.items()) bytes += kMember + name.size() + kept_bytes(item);
  }
  return bytes;
}

std::uint64_t kept_bytes(const DataType& type) {
  std::uint64_t bytes = sizeof(DataType) + type.name.size() + type.swap_runs.size() * sizeof(DataType::SwapRun) +
                        type.stored_swap_runs.size() * sizeof(DataType::SwapRun);
  for (const DataType::Field& field : type.fields) {
    bytes += sizeof(field) + field.name.size() + field.shape.size() * sizeof(std::uint64_t) + kept_bytes(field.type);
  }
  return bytes;
}

}  // namespace

std::uint64_t kept_bytes(const ArrayMetadata& array) {
  constexpr std::uint64_t kCopies = 3;  // of type and fill value: as stored, as decoded, as reported
  std::uint64_t bytes = kCopies * (kept_bytes(array.dtype) + array.fill.size()) + 2 * array.fill_text.size();
  for (const CodecSpec& codec : array.codecs) bytes += 2 * codec.name.size() + kept_bytes(codec.config);
  for (const auto& name : array.dimension_names) bytes += 2 * (name ? name->size() : 0);
  if (array.rectilinear != nullptr) {
    for (const auto& axis : array.rectilinear->axes) bytes += axis.size() * sizeof(axis.front());
  }
  return bytes;
}

std::string join_path(std::string_view path, std::string_view name) {
  std::string key(path);
  if (!key.empty() && !name.empty()) key += '/';
  key += name;
  return key;
}

Result<LoadedNode> parse_node(const ConsolidatedNode& from, int zarr_format, std::string key,
                              const LoadOptions& options) {
  LoadedNode node;
  node.key = std::move(key);
  node.lenient = options.lenient;
  node.memory = base::Charge(options.memory);
  if (zarr_format == 3) {
    HEADRACE_TRY(parse_v3(from.document, node));
    return node;
  }
  HEADRACE_TRY(reserve_parsing(from.document, node));
  base::Json attributes = base::Json::object();
  if (!from.attributes.empty()) {
    HEADRACE_TRY(reserve_parsing(from.attributes, node));
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
  node.memory = base::Charge(options.memory);
  node.key = join_path(path, "zarr.json");
  base::Charge v3_memory(options.memory);
  HEADRACE_TRY_ASSIGN(auto v3, get_if_present(store, node.key, v3_memory, base::kLargeDocumentBytes));
  if (v3) {
    const bool by_the_rules = path.empty() || valid_node_path(path, 3);
    if (!by_the_rules && !(valid_node_path(path, 3, true) &&
                           node.lenient.use(Leniency::kReservedNames, "'" + std::string(path) + "'"))) {
      return Status(Code::kInvalidArgument, Layer::kZarr,
                    "invalid Zarr v3 node name: a name must not be only periods, begin with '__' (which the "
                    "leniency 'reserved-names' accepts) or be 'zarr.json'")
          .with_key(path);
    }
    HEADRACE_TRY(load_v3(std::move(*v3), std::move(v3_memory), options.consolidated, node));
    return node;
  }
  node.key = join_path(path, ".zarray");
  HEADRACE_TRY_ASSIGN(const auto array_document, get_if_present(store, node.key, node.memory));
  if (array_document) {
    HEADRACE_TRY(reserve_parsing(as_text(*array_document), node));
    auto array = parse_v2_array(as_text(*array_document), if_any(node.lenient));
    if (!array.ok()) return std::move(array).status().with_key(node.key);
    HEADRACE_TRY_ASSIGN(auto attributes, load_v2_attributes(store, path, node));
    node.array = std::move(*array);
    set_v2_attributes(*node.array, std::move(attributes));
    return node;
  }
  if (options.consolidated) {
    const std::string key = join_path(path, ".zmetadata");
    base::Charge memory(options.memory);
    HEADRACE_TRY_ASSIGN(auto document, get_if_present(store, key, memory, base::kLargeDocumentBytes));
    if (document) {
      auto consolidated = Consolidated::parse_v2(std::move(*document), std::move(memory));
      if (!consolidated.ok()) return std::move(consolidated).status().with_key(key);
      node.consolidated = std::move(*consolidated);
      const ConsolidatedNode* self = node.consolidated->find("");
      if (self != nullptr) {
        HEADRACE_TRY_ASSIGN(LoadedNode parsed, parse_node(*self, 2, key, options));
        parsed.consolidated = std::move(node.consolidated);
        return parsed;
      }
    }
  }
  node.key = join_path(path, ".zgroup");
  HEADRACE_TRY_ASSIGN(const auto group_document, get_if_present(store, node.key, node.memory));
  if (group_document) {
    HEADRACE_TRY(reserve_parsing(as_text(*group_document), node));
    auto group = parse_v2_group(as_text(*group_document), if_any(node.lenient));
    if (!group.ok()) return std::move(group).status().with_key(node.key);
    HEADRACE_TRY_ASSIGN(auto attributes, load_v2_attributes(store, path, node));
    node.group = std::move(*group);
    node.group->attributes = std::move(attributes);
    return node;
  }
  if (node.consolidated != nullptr) {  // only the nodes below imply that this is a group
    node.group.emplace();
    node.group->zarr_format = 2;
    return node;
  }
  return Status(Code::kNotFound, Layer::kZarr,
                "no Zarr node here: neither zarr.json, .zarray nor .zgroup exists at '" + std::string(path) + "' in " +
                    store.url());
}

}  // namespace headrace::zarr

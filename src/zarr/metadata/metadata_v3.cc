// `zarr.json` of arrays and groups ("v3/core", array metadata, group metadata, extensions).
#include <algorithm>

#include "zarr/metadata/lenient.h"
#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"

namespace headrace::zarr {
namespace {

using base::Json;

constexpr std::string_view kDocument = "zarr.json";

Result<Json> parse_document(std::string_view text, Lenient* lenient) {
  static const std::vector<std::string_view> kFree = {"attributes", "consolidated_metadata"};
  HEADRACE_TRY_ASSIGN(Json document, parse_lenient_json(text, &kFree, lenient));
  if (!document.is_object()) return wrong_value(kDocument, "a JSON object", document);
  if (lenient != nullptr) repair_v3(document, *lenient);
  return document;
}

Result<std::string> check_node(const Json& document) {
  HEADRACE_TRY_ASSIGN(const Json* format, required_member(document, "zarr_format", kDocument));
  if (!format->is_number_integer() || *format != 3) return wrong_value("zarr_format", "the integer 3", *format);
  HEADRACE_TRY_ASSIGN(const Json* type, required_member(document, "node_type", kDocument));
  if (!is_text(*type, "array") && !is_text(*type, "group"))
    return wrong_value("node_type", "\"array\" or \"group\"", *type);
  return type->get<std::string>();
}

Status refuse_unknown_keys(const Json& document, const std::vector<std::string_view>& known) {
  for (const auto& item : document.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    if (may_be_ignored(item.value())) continue;
    return corrupt("zarr.json has an unknown key " + quote(item.key()) +
                   "; unknown keys are allowed only as objects with must_understand: false, not " +
                   shorten(item.value()));
  }
  return {};
}

Result<Json> parse_attributes(const Json& document) {
  auto attributes = document.find("attributes");
  if (attributes == document.end()) return Json::object();
  if (!attributes->is_object()) return wrong_value("attributes", "an object", *attributes);
  return *attributes;
}

// Refuses must_understand: false on an extension point that readers cannot ignore.
Status refuse_optional(const Json& value, std::string_view what) {
  if (!may_be_ignored(value)) return {};
  return corrupt(std::string(what) + " must not have must_understand: false");
}

Status parse_grid(const Json& value, ArrayMetadata& array) {
  HEADRACE_TRY(refuse_optional(value, "chunk_grid"));
  HEADRACE_TRY_ASSIGN(const CodecSpec grid, parse_extension(value, "chunk_grid"));
  if (grid.name == "rectilinear") {
    HEADRACE_TRY_ASSIGN(RectilinearGrid edges, parse_rectilinear(grid.config, array.shape));
    for (std::size_t i = 0; i < array.shape.size(); ++i) array.chunk_shape.push_back(edges.largest_edge(i));
    array.rectilinear = std::make_shared<const RectilinearGrid>(std::move(edges));
    return {};
  }
  if (grid.name != "regular") {
    return unsupported("chunk grid " + quote(grid.name) + " is not implemented; 'regular' and 'rectilinear' are");
  }
  HEADRACE_TRY(refuse_other_members(grid.config, {"chunk_shape"}, "configuration of chunk_grid"));
  HEADRACE_TRY_ASSIGN(const Json* shape, required_member(grid.config, "chunk_shape", "configuration of chunk_grid"));
  HEADRACE_TRY_ASSIGN(array.chunk_shape, read_extents(*shape, "chunk_shape"));
  return {};
}

Result<ChunkKeyEncoding> parse_key_encoding(const Json& value) {
  HEADRACE_TRY(refuse_optional(value, "chunk_key_encoding"));
  HEADRACE_TRY_ASSIGN(const CodecSpec spec, parse_extension(value, "chunk_key_encoding"));
  ChunkKeyEncoding encoding;
  if (spec.name == "default") {
    encoding = {ChunkKeyEncoding::Kind::kDefault, '/'};
  } else if (spec.name == "v2") {
    encoding = {ChunkKeyEncoding::Kind::kV2, '.'};
  } else {
    return unsupported("chunk key encoding " + quote(spec.name) + " is not implemented; 'default' and 'v2' are");
  }
  HEADRACE_TRY(refuse_other_members(spec.config, {"separator"}, "configuration of chunk_key_encoding"));
  if (auto separator = spec.config.find("separator"); separator != spec.config.end()) {
    if (!is_text(*separator, ".") && !is_text(*separator, "/")) {
      return wrong_value("separator in the configuration of chunk_key_encoding", "\".\" or \"/\"", *separator);
    }
    encoding.separator = separator->get_ref<const std::string&>()[0];
  }
  return encoding;
}

Result<std::vector<CodecSpec>> parse_v3_codecs(const Json& value) {
  if (!value.is_array() || value.empty()) return wrong_value("codecs", "a list with at least one codec", value);
  std::vector<CodecSpec> codecs;
  for (const Json& item : value) {
    HEADRACE_TRY_ASSIGN(CodecSpec spec, parse_extension(item, "codecs[" + std::to_string(codecs.size()) + "]"));
    codecs.push_back(std::move(spec));
  }
  return codecs;
}

Status check_storage_transformers(const Json& document) {
  auto list = document.find("storage_transformers");
  if (list == document.end()) return {};
  if (!list->is_array()) return wrong_value("storage_transformers", "a list", *list);
  if (list->empty()) return {};
  HEADRACE_TRY_ASSIGN(const CodecSpec spec, parse_extension(list->front(), "storage_transformers[0]"));
  return unsupported("storage transformer " + quote(spec.name) +
                     " is not implemented; no such extension is registered");
}

Result<std::vector<std::optional<std::string>>> parse_dimension_names(const Json& document, std::size_t rank) {
  std::vector<std::optional<std::string>> names;
  auto list = document.find("dimension_names");
  // zarr-python 3.0 writes null for "none".
  if (list == document.end() || list->is_null()) return names;
  if (!list->is_array()) return wrong_value("dimension_names", "a list of strings and nulls", *list);
  if (list->size() != rank) {
    return corrupt("dimension_names has " + std::to_string(list->size()) + " entries, but the array has " +
                   std::to_string(rank) + " dimensions");
  }
  for (const Json& name : *list) {
    if (name.is_null()) {
      names.emplace_back(std::nullopt);
    } else if (name.is_string()) {
      names.emplace_back(name.get<std::string>());
    } else {
      return wrong_value("dimension_names[" + std::to_string(names.size()) + "]", "a string or null", name);
    }
  }
  return names;
}

// Byte order of the elements, from the innermost "bytes" codec.
bool stored_big_endian(const Json& codecs) {
  if (!codecs.is_array()) return false;
  for (const Json& codec : codecs) {
    if (!codec.is_object()) continue;
    auto name = codec.find("name");
    auto config = codec.find("configuration");
    if (name == codec.end() || config == codec.end() || !config->is_object()) continue;
    if (is_text(*name, "bytes") || is_text(*name, "endian")) {
      auto endian = config->find("endian");
      return endian != config->end() && is_text(*endian, "big");
    }
    if (is_text(*name, "sharding_indexed")) {
      auto inner = config->find("codecs");
      return inner != config->end() && stored_big_endian(*inner);
    }
  }
  return false;
}

bool is_registered_name(std::string_view name) {
  if (name.size() < 2 || name[0] < 'a' || name[0] > 'z') return false;
  return std::all_of(name.begin() + 1, name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

// Before 3.1, names could be URIs.
bool is_uri(std::string_view name) {
  const std::size_t colon = name.find("://");
  if (colon == std::string_view::npos || colon == 0 || colon + 3 == name.size()) return false;
  return std::none_of(name.begin(), name.end(), [](char c) { return c <= ' ' || c == 0x7f; });
}

}  // namespace

Result<CodecSpec> parse_extension(const Json& value, std::string_view what) {
  CodecSpec spec;
  spec.config = Json::object();
  const std::string field(what);
  if (value.is_string()) {
    spec.name = value.get<std::string>();
  } else if (value.is_object()) {
    HEADRACE_TRY_ASSIGN(const Json* name, required_member(value, "name", what));
    if (!name->is_string()) return wrong_value("name of " + field, "a string", *name);
    spec.name = name->get<std::string>();
    if (auto config = value.find("configuration"); config != value.end()) {
      if (!config->is_object()) return wrong_value("configuration of " + field, "an object", *config);
      spec.config = *config;
    }
    if (auto flag = value.find("must_understand"); flag != value.end() && !flag->is_boolean()) {
      return wrong_value("must_understand of " + field, "true or false", *flag);
    }
    for (const auto& item : value.items()) {
      if (item.key() == "name" || item.key() == "configuration" || item.key() == "must_understand") continue;
      if (may_be_ignored(item.value())) continue;
      return corrupt(field + " has an unknown member " + quote(item.key()) +
                     "; allowed are 'name', 'configuration', 'must_understand'");
    }
  } else {
    return wrong_value(what, "a name or an object with 'name' and 'configuration'", value);
  }
  if (!is_registered_name(spec.name) && !is_uri(spec.name)) {
    return corrupt("name of " + field +
                   " must be a small letter followed by small letters, digits, '-', '_' and '.', not " +
                   shorten(Json(spec.name)));
  }
  return spec;
}

Result<std::string> parse_v3_node_type(std::string_view text) {
  HEADRACE_TRY_ASSIGN(const Json document, parse_document(text, nullptr));
  return check_node(document);
}

namespace {

Result<ArrayMetadata> read_array(Json& document, Lenient* lenient) {
  HEADRACE_TRY(refuse_unknown_keys(
      document, {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
                 "codecs", "attributes", "storage_transformers", "dimension_names"}));
  ArrayMetadata array;
  HEADRACE_TRY_ASSIGN(const Json* dtype, required_member(document, "data_type", kDocument));
  HEADRACE_TRY_ASSIGN(array.dtype, parse_v3_dtype(*dtype));
  HEADRACE_TRY_ASSIGN(const Json* shape, required_member(document, "shape", kDocument));
  HEADRACE_TRY_ASSIGN(array.shape, read_extents(*shape, "shape"));
  HEADRACE_TRY_ASSIGN(const Json* grid, required_member(document, "chunk_grid", kDocument));
  HEADRACE_TRY(parse_grid(*grid, array));
  HEADRACE_TRY(check_chunk_shape(array.chunk_shape, array.shape, decoding_bytes(array.dtype), "chunk_shape"));
  HEADRACE_TRY_ASSIGN(const Json* keys, required_member(document, "chunk_key_encoding", kDocument));
  HEADRACE_TRY_ASSIGN(array.keys, parse_key_encoding(*keys));
  HEADRACE_TRY_ASSIGN(const Json* codecs, required_member(document, "codecs", kDocument));
  HEADRACE_TRY_ASSIGN(const Json* fill, required_member(document, "fill_value", kDocument));
  bool zeros = false;
  if (lenient != nullptr) {
    repair_codecs(document["codecs"], array.dtype, array.shape.size(), "codecs", *lenient);
    repair_fill(document["fill_value"], array.dtype, *lenient);
    zeros = fill->is_null() && lenient->use(Leniency::kNullFillValue, "fill_value is null");
  }
  HEADRACE_TRY_ASSIGN(array.codecs, parse_v3_codecs(*codecs));
  if (zeros) {
    array.fill.resize(array.dtype.item_bytes);
  } else {
    HEADRACE_TRY_ASSIGN(array.fill, parse_v3_fill(*fill, array.dtype));
  }
  // Base64 text of a structured element has the byte order in which elements are stored ("structured" data type).
  if (array.dtype.kind == TypeKind::kStruct && fill->is_string() && stored_big_endian(*codecs)) {
    swap_element(array.dtype.swap_runs, array.fill);
  }
  array.fill_text = fill->dump(-1, ' ', false, Json::error_handler_t::replace);

  HEADRACE_TRY(check_storage_transformers(document));
  HEADRACE_TRY_ASSIGN(array.dimension_names, parse_dimension_names(document, array.shape.size()));
  HEADRACE_TRY_ASSIGN(array.attributes, parse_attributes(document));
  return array;
}

Result<GroupMetadata> read_group(const Json& document) {
  HEADRACE_TRY(refuse_unknown_keys(document, {"zarr_format", "node_type", "attributes", "consolidated_metadata"}));
  GroupMetadata group;
  HEADRACE_TRY_ASSIGN(group.attributes, parse_attributes(document));
  auto found = document.find("consolidated_metadata");
  // zarr-python 3.0 writes null for "none".
  if (found == document.end() || found->is_null()) return group;
  const bool is_inline = found->is_object() && found->contains("kind") && is_text(found->at("kind"), "inline") &&
                         found->contains("metadata") && found->at("metadata").is_object();
  if (!may_be_ignored(*found) || !is_inline) {
    return wrong_value("consolidated_metadata",
                       "an object with must_understand: false, kind: \"inline\" and an object 'metadata'", *found);
  }
  group.has_consolidated = true;
  return group;
}

}  // namespace

Result<ArrayMetadata> parse_v3_array(std::string_view text, Lenient* lenient) {
  HEADRACE_TRY_ASSIGN(Json document, parse_document(text, lenient));
  HEADRACE_TRY_ASSIGN(const std::string node_type, check_node(document));
  if (node_type != "array") return Status(Code::kInvalidArgument, Layer::kZarr, "the node is a group, not an array");
  return read_array(document, lenient);
}

Result<GroupMetadata> parse_v3_group(std::string_view text, Lenient* lenient) {
  HEADRACE_TRY_ASSIGN(const Json document, parse_document(text, lenient));
  HEADRACE_TRY_ASSIGN(const std::string node_type, check_node(document));
  if (node_type != "group") return Status(Code::kInvalidArgument, Layer::kZarr, "the node is an array, not a group");
  return read_group(document);
}

Result<V3Node> parse_v3_node(std::string_view text, Lenient* lenient) {
  HEADRACE_TRY_ASSIGN(Json document, parse_document(text, lenient));
  HEADRACE_TRY_ASSIGN(const std::string node_type, check_node(document));
  V3Node node;
  if (node_type == "array") {
    HEADRACE_TRY_ASSIGN(node.array, read_array(document, lenient));
  } else {
    HEADRACE_TRY_ASSIGN(node.group, read_group(document));
  }
  return node;
}

}  // namespace headrace::zarr

// `.zarray`, `.zgroup` and `.zattrs` ("v2", metadata). Unknown members are ignored, as the specification demands.
#include <algorithm>

#include "zarr/metadata/lenient.h"
#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"

namespace headrace::zarr {
namespace {

using base::Json;

Result<Json> parse_document(std::string_view text, std::string_view name, Lenient* lenient) {
  HEADRACE_TRY_ASSIGN(Json document, parse_lenient_json(text, nullptr, lenient));
  if (!document.is_object()) return wrong_value(name, "a JSON object", document);
  if (lenient != nullptr) repair_v2(document, *lenient);
  return document;
}

Status check_format(const Json& document, std::string_view name) {
  HEADRACE_TRY_ASSIGN(const Json* format, required_member(document, "zarr_format", name));
  if (!format->is_number_integer() || *format != 2) {
    return wrong_value("zarr_format of " + std::string(name), "the integer 2", *format);
  }
  return {};
}

// {"id": "zlib", "level": 1} -> name and the rest.
Result<CodecSpec> parse_codec(const Json& value, std::string_view what) {
  if (!value.is_object()) return wrong_value(what, "an object with 'id'", value);
  HEADRACE_TRY_ASSIGN(const Json* id, required_member(value, "id", what));
  if (!id->is_string() || id->get_ref<const std::string&>().empty()) {
    return wrong_value("id of " + std::string(what), "a string that is not empty", *id);
  }
  CodecSpec spec;
  spec.name = id->get<std::string>();
  spec.config = value;
  spec.config.erase("id");
  return spec;
}

Result<std::vector<CodecSpec>> parse_v2_codecs(const Json& document) {
  HEADRACE_TRY_ASSIGN(const Json* filters, required_member(document, "filters", ".zarray"));
  HEADRACE_TRY_ASSIGN(const Json* compressor, required_member(document, "compressor", ".zarray"));
  std::vector<CodecSpec> codecs;
  if (filters->is_array()) {
    for (const Json& filter : *filters) {
      HEADRACE_TRY_ASSIGN(CodecSpec spec, parse_codec(filter, "filters[" + std::to_string(codecs.size()) + "]"));
      codecs.push_back(std::move(spec));
    }
  } else if (!filters->is_null()) {
    return wrong_value("filters", "a list of objects, or null", *filters);
  }
  if (!compressor->is_null()) {
    HEADRACE_TRY_ASSIGN(CodecSpec spec, parse_codec(*compressor, "compressor"));
    codecs.push_back(std::move(spec));
  }
  return codecs;
}

}  // namespace

Result<ArrayMetadata> parse_v2_array(std::string_view text, Lenient* lenient) {
  HEADRACE_TRY_ASSIGN(Json document, parse_document(text, ".zarray", lenient));
  HEADRACE_TRY(check_format(document, ".zarray"));
  ArrayMetadata array;
  array.zarr_format = 2;

  HEADRACE_TRY_ASSIGN(array.codecs, parse_v2_codecs(document));
  HEADRACE_TRY_ASSIGN(const Json* dtype, required_member(document, "dtype", ".zarray"));
  if (is_text(*dtype, "|O")) {
    HEADRACE_TRY_ASSIGN(array.dtype, parse_v2_object_type(array.codecs));
  } else {
    HEADRACE_TRY_ASSIGN(array.dtype, parse_v2_dtype(*dtype, array.v2_big_endian));
  }

  HEADRACE_TRY_ASSIGN(const Json* shape, required_member(document, "shape", ".zarray"));
  HEADRACE_TRY_ASSIGN(array.shape, read_extents(*shape, "shape"));
  HEADRACE_TRY_ASSIGN(const Json* chunks, required_member(document, "chunks", ".zarray"));
  HEADRACE_TRY_ASSIGN(array.chunk_shape, read_extents(*chunks, "chunks"));
  HEADRACE_TRY(check_chunk_shape(array.chunk_shape, array.shape, decoding_bytes(array.dtype), "chunks"));

  HEADRACE_TRY_ASSIGN(const Json* order, required_member(document, "order", ".zarray"));
  if (!is_text(*order, "C") && !is_text(*order, "F")) return wrong_value("order", "\"C\" or \"F\"", *order);
  array.v2_order = order->get_ref<const std::string&>()[0];

  array.keys = {ChunkKeyEncoding::Kind::kV2, '.'};
  if (auto separator = document.find("dimension_separator"); separator != document.end()) {
    if (!is_text(*separator, ".") && !is_text(*separator, "/")) {
      return wrong_value("dimension_separator", "\".\" or \"/\"", *separator);
    }
    array.keys.separator = separator->get_ref<const std::string&>()[0];
  }

  HEADRACE_TRY_ASSIGN(const Json* fill, required_member(document, "fill_value", ".zarray"));
  if (lenient != nullptr) repair_fill(document["fill_value"], array.dtype, *lenient);
  HEADRACE_TRY_ASSIGN(array.fill, parse_v2_fill(*fill, array.dtype));
  array.fill_text = fill->dump(-1, ' ', false, Json::error_handler_t::replace);
  return array;
}

Result<GroupMetadata> parse_v2_group(std::string_view text, Lenient* lenient) {
  HEADRACE_TRY_ASSIGN(const Json document, parse_document(text, ".zgroup", lenient));
  HEADRACE_TRY(check_format(document, ".zgroup"));
  GroupMetadata group;
  group.zarr_format = 2;
  return group;
}

Result<Json> parse_v2_attributes(std::string_view text) {
  HEADRACE_TRY_ASSIGN(Json document, parse_json_with_nan(text, {}));
  if (!document.is_object()) return wrong_value(".zattrs", "a JSON object", document);
  return document;
}

}  // namespace headrace::zarr

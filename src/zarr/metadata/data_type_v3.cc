// Zarr v3 data types: those of "v3/core", and the registered extensions of fixed size.
#include <algorithm>
#include <charconv>
#include <set>

#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"
#include "zarr/metadata/small_types.h"

namespace headrace::zarr {
namespace {

using base::Json;

// "r24": bits, a multiple of 8.
Result<DataType> parse_raw_bits(std::string_view name) {
  const std::string_view digits = name.substr(1);
  std::uint64_t bits = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (error == std::errc::result_out_of_range || bits / 8 > kMaxItemBytes) {
    return element_too_large("data_type " + quote(name));
  }
  if (digits[0] == '0' || end != digits.data() + digits.size() || bits % 8 != 0) {
    return corrupt("data_type " + quote(name) + " must be r<N> with N a multiple of 8 above 0");
  }
  return raw_type(static_cast<std::uint32_t>(bits / 8));
}

bool is_raw_bits(std::string_view name) {
  return name.size() > 1 && name[0] == 'r' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<DataType> parse_time(const CodecSpec& spec, TypeKind kind) {
  const std::string where = "configuration of data_type '" + spec.name + "'";
  HEADRACE_TRY(refuse_other_members(spec.config, {"unit", "scale_factor"}, where));
  HEADRACE_TRY_ASSIGN(const Json* unit, required_member(spec.config, "unit", where));
  HEADRACE_TRY_ASSIGN(const Json* scale, required_member(spec.config, "scale_factor", where));
  const std::string_view name = unit->is_string() ? time_unit(unit->get_ref<const std::string&>()) : std::string_view();
  if (name.empty()) {
    return wrong_value("unit in the " + where, "one of Y M W D h m s ms us ns ps fs as generic", *unit);
  }
  HEADRACE_TRY_ASSIGN(const std::uint64_t factor, read_integer(*scale, 1, 0x7fffffff, "scale_factor in the " + where));
  return time_type(kind, name, factor);
}

Result<DataType> parse_fixed_length(const CodecSpec& spec) {
  const std::string where = "configuration of data_type '" + spec.name + "'";
  HEADRACE_TRY(refuse_other_members(spec.config, {"length_bytes"}, where));
  HEADRACE_TRY_ASSIGN(const Json* length, required_member(spec.config, "length_bytes", where));
  HEADRACE_TRY_ASSIGN(const std::uint64_t bytes, read_integer(*length, 1, 0x7fffffff, "length_bytes in the " + where));
  if (bytes > kMaxItemBytes) return element_too_large("data_type " + quote(spec.name));
  const auto size = static_cast<std::uint32_t>(bytes);
  if (spec.name == "null_terminated_bytes") return bytes_type(size);
  if (spec.name == "raw_bytes") return raw_type(size);
  if (size % 4 != 0) return wrong_value("length_bytes in the " + where, "a multiple of 4", *length);
  return unicode_type(size);
}

Result<DataType> parse_any(const Json& value, int depth);

// {"name", "data_type"}, or the legacy pair [name, data_type] of "structured".
Result<DataType::Field> parse_field(const Json& value, std::size_t index, bool legacy, int depth) {
  const std::string what = "data_type field " + std::to_string(index);
  const Json* name = nullptr;
  const Json* type = nullptr;
  if (legacy && value.is_array()) {
    if (value.size() != 2) return wrong_value(what, "a pair of name and data_type", value);
    name = &value[0];
    type = &value[1];
  } else {
    if (!value.is_object()) return wrong_value(what, "an object with 'name' and 'data_type'", value);
    HEADRACE_TRY(refuse_other_members(value, {"name", "data_type"}, what));
    HEADRACE_TRY_ASSIGN(name, required_member(value, "name", what));
    HEADRACE_TRY_ASSIGN(type, required_member(value, "data_type", what));
  }
  if (!name->is_string() || name->get_ref<const std::string&>().empty()) {
    return wrong_value("name of " + what, "a string that is not empty", *name);
  }
  DataType::Field field;
  field.name = name->get<std::string>();
  HEADRACE_TRY_ASSIGN(field.type, parse_any(*type, depth + 1));
  return field;
}

Result<DataType> parse_struct(const CodecSpec& spec, int depth) {
  if (depth >= kMaxStructDepth) {
    return unsupported("structured types nested deeper than " + std::to_string(kMaxStructDepth) + " levels");
  }
  const std::string where = "configuration of data_type '" + spec.name + "'";
  HEADRACE_TRY(refuse_other_members(spec.config, {"fields"}, where));
  HEADRACE_TRY_ASSIGN(const Json* fields, required_member(spec.config, "fields", where));
  if (!fields->is_array() || fields->empty()) {
    return wrong_value("fields in the " + where, "a list with at least one field", *fields);
  }
  DataType type;
  type.kind = TypeKind::kStruct;
  type.name = spec.name;  // the bytes codec has a rule of its own for the legacy alias "structured"
  type.item_bytes = 0;
  std::set<std::string> names;
  for (const Json& item : *fields) {
    HEADRACE_TRY_ASSIGN(DataType::Field field, parse_field(item, type.fields.size(), spec.name == "structured", depth));
    if (!names.insert(field.name).second) return corrupt("data_type has two fields named " + quote(field.name));
    HEADRACE_TRY(append_field(type, std::move(field)));
  }
  finish_struct(type);
  return type;
}

Result<DataType> parse_any(const Json& value, int depth) {
  HEADRACE_TRY_ASSIGN(const CodecSpec spec, parse_extension(value, "data_type"));
  if (may_be_ignored(value)) {
    return corrupt("data_type " + quote(spec.name) +
                   " says must_understand: false, which is not allowed for a data type");
  }
  if (spec.name == "numpy.datetime64") return parse_time(spec, TypeKind::kDatetime);
  if (spec.name == "numpy.timedelta64") return parse_time(spec, TypeKind::kTimedelta);
  if (spec.name == "fixed_length_utf32" || spec.name == "null_terminated_bytes" || spec.name == "raw_bytes") {
    return parse_fixed_length(spec);
  }
  if (spec.name == "struct" || spec.name == "structured") return parse_struct(spec, depth);

  std::string_view name = spec.name;
  if (name == "complex_float32") name = "complex64";  // registered aliases
  if (name == "complex_float64") name = "complex128";
  DataType type;
  // The registered name is "bytes". zarr-python since 3.1 writes "variable_length_bytes", old zarrs "binary".
  const bool is_bytes = name == "bytes" || name == "variable_length_bytes" || name == "binary";
  if (name == "string" || is_bytes) {
    // No specification defines the layout of such a field in an element.
    if (depth > 0) return unsupported("data type " + quote(spec.name) + " as that of a field: it has no size");
    type = variable_type(is_bytes ? TypeKind::kVariableBytes : TypeKind::kString);
  } else if (is_raw_bits(name)) {
    HEADRACE_TRY_ASSIGN(type, parse_raw_bits(name));
  } else {
    type = numeric_type(name);
    if (type.name.empty()) type = small_type(name);
  }
  if (type.name.empty()) return unsupported("data type " + quote(spec.name) + " is not implemented");
  HEADRACE_TRY(refuse_other_members(spec.config, {}, "configuration of data_type '" + spec.name + "'"));
  return type;
}

}  // namespace

Result<DataType> parse_v3_dtype(const Json& value) { return parse_any(value, 0); }

}  // namespace headrace::zarr

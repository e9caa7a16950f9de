// Zarr v2 data types: NumPy type strings and descr lists ("v2", data type encoding).
#include <algorithm>
#include <charconv>
#include <set>

#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"

namespace headrace::zarr {
namespace {

using base::Json;

constexpr std::string_view kAllowed = "a NumPy type string such as \"<f4\" or a list of fields";

// Reads digits without sign or leading zero. False if there are none, or the number is above `high`.
bool take_number(std::string_view& text, std::uint64_t high, std::uint64_t& number) {
  if (text.empty() || text[0] < '1' || text[0] > '9') return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > high) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::string_view numeric_name(char kind, std::uint64_t bytes) {
  struct Row {
    char kind;
    std::uint64_t bytes;
    std::string_view name;
  };
  static constexpr Row kRows[] = {
      {'b', 1, "bool"},    {'i', 1, "int8"},    {'i', 2, "int16"},     {'i', 4, "int32"},       {'i', 8, "int64"},
      {'u', 1, "uint8"},   {'u', 2, "uint16"},  {'u', 4, "uint32"},    {'u', 8, "uint64"},      {'f', 2, "float16"},
      {'f', 4, "float32"}, {'f', 8, "float64"}, {'c', 8, "complex64"}, {'c', 16, "complex128"},
  };
  for (const Row& row : kRows) {
    if (row.kind == kind && row.bytes == bytes) return row.name;
  }
  return {};
}

// "[ns]" or "[25us]" after "M8".
Result<DataType> parse_time(std::string_view rest, TypeKind kind, const Json& value) {
  constexpr std::string_view kUnits =
      "a datetime or timedelta with its unit, one of Y M W D h m s ms us ns ps fs as generic, such as \"<M8[ns]\"";
  if (rest.size() < 3 || rest.front() != '[' || rest.back() != ']') return wrong_value("dtype", kUnits, value);
  rest = rest.substr(1, rest.size() - 2);
  std::uint64_t scale = 1;
  if (rest[0] >= '0' && rest[0] <= '9' && !take_number(rest, 0x7fffffff, scale)) {
    return wrong_value("dtype", "a time type whose unit is multiplied by 1 to 2147483647", value);
  }
  const std::string_view unit = time_unit(rest);
  if (unit.empty()) return wrong_value("dtype", kUnits, value);
  return time_type(kind, unit, scale);
}

Result<DataType> parse_simple(const Json& value, bool& big_endian) {
  const auto& text = value.get_ref<const std::string&>();
  // NumPy has no type string for these. tensorstore writes their names, and stores them little-endian.
  if (text == "bfloat16") return numeric_type(text);
  if (text == "int4" || text.substr(0, 7) == "float8_")
    return unsupported("dtype " + quote(text) + " is not implemented");
  if (text.size() < 2 || (text[0] != '<' && text[0] != '>' && text[0] != '|')) {
    return wrong_value("dtype", "a NumPy type string that starts with its byte order, '<', '>' or '|'", value);
  }
  const char order = text[0], kind = text[1];
  if (kind == 'O')
    return unsupported("object arrays (variable-length strings, JSON, pickles) as fields: dtype " + quote(text));
  std::string_view rest = std::string_view(text).substr(2);
  std::uint64_t size = 0;
  if (rest == "0" && (kind == 'S' || kind == 'U' || kind == 'V')) {
    return unsupported("elements without bytes: dtype " + quote(text));
  }
  if (!take_number(rest, 0x7fffffff, size)) {
    return wrong_value("dtype", "a NumPy type string with a size from 1 to 2147483647", value);
  }
  if (size > kMaxItemBytes / (kind == 'U' ? 4 : 1)) return element_too_large("dtype " + quote(text));
  DataType type;
  if ((kind == 'M' || kind == 'm') && size == 8) {
    auto time = parse_time(rest, kind == 'M' ? TypeKind::kDatetime : TypeKind::kTimedelta, value);
    if (!time.ok()) return time;
    type = std::move(*time);
  } else {
    if (!rest.empty()) return wrong_value("dtype", kAllowed, value);
    if (kind == 'S') {
      type = bytes_type(static_cast<std::uint32_t>(size));
    } else if (kind == 'V') {
      type = raw_type(static_cast<std::uint32_t>(size));
    } else if (kind == 'U') {
      type = unicode_type(static_cast<std::uint32_t>(size) * 4);
    } else if ((kind == 'f' && (size == 12 || size == 16)) || (kind == 'c' && (size == 24 || size == 32))) {
      return unsupported("extended precision (long double): dtype " + quote(text));
    } else {
      type = numeric_type(numeric_name(kind, size));
      if (type.name.empty()) return wrong_value("dtype", kAllowed, value);
    }
  }
  const bool has_order = type.swap_runs[0].width_bytes > 1;
  if (order == '|' && has_order) {
    return wrong_value("dtype", "a type with its byte order, '<' or '>'", value);
  }
  big_endian = order == '>' && has_order;
  return type;
}

Result<DataType> parse_any(const Json& value, bool& big_endian, int depth);

// One [name, type] or [name, type, shape].
Result<DataType::Field> parse_field(const Json& value, std::size_t index, int depth) {
  const std::string what = "dtype field " + std::to_string(index);
  if (!value.is_array() || value.size() < 2 || value.size() > 3 || !value[0].is_string()) {
    return wrong_value(what, "a list of its name, type and optional sub-array shape", value);
  }
  DataType::Field field;
  field.name = value[0].get<std::string>();
  // NumPy writes the padding of an aligned struct as fields without a name, and gives them these names when reading.
  if (field.name.empty()) field.name = "f" + std::to_string(index);
  auto type = parse_any(value[1], field.big_endian, depth + 1);
  if (!type.ok()) return std::move(type).status();
  field.type = std::move(*type);
  if (value.size() == 3) {
    auto shape = read_extents(value[2], what + " sub-array shape");
    if (!shape.ok()) return std::move(shape).status();
    field.shape = std::move(*shape);
  }
  return field;
}

Result<DataType> parse_struct(const Json& value, int depth) {
  if (depth >= kMaxStructDepth) {
    return unsupported("structured types nested deeper than " + std::to_string(kMaxStructDepth) + " levels");
  }
  if (value.empty()) return corrupt("dtype is a list of fields without any field");
  DataType type;
  type.kind = TypeKind::kStruct;
  type.name = "struct";
  type.item_bytes = 0;
  std::set<std::string> names;
  for (const Json& item : value) {
    auto field = parse_field(item, type.fields.size(), depth);
    if (!field.ok()) return std::move(field).status();
    if (!names.insert(field->name).second) return corrupt("dtype has two fields named " + quote(field->name));
    HEADRACE_TRY(append_field(type, std::move(*field)));
  }
  finish_struct(type);
  return type;
}

Result<DataType> parse_any(const Json& value, bool& big_endian, int depth) {
  big_endian = false;
  if (value.is_string()) return parse_simple(value, big_endian);
  if (value.is_array()) return parse_struct(value, depth);
  return wrong_value("dtype", kAllowed, value);
}

}  // namespace

Result<DataType> parse_v2_object_type(const std::vector<CodecSpec>& codecs) {
  const std::string what = "object arrays: dtype '|O' with ";
  if (codecs.empty()) return unsupported(what + "neither filter nor object codec, so the element type is unknown");
  const std::string& name = codecs.front().name;
  if (name == "vlen-utf8" || name == "json2") return variable_type(TypeKind::kString);
  if (name == "vlen-bytes") return variable_type(TypeKind::kVariableBytes);
  if (name == "pickle") {
    return unsupported(what + "object codec 'pickle', which is not supported: reading a pickle executes code");
  }
  if (name == "vlen-array") {
    return unsupported(what + "object codec 'vlen-array': elements that are arrays themselves");
  }
  return unsupported(what + "first filter " + quote(name) +
                     "; object codecs that are implemented are 'vlen-utf8', 'vlen-bytes' and 'json2'");
}

Result<DataType> parse_v2_dtype(const Json& value, bool& big_endian) { return parse_any(value, big_endian, 0); }

}  // namespace headrace::zarr

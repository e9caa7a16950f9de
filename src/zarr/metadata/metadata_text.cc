#include "zarr/metadata/metadata_text.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "zarr/metadata/lenient.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {

using base::Json;

namespace {

constexpr std::size_t kShownBytes = 80;
// A sub-array of structs repeats the struct's runs. A few bytes of metadata must not expand to gigabytes of list.
constexpr std::size_t kMaxSwapRuns = 65536;

// Cuts at a character boundary, so that messages stay valid UTF-8.
void cut(std::string& text) {
  if (text.size() <= kShownBytes) return;
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  text += "...";
}

void append_shortened(const Json& value, std::string& out) {
  if (out.size() > kShownBytes) return;
  if (value.is_array()) {
    out += '[';
    bool first = true;
    for (const Json& item : value) {
      if (!first) out += ',';
      first = false;
      append_shortened(item, out);
      if (out.size() > kShownBytes) return;
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& item : value.items()) {
      if (!first) out += ',';
      first = false;
      append_shortened(Json(item.key().substr(0, kShownBytes + 4)), out);
      out += ':';
      append_shortened(item.value(), out);
      if (out.size() > kShownBytes) return;
    }
    out += '}';
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    out += Json(text.substr(0, kShownBytes + 4)).dump(-1, ' ', false, Json::error_handler_t::replace);
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

// Appends `times` copies of `runs`, merging neighbours of one width. False if the list would become too long.
bool append_runs(std::vector<DataType::SwapRun>& list, const std::vector<DataType::SwapRun>& runs,
                 std::uint64_t times) {
  if (runs.size() == 1) {
    // Cannot overflow: the caller has checked the element's size.
    const auto count = static_cast<std::uint32_t>(runs[0].count * times);
    if (!list.empty() && list.back().width_bytes == runs[0].width_bytes) {
      list.back().count += count;
    } else {
      list.push_back({runs[0].width_bytes, count});
    }
    return list.size() <= kMaxSwapRuns;
  }
  if (times > kMaxSwapRuns || runs.size() * times + list.size() > kMaxSwapRuns) return false;
  for (std::uint64_t i = 0; i < times; ++i) {
    for (const DataType::SwapRun& run : runs) {
      if (!list.empty() && list.back().width_bytes == run.width_bytes) {
        list.back().count += run.count;
      } else {
        list.push_back(run);
      }
    }
  }
  return true;
}

// The bare non-finite number token at the start of `text`, or "".
std::string_view non_finite(std::string_view text) {
  for (std::string_view token : {"NaN", "Infinity", "-Infinity"}) {
    if (text.substr(0, token.size()) != token) continue;
    const std::string_view rest = text.substr(token.size());
    if (rest.empty() || std::string_view(" \t\r\n,]}").find(rest[0]) != std::string_view::npos) return token;
  }
  return {};
}

// Quotes such tokens within the members `keys`. Only knows enough JSON to tell strings from the rest; the result is
// parsed strictly.
std::string quote_non_finite(std::string_view text, const std::vector<std::string_view>& keys) {
  std::string out;
  out.reserve(text.size() + 64);
  std::string_view string, key;  // the last string, and the last top-level key
  int depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    std::size_t length = 1;
    if (c == '"') {
      while (i + length < text.size() && text[i + length] != '"') length += text[i + length] == '\\' ? 2 : 1;
      length = std::min(length + 1, text.size() - i);
      string = text.substr(i + 1, length < 2 ? 0 : length - 2);
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      key = string;
    } else if (keys.empty() || (depth > 1 && std::find(keys.begin(), keys.end(), key) != keys.end())) {
      if (const std::string_view token = non_finite(text.substr(i)); !token.empty()) {
        out.append("\"").append(token).append("\"");
        i += token.size();
        continue;
      }
    }
    out.append(text.substr(i, length));
    i += length;
  }
  return out;
}

}  // namespace

Status corrupt(std::string message) { return Status(Code::kCorrupt, Layer::kZarr, std::move(message)); }
Status unsupported(std::string message) { return Status(Code::kUnsupported, Layer::kZarr, std::move(message)); }
Status element_too_large(std::string_view where) {
  return unsupported("elements of more than " + std::to_string(kMaxItemBytes) + " bytes: " + std::string(where));
}

std::string shorten(const Json& value) {
  std::string out;
  append_shortened(value, out);
  cut(out);
  return out;
}

std::string quote(std::string_view text) {
  std::string out(text.substr(0, kShownBytes + 4));
  cut(out);
  return "'" + out + "'";
}

Status wrong_value(std::string_view what, std::string_view allowed, const Json& value) {
  return corrupt(std::string(what) + " must be " + std::string(allowed) + ", not " + shorten(value));
}

Result<Json> parse_json_with_nan(std::string_view text, const std::vector<std::string_view>& keys) {
  auto strict = base::parse_json(text);
  if (strict.ok() || strict.status().code() == Code::kResourceExhausted) return strict;  // a limit is final
  const std::string quoted = quote_non_finite(text, keys);
  if (quoted.size() == text.size()) return strict;  // no token where one is allowed
  auto parsed = base::parse_json(quoted);
  return parsed.ok() ? std::move(parsed) : std::move(strict);
}

Result<Json> parse_lenient_json(std::string_view text, const std::vector<std::string_view>* keys, Lenient* lenient) {
  if (lenient != nullptr && text.substr(0, 3) == "\xEF\xBB\xBF" &&
      lenient->use(Leniency::kByteOrderMark, "the document begins with one")) {
    text.remove_prefix(3);
  }
  auto parsed = keys ? parse_json_with_nan(text, *keys) : base::parse_json(text);
  if (parsed.ok() || parsed.status().code() == Code::kResourceExhausted) return parsed;
  if (lenient == nullptr || !lenient->allows(Leniency::kBareNonFinite)) return parsed;
  auto again = parse_json_with_nan(text, {});
  if (!again.ok()) return parsed;
  lenient->use(Leniency::kBareNonFinite, "a number is written without quotes");
  return again;
}

Result<const Json*> required_member(const Json& object, std::string_view key, std::string_view where) {
  auto found = object.find(key);
  if (found == object.end()) {
    return corrupt(std::string(where) + " has no '" + std::string(key) + "', which is required");
  }
  return &*found;
}

Status refuse_other_members(const Json& object, const std::vector<std::string_view>& allowed, std::string_view where) {
  for (const auto& item : object.items()) {
    if (std::find(allowed.begin(), allowed.end(), item.key()) != allowed.end()) continue;
    std::string message(where);
    message += " has an unknown member " + quote(item.key()) + "; ";
    if (allowed.empty()) {
      message += "none are allowed";
    } else {
      message += "allowed are";
      for (std::size_t i = 0; i < allowed.size(); ++i) {
        message += (i == 0 ? " '" : ", '") + std::string(allowed[i]) + "'";
      }
    }
    return corrupt(std::move(message));
  }
  return {};
}

bool may_be_ignored(const Json& value) {
  if (!value.is_object()) return false;
  auto found = value.find("must_understand");
  return found != value.end() && found->is_boolean() && !found->get<bool>();
}

Result<std::uint64_t> read_integer(const Json& value, std::uint64_t low, std::uint64_t high, std::string_view what) {
  std::optional<std::uint64_t> number;
  if (value.is_number_unsigned()) {
    number = value.get<std::uint64_t>();
  } else if (value.is_number_integer() && value.get<std::int64_t>() >= 0) {
    number = static_cast<std::uint64_t>(value.get<std::int64_t>());
  }
  if (!number || *number < low || *number > high) {
    return wrong_value(what, "an integer from " + std::to_string(low) + " to " + std::to_string(high), value);
  }
  return *number;
}

Result<std::vector<std::uint64_t>> read_extents(const Json& value, std::string_view what) {
  if (!value.is_array()) return wrong_value(what, "a list of integers", value);
  if (value.size() > kMaxRank) {
    return unsupported("rank " + std::to_string(value.size()) + " (" + std::string(what) + "): at most " +
                       std::to_string(kMaxRank) + " dimensions are supported");
  }
  std::vector<std::uint64_t> extents;
  extents.reserve(value.size());
  for (const Json& item : value) {
    auto extent = read_integer(item, 0, kMaxExtent, std::string(what) + "[" + std::to_string(extents.size()) + "]");
    if (!extent.ok()) return std::move(extent).status();
    extents.push_back(*extent);
  }
  return extents;
}

Status check_chunk_shape(const std::vector<std::uint64_t>& chunk_shape, const std::vector<std::uint64_t>& shape,
                         std::uint64_t item_bytes, std::string_view key) {
  const std::string name(key);
  if (chunk_shape.size() != shape.size()) {
    return corrupt(name + " has " + std::to_string(chunk_shape.size()) + " dimensions, but shape has " +
                   std::to_string(shape.size()));
  }
  bool empty = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (chunk_shape[i] == 0 && shape[i] > 0) {
      return corrupt(name + "[" + std::to_string(i) + "] must be above 0, since the array's extent is " +
                     std::to_string(shape[i]));
    }
    empty = empty || chunk_shape[i] == 0;
  }
  if (empty) return {};
  std::optional<std::uint64_t> bytes = item_bytes;
  for (std::uint64_t extent : chunk_shape) {
    bytes = base::checked_mul(*bytes, extent);
    if (!bytes || *bytes > kMaxExtent) {
      return corrupt(name + " makes a chunk of more than 2^63 - 1 bytes (elements have " + std::to_string(item_bytes) +
                     ")");
    }
  }
  return {};
}

void swap_element(const std::vector<DataType::SwapRun>& runs, std::vector<std::byte>& element) {
  auto at = element.begin();
  for (const DataType::SwapRun& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      std::reverse(at, at + run.width_bytes);
      at += run.width_bytes;
    }
  }
}

std::string_view time_unit(std::string_view text) {
  if (text == "\u03bcs" || text == "\u00b5s") return "us";  // both Greek mu and the micro sign
  for (std::string_view unit : {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"}) {
    if (unit == text) return unit;
  }
  return {};
}

DataType time_type(TypeKind kind, std::string_view unit, std::uint64_t scale) {
  DataType type;
  type.kind = kind;
  type.item_bytes = 8;
  if (scale != 1) type.unit = std::to_string(scale);
  type.unit += unit;
  type.name = (kind == TypeKind::kDatetime ? "<M8[" : "<m8[") + type.unit + "]";
  type.swap_runs = {{8, 1}};
  return type;
}

DataType bytes_type(std::uint32_t item_bytes) {
  DataType type;
  type.kind = TypeKind::kBytes;
  type.item_bytes = item_bytes;
  type.name = "|S" + std::to_string(item_bytes);
  type.swap_runs = {{1, item_bytes}};
  return type;
}

DataType unicode_type(std::uint32_t item_bytes) {
  DataType type;
  type.kind = TypeKind::kUnicode;
  type.item_bytes = item_bytes;
  type.name = "<U" + std::to_string(item_bytes / 4);
  type.swap_runs = {{4, item_bytes / 4}};
  return type;
}

DataType raw_type(std::uint32_t item_bytes) {
  DataType type;
  type.kind = TypeKind::kRaw;
  type.item_bytes = item_bytes;
  type.name = "r" + std::to_string(std::uint64_t{item_bytes} * 8);
  type.swap_runs = {{1, item_bytes}};
  return type;
}

DataType variable_type(TypeKind kind) {
  DataType type;
  type.kind = kind;
  type.item_bytes = 0;
  type.name = kind == TypeKind::kString ? "string" : "bytes";
  return type;
}

std::uint64_t decoding_bytes(const DataType& type) {
  constexpr std::uint64_t kSlotBytes = 16;
  return type.is_variable_length() ? kSlotBytes : type.item_bytes;
}

Status append_field(DataType& type, DataType::Field field) {
  std::optional<std::uint64_t> count = 1;
  for (std::uint64_t extent : field.shape) {
    count = base::checked_mul(*count, extent);
    if (!count) break;
  }
  auto bytes = count ? base::checked_mul<std::uint64_t>(*count, field.type.item_bytes) : std::nullopt;
  // While fields are appended, item_bytes is the size of those appended so far.
  if (!bytes || *bytes > kMaxItemBytes - type.item_bytes) {
    return element_too_large("field " + quote(field.name));
  }
  if (*bytes == 0) return unsupported("fields without bytes (field " + quote(field.name) + ")");
  field.offset_bytes = type.item_bytes;
  std::vector<DataType::SwapRun> stored = {{1, field.type.item_bytes}};
  if (field.big_endian) {
    stored = field.type.swap_runs;
  } else if (!field.type.stored_swap_runs.empty()) {
    stored = field.type.stored_swap_runs;
  }
  if (!append_runs(type.swap_runs, field.type.swap_runs, *count) ||
      !append_runs(type.stored_swap_runs, stored, *count)) {
    return unsupported("structured types that alternate between more than " + std::to_string(kMaxSwapRuns) +
                       " runs of numbers (field " + quote(field.name) + ")");
  }
  type.item_bytes += static_cast<std::uint32_t>(*bytes);
  type.fields.push_back(std::move(field));
  return {};
}

void finish_struct(DataType& type) {
  const bool keeps_order = std::all_of(type.stored_swap_runs.begin(), type.stored_swap_runs.end(),
                                       [](const DataType::SwapRun& run) { return run.width_bytes == 1; });
  if (keeps_order) type.stored_swap_runs.clear();
}

}  // namespace headrace::zarr

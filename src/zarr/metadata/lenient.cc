#include "zarr/metadata/lenient.h"

#include <headrace/open_options.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/codec.h"
#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"

namespace headrace {
namespace {

constexpr std::array<LeniencyRow, 15> kRows = {{
    {"endian-codec", "v3: a codec called 'endian' is 'bytes', its name before the specification was final"},
    {"missing-endian", "v3: 'bytes' without 'endian' for elements of several bytes is little-endian"},
    {"missing-bytes-codec", "v3: 'codecs' without an array -> bytes codec have 'bytes', little-endian"},
    {"skip-codec", "v3: an unknown codec that says must_understand: false is left out"},
    {"codec-as-string", "v2: a compressor or filter given as a name, not as an object with 'id'"},
    {"transpose-letter", "v3: 'transpose' with the order \"C\" or \"F\", as in drafts of the specification"},
    {"format-as-float", "zarr_format 3.0 or 2.0 is the integer"},
    {"unknown-members", "v3: members of zarr.json that no specification has are ignored"},
    {"missing-members", "v2: filters, compressor and fill_value that are missing are null, order is \"C\""},
    {"null-fill-value", "v3: fill_value null means that all bytes are zero"},
    {"integer-fill-as-float", "fill_value 0.0 of an integer type is 0"},
    {"missing-byte-order", "v2: a type of several bytes without byte order ('=', '|' or nothing) is little-endian"},
    {"bare-non-finite", "NaN, Infinity and -Infinity without quotes anywhere, not only in attributes"},
    {"byte-order-mark", "a document that begins with a UTF-8 byte order mark"},
    {"reserved-names", "v3: names of nodes that begin with '__', as xarray gives to arrays that have none"},
}};

}  // namespace

std::span<const LeniencyRow> leniencies() noexcept { return kRows; }

namespace zarr {
namespace {

using base::Json;

static_assert(kRows.size() == static_cast<std::size_t>(Leniency::kReservedNames) + 1);

std::string at(std::string_view where, std::size_t i) { return std::string(where) + "[" + std::to_string(i) + "]"; }

void repair_format(Json& document, double version, Lenient& lenient) {
  auto found = document.find("zarr_format");
  if (found == document.end() || !found->is_number_float() || found->get<double>() != version) return;
  if (lenient.use(Leniency::kFormatAsFloat, "zarr_format is " + found->dump())) *found = static_cast<int>(version);
}

// Reads the name of a codec given as a string or as an object with "name". False if it has neither form.
bool codec_name(const Json& codec, std::string& name) {
  const Json* text = &codec;
  if (codec.is_object()) {
    auto found = codec.find("name");
    if (found == codec.end()) return false;
    text = &*found;
  }
  if (!text->is_string()) return false;
  name = text->get<std::string>();
  return true;
}

bool is_known(std::string_view name) {
  if (name == "sharding_indexed") return true;
  for (const codec::CodecRow& row : codec::codecs()) {
    std::string_view names = row.v3_names;
    while (!names.empty()) {
      const std::size_t end = names.find(' ');
      if (names.substr(0, end) == name) return true;
      names = end == std::string_view::npos ? std::string_view() : names.substr(end + 1);
    }
  }
  return false;
}

// Where to insert "bytes" in a list that has no array -> bytes codec. nullopt if it has one, or has a codec that cannot
// be made.
std::optional<std::size_t> missing_bytes_at(const Json& codecs, const DataType& dtype) {
  std::size_t place = 0;
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    auto spec = parse_extension(codecs[i], "codec");
    if (!spec.ok() || spec->name == "sharding_indexed") return std::nullopt;
    codec::CodecArgs context;
    context.dtype = &dtype;
    auto codec = codec::make_codec(spec->name, spec->config, context);
    if (!codec.ok() || codec->kind() == codec::Kind::kArrayToBytes) return std::nullopt;
    if (codec->kind() == codec::Kind::kArrayToArray) place = i + 1;
  }
  return place;
}

void repair_one_codec(Json& codec, const std::string& name, const DataType& dtype, std::size_t rank,
                      const std::string& where, Lenient& lenient, int depth) {
  // A configuration that is not an object is not repaired; the parser refuses it.
  if (codec.is_object() && codec.contains("configuration") && !codec["configuration"].is_object()) return;
  const auto config = [&codec]() -> Json& {
    if (!codec.is_object()) codec = Json{{"name", codec}};
    return codec["configuration"];
  };
  const bool has_config = codec.is_object() && codec.contains("configuration");
  const bool has_order = dtype.uniform_swap_width() != 1 && dtype.name != "structured";
  if (name == "bytes" && has_order && !(has_config && codec["configuration"].contains("endian"))) {
    if (lenient.use(Leniency::kMissingEndian, where + " has no 'endian'")) config()["endian"] = "little";
  }
  if (name == "transpose" && has_config && codec["configuration"].contains("order")) {
    Json& order = codec["configuration"]["order"];
    const bool letter = is_text(order, "C") || is_text(order, "F");
    if (letter && lenient.use(Leniency::kTransposeLetter, where + " has the order " + order.dump())) {
      const bool reversed = is_text(order, "F");
      order = Json::array();
      for (std::size_t i = 0; i < rank; ++i) order.push_back(reversed ? rank - 1 - i : i);
    }
  }
  if (name == "sharding_indexed" && has_config) {
    static const DataType kIndexType = numeric_type("uint64");
    Json& inside = codec["configuration"];
    if (inside.contains("codecs")) {
      repair_codecs(inside["codecs"], dtype, rank, where + " codecs", lenient, depth + 1);
    }
    if (inside.contains("index_codecs")) {
      repair_codecs(inside["index_codecs"], kIndexType, rank + 1, where + " index_codecs", lenient, depth + 1);
    }
  }
}

void repair_dtype(Json& dtype, Lenient& lenient, int depth) {
  if (dtype.is_string()) {
    const auto& text = dtype.get_ref<const std::string&>();
    if (text.empty() || text[0] == '<' || text[0] == '>') return;
    const bool has_mark = text[0] == '|' || text[0] == '=';
    const std::string rest = has_mark ? text.substr(1) : text;
    bool big_endian = false;
    for (const char order : {'|', '<'}) {
      const Json candidate = order + rest;
      if (candidate == dtype && order == '|' && parse_v2_dtype(candidate, big_endian).ok()) return;
      if (!parse_v2_dtype(candidate, big_endian).ok()) continue;
      if (lenient.use(Leniency::kMissingByteOrder, "dtype " + shorten(dtype))) dtype = candidate;
      return;
    }
    return;
  }
  if (!dtype.is_array() || depth >= kMaxStructDepth) return;
  for (Json& field : dtype) {
    if (field.is_array() && field.size() >= 2) repair_dtype(field[1], lenient, depth + 1);
  }
}

void repair_v2_codec(Json& codec, const std::string& where, Lenient& lenient) {
  if (!codec.is_string()) return;
  if (lenient.use(Leniency::kCodecAsString, where + " is " + shorten(codec))) codec = Json{{"id", codec}};
}

}  // namespace

Result<Lenient> Lenient::parse(std::string_view names) {
  Lenient out;
  while (!names.empty()) {
    const std::size_t comma = names.find(',');
    std::string_view name = names.substr(0, comma);
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (name.empty()) continue;
    const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const LeniencyRow& r) { return name == r.name; });
    if (name == "all") {
      out.allowed_ = (std::uint32_t{1} << kRows.size()) - 1;
    } else if (row != kRows.end()) {
      out.allowed_ |= std::uint32_t{1} << (row - kRows.begin());
    } else {
      std::string known;
      for (const LeniencyRow& r : kRows) known += std::string(", ") + r.name;
      return Status(Code::kInvalidArgument, Layer::kZarr,
                    "unknown leniency " + quote(name) + "; known are: all" + known);
    }
  }
  return out;
}

bool Lenient::use(Leniency rule, std::string_view what) {
  if (!allows(rule)) return false;
  std::string text = std::string(kRows[static_cast<std::size_t>(rule)].name) + ": " + std::string(what);
  if (std::find(uses.begin(), uses.end(), text) == uses.end() && uses.size() < 100) uses.push_back(std::move(text));
  return true;
}

void repair_v3(Json& document, Lenient& lenient) {
  repair_format(document, 3, lenient);
  auto type = document.find("node_type");
  if (type == document.end()) return;
  static constexpr std::array<std::string_view, 12> kKnown = {"zarr_format",     "node_type",
                                                              "shape",           "data_type",
                                                              "chunk_grid",      "chunk_key_encoding",
                                                              "fill_value",      "attributes",
                                                              "codecs",          "storage_transformers",
                                                              "dimension_names", "consolidated_metadata"};
  std::vector<std::string> unknown;
  for (const auto& item : document.items()) {
    if (std::find(kKnown.begin(), kKnown.end(), item.key()) == kKnown.end() && !may_be_ignored(item.value())) {
      unknown.push_back(item.key());
    }
  }
  for (const std::string& key : unknown) {
    if (lenient.use(Leniency::kUnknownMembers, "member " + quote(key) + " is ignored")) document.erase(key);
  }
}

void repair_v2(Json& document, Lenient& lenient) {
  repair_format(document, 2, lenient);
  if (!document.contains("dtype")) return;  // a group, or nothing to repair
  repair_dtype(document["dtype"], lenient, 0);
  const std::pair<const char*, Json> defaults[] = {
      {"filters", nullptr}, {"compressor", nullptr}, {"fill_value", nullptr}, {"order", "C"}};
  for (const auto& [key, value] : defaults) {
    if (!document.contains(key) && lenient.use(Leniency::kMissingMembers, quote(key) + " is missing")) {
      document[key] = value;
    }
  }
  if (document.contains("compressor")) repair_v2_codec(document["compressor"], "compressor", lenient);
  if (document.contains("filters") && document["filters"].is_array()) {
    for (std::size_t i = 0; i < document["filters"].size(); ++i) {
      repair_v2_codec(document["filters"][i], at("filters", i), lenient);
    }
  }
}

void repair_codecs(Json& codecs, const DataType& dtype, std::size_t rank, std::string_view where, Lenient& lenient,
                   int depth) {
  if (!codecs.is_array() || depth > kMaxShardingDepth) return;
  for (std::size_t i = 0; i < codecs.size();) {
    Json& codec = codecs[i];
    std::string name;
    if (!codec_name(codec, name)) return;
    if (name == "endian" && lenient.use(Leniency::kEndianCodec, at(where, i) + " is called 'endian'")) {
      name = "bytes";
      (codec.is_object() ? codec["name"] : codec) = name;
    }
    if (!is_known(name) && may_be_ignored(codec) &&
        lenient.use(Leniency::kSkipCodec, at(where, i) + " " + quote(name) + " is left out")) {
      codecs.erase(i);
      continue;
    }
    repair_one_codec(codec, name, dtype, rank, at(where, i), lenient, depth);
    ++i;
  }
  if (!lenient.allows(Leniency::kMissingBytesCodec)) return;
  if (const auto place = missing_bytes_at(codecs, dtype)) {
    lenient.use(Leniency::kMissingBytesCodec, std::string(where) + " have no array -> bytes codec");
    codecs.insert(codecs.begin() + static_cast<std::ptrdiff_t>(*place),
                  Json{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}});
  }
}

void repair_fill(Json& fill, const DataType& dtype, Lenient& lenient) {
  const bool integer = dtype.kind == TypeKind::kInt || dtype.kind == TypeKind::kUint;
  if (!integer || !fill.is_number_float()) return;
  const double value = fill.get<double>();
  // Above 2^53 the double may differ from the intended integer.
  if (value != std::trunc(value) || std::abs(value) > 9007199254740992.0) return;
  if (lenient.use(Leniency::kIntegerFillAsFloat, "fill_value is " + fill.dump())) {
    fill = static_cast<std::int64_t>(value);
    if (value >= 0) fill = static_cast<std::uint64_t>(value);
  }
}

}  // namespace zarr
}  // namespace headrace

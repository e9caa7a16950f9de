#include "gen/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "cli_common.h"
#include "json_writer.h"

namespace headrace::cli {
namespace {

constexpr std::uint64_t kShardBytes = std::uint64_t{64} << 20;  // decoded; at least one chunk
constexpr std::uint64_t kHoursAStep = 6;
constexpr double kMaxSteps = 1e7;  // the times themselves are kept in memory
constexpr std::uint64_t kLevels = 16;
constexpr Grid kQuarterDegree = {721, 1440};
constexpr Grid kModelGrid = {640, 1280};

Status invalid(std::string message) { return Status(Code::kInvalidArgument, Layer::kApi, std::move(message)); }

// Packing steps are the smallest powers of two with which 16 bits span the variable.
constexpr FieldModel kTemperature = {"T", "temperature", "K", 250, 45, false, 12, 0.03F, -9};
constexpr FieldModel kWindU = {"U", "eastward wind", "m s-1", 0, 8, true, 8, 0.03F, -10};
constexpr FieldModel kWindV = {"V", "northward wind", "m s-1", 0, 8, true, 8, 0.03F, -10};
constexpr FieldModel kHumidity = {"Q", "specific humidity", "kg kg-1", 0.0075F, 0.006F, false, 0.0012F, 8e-6F, -22};
constexpr FieldModel kPressure = {"SP", "surface pressure", "Pa", 96000, 4000, false, 600, 2, -3};
constexpr FieldModel kGeopotential = {"Z", "geopotential", "m2 s-2", 48000, 9000, false, 1000, 5, -2};

struct Variable {
  const char* name;
  const FieldModel* model;
  bool levels;  // on kLevels model levels
};
// A variable's place here makes its weather, so that the stacked workload has the same fields as the others.
constexpr Variable kModelVariables[] = {
    {"Q500", &kHumidity, false},
    {"T500", &kTemperature, false},
    {"U500", &kWindU, false},
    {"V500", &kWindV, false},
    {"Z500", &kGeopotential, false},
    {"t2m", &kTemperature, false},
    {"SP", &kPressure, false},
    {"Q", &kHumidity, true},
    {"T", &kTemperature, true},
    {"U", &kWindU, true},
    {"V", &kWindV, true},
};
constexpr Variable kGlobeVariables[] = {{"geopotential", &kGeopotential, false},
                                        {"u_component_of_wind", &kWindU, false},
                                        {"v_component_of_wind", &kWindV, false}};
constexpr std::uint64_t kFirstGlobeVariable = 100;

struct Preset {
  const char* name;
  StoreFormat format;
  const char* codec;
  std::uint64_t steps;
  const char* since;
};
constexpr Preset kPresets[] = {
    {"w1", StoreFormat::kV2, "none", 1464, "2000-01-01"}, {"w2", StoreFormat::kV2, "blosc-lz4", 1460, "2013-01-01"},
    {"w3", StoreFormat::kV3, "zstd", 1460, "2013-01-01"}, {"w4", StoreFormat::kV3, "none", 1460, "2013-01-01"},
    {"w5", StoreFormat::kV3, "zstd", 10, nullptr},        {"w6", StoreFormat::kV3, "zstd", 1460, "2013-01-01"},
};

std::uint64_t product(std::span<const std::uint64_t> factors) {
  std::uint64_t out = 1;
  for (const std::uint64_t factor : factors) out *= factor;
  return out;
}

std::uint64_t item_bytes(const ArrayPlan& array) { return array.data_type == "int64" ? 8 : 4; }

std::string field_attributes(const FieldModel& model) {
  JsonWriter json;
  return json.begin_object().member("long_name", model.long_name).member("units", model.units).end_object().text();
}

ArrayPlan data_array(const Variable& variable, std::uint64_t id, std::uint64_t steps, const Grid& grid,
                     std::uint64_t chunk_steps) {
  ArrayPlan array;
  array.name = variable.name;
  array.dimensions = {"time", "latitude", "longitude"};
  array.shape = {steps, grid.rows, grid.columns};
  array.chunk = {chunk_steps, grid.rows, grid.columns};
  if (variable.levels) {
    array.dimensions.insert(array.dimensions.begin() + 1, "level");
    array.shape.insert(array.shape.begin() + 1, kLevels);
    array.chunk.insert(array.chunk.begin() + 1, 1);
  }
  for (std::uint64_t level = 0; level < (variable.levels ? kLevels : 1); ++level) {
    array.channels.push_back({variable.model, id, level});
  }
  array.attributes_json = field_attributes(*variable.model);
  return array;
}

// All of kModelVariables behind each other along one axis.
ArrayPlan stacked_array(std::uint64_t steps) {
  ArrayPlan array;
  JsonWriter attributes;
  attributes.begin_object().key("channel_names").begin_array();
  for (std::uint64_t id = 0; id < std::size(kModelVariables); ++id) {
    const Variable& variable = kModelVariables[id];
    for (std::uint64_t level = 0; level < (variable.levels ? kLevels : 1); ++level) {
      array.channels.push_back({variable.model, id, level});
      attributes.value(variable.name + (variable.levels ? std::to_string(level + 1) : ""));
    }
  }
  array.name = "combined";
  array.dimensions = {"time", "channel", "latitude", "longitude"};
  array.shape = {steps, array.channels.size(), kModelGrid.rows, kModelGrid.columns};
  array.chunk = {1, 1, kModelGrid.rows, kModelGrid.columns};
  array.attributes_json = attributes.end_array().end_object().text();
  return array;
}

ArrayPlan random_array(std::uint64_t steps) {
  ArrayPlan array;
  array.name = "a";
  array.dimensions = {"time", "channel", "x", "y"};
  array.shape = {steps, 128, 1280, 640};
  array.chunk = {1, 1, 1280, 640};
  for (std::uint64_t level = 0; level < 128; ++level) array.channels.push_back({nullptr, 0, level});
  return array;
}

template <class T>
ArrayPlan coordinate(const char* name, const char* data_type, std::string attributes_json, std::uint64_t count,
                     T (*value)(std::uint64_t i, std::uint64_t count)) {
  ArrayPlan array;
  array.name = name;
  array.dimensions = {name};
  array.shape = array.chunk = {count};
  array.data_type = data_type;
  array.attributes_json = std::move(attributes_json);
  array.values.resize(count * sizeof(T));
  for (std::uint64_t i = 0; i < count; ++i) {
    const T number = value(i, count);
    std::memcpy(&array.values[i * sizeof(T)], &number, sizeof(T));
  }
  return array;
}

void add_coordinates(const Preset& preset, std::uint64_t steps, const Grid& grid, bool levels, StorePlan& plan) {
  plan.arrays.push_back(coordinate<std::int64_t>(
      "time", "int64",
      "{\"units\": \"hours since " + std::string(preset.since) + "\", \"calendar\": \"proleptic_gregorian\"}", steps,
      [](std::uint64_t i, std::uint64_t) { return static_cast<std::int64_t>(kHoursAStep * i); }));
  plan.arrays.push_back(coordinate<float>(
      "latitude", "float32", "{\"units\": \"degrees_north\"}", grid.rows, [](std::uint64_t i, std::uint64_t count) {
        return static_cast<float>(90 - 180 * static_cast<double>(i) / static_cast<double>(count - 1));
      }));
  plan.arrays.push_back(coordinate<float>(
      "longitude", "float32", "{\"units\": \"degrees_east\"}", grid.columns, [](std::uint64_t i, std::uint64_t count) {
        return static_cast<float>(360 * static_cast<double>(i) / static_cast<double>(count));
      }));
  if (levels) {
    plan.arrays.push_back(
        coordinate<std::int32_t>("level", "int32", "{\"long_name\": \"model level\"}", kLevels,
                                 [](std::uint64_t i, std::uint64_t) { return static_cast<std::int32_t>(i + 1); }));
  }
}

void add_data(const Preset& preset, std::uint64_t steps, StorePlan& plan) {
  switch (preset.name[1]) {
    case '1':
      for (std::uint64_t i = 0; i < std::size(kGlobeVariables); ++i) {
        plan.arrays.push_back(data_array(kGlobeVariables[i], kFirstGlobeVariable + i, steps, kQuarterDegree, 1));
      }
      break;
    case '4':
      plan.arrays.push_back(stacked_array(steps));
      break;
    case '5':
      plan.arrays.push_back(random_array(steps));
      break;
    default: {  // w2, w3, w6
      const bool surface_only = preset.name[1] == '6';
      for (std::uint64_t id = 0; id < std::size(kModelVariables); ++id) {
        const Variable& variable = kModelVariables[id];
        if (surface_only && (variable.levels || variable.model == &kPressure)) continue;
        plan.arrays.push_back(data_array(variable, id, steps, kModelGrid, preset.name[1] == '2' ? 10 : 1));
      }
    }
  }
}

// Whole axes from the last one on, then as much of the next as keeps the shard within kShardBytes, in equal parts.
std::vector<std::uint64_t> shard_shape(const ArrayPlan& array) {
  std::vector<std::uint64_t> shard = array.chunk;
  for (std::size_t axis = shard.size(); axis-- > 0;) {
    const std::uint64_t chunks = (array.shape[axis] + array.chunk[axis] - 1) / array.chunk[axis];
    const std::uint64_t room = std::max<std::uint64_t>(kShardBytes / (item_bytes(array) * product(shard)), 1);
    const std::uint64_t shards = (chunks + room - 1) / room;
    shard[axis] *= (chunks + shards - 1) / shards;
    if (shards > 1) break;
  }
  return shard;
}

Status set_chunks(const std::vector<std::vector<std::uint64_t>>& chunks, StorePlan& plan) {
  for (const std::vector<std::uint64_t>& chunk : chunks) {
    bool used = false;
    for (ArrayPlan& array : plan.arrays) {
      if (array.channels.empty() || array.chunk.size() != chunk.size()) continue;
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        if (chunk[i] == 0 || chunk[i] > array.shape[i]) {
          return invalid("--chunk " + shape_text(chunk) + " does not lie within the shape " + shape_text(array.shape) +
                         " of '" + array.name + "'");
        }
      }
      array.chunk = chunk;
      used = true;
    }
    if (!used) return invalid("--chunk " + shape_text(chunk) + ": no data array has that many dimensions");
  }
  return {};
}

void write_codec(const CodecChoice& codec, bool v2, JsonWriter& json) {
  const auto open = [&](const char* v2_id, const char* v3_name) {
    json.begin_object().member(v2 ? "id" : "name", v2 ? v2_id : v3_name);
    if (!v2) json.key("configuration").begin_object();
  };
  switch (codec.kind) {
    case CodecChoice::Kind::kNone:
      return;
    case CodecChoice::Kind::kZstd:
      open("zstd", "zstd");
      json.member("level", codec.level);
      if (!v2) json.member("checksum", false);
      break;
    case CodecChoice::Kind::kGzip:
      open("gzip", "gzip");
      json.member("level", codec.level);
      break;
    case CodecChoice::Kind::kLz4:
      open("lz4", "numcodecs.lz4");
      json.member("acceleration", 1);
      break;
    case CodecChoice::Kind::kBloscLz4:
    case CodecChoice::Kind::kBloscZstd:
      open("blosc", "blosc");
      json.member("cname", codec.kind == CodecChoice::Kind::kBloscLz4 ? "lz4" : "zstd").member("clevel", codec.level);
      v2 ? json.member("shuffle", 1) : json.member("shuffle", "shuffle").member("typesize", 4);
      json.member("blocksize", 0);
      break;
  }
  json.end_object();
  if (!v2) json.end_object();
}

void write_v3_codecs(const CodecChoice& codec, JsonWriter& json) {
  json.begin_array().raw(R"({"name": "bytes", "configuration": {"endian": "little"}})");
  write_codec(codec, false, json);
  json.end_array();
}

void write_v2_array(const ArrayPlan& array, JsonWriter& json) {
  const bool is_float = array.data_type == "float32";
  json.begin_object()
      .member("zarr_format", 2)
      .member("shape", array.shape)
      .member("chunks", array.chunk)
      .member("dtype", is_float                     ? "<f4"
                       : array.data_type == "int64" ? "<i8"
                                                    : "<i4")
      .key("compressor");
  if (array.codec.kind == CodecChoice::Kind::kNone) {
    json.null();
  } else {
    write_codec(array.codec, true, json);
  }
  json.key("fill_value");
  // Not 0 for coordinates: readers take the fill value for "missing", and the first time is 0.
  is_float ? json.value("NaN") : json.null();
  json.member("order", "C").key("filters").null().member("dimension_separator", ".").end_object();
}

void write_v3_array(const ArrayPlan& array, JsonWriter& json) {
  json.begin_object()
      .member("zarr_format", 3)
      .member("node_type", "array")
      .member("shape", array.shape)
      .member("data_type", array.data_type)
      .key("chunk_grid")
      .begin_object()
      .member("name", "regular")
      .key("configuration")
      .begin_object()
      .member("chunk_shape", array.shard.empty() ? array.chunk : array.shard)
      .end_object()
      .end_object()
      .key("chunk_key_encoding")
      .raw(R"({"name": "default", "configuration": {"separator": "/"}})")
      .key("fill_value");
  array.data_type == "float32" ? json.value("NaN") : json.value(0);
  json.key("codecs");
  if (array.shard.empty()) {
    write_v3_codecs(array.codec, json);
  } else {
    json.begin_array()
        .begin_object()
        .member("name", "sharding_indexed")
        .key("configuration")
        .begin_object()
        .member("chunk_shape", array.chunk)
        .key("codecs");
    write_v3_codecs(array.codec, json);
    json.key("index_codecs")
        .raw(R"([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}])")
        .member("index_location", "end")
        .end_object()
        .end_object()
        .end_array();
  }
  json.key("dimension_names").begin_array();
  for (const std::string& name : array.dimensions) json.value(name);
  json.end_array().key("attributes").raw(array.attributes_json).end_object();
}

constexpr const char* kV2Group = "{\"zarr_format\": 2}\n";

}  // namespace

Result<CodecChoice> parse_codec_choice(std::string_view text) {
  struct Known {
    const char* name;
    CodecChoice::Kind kind;
    int level, lowest, highest;  // highest < lowest: has none
  };
  // Blosc's level 2 is zstd's 3.
  static constexpr Known kKnown[] = {
      {"none", CodecChoice::Kind::kNone, 0, 0, -1},         {"zstd", CodecChoice::Kind::kZstd, 3, 1, 22},
      {"blosc-lz4", CodecChoice::Kind::kBloscLz4, 5, 0, 9}, {"blosc-zstd", CodecChoice::Kind::kBloscZstd, 2, 0, 9},
      {"gzip", CodecChoice::Kind::kGzip, 1, 0, 9},          {"lz4", CodecChoice::Kind::kLz4, 0, 0, -1}};
  const std::size_t colon = std::min(text.find(':'), text.size());
  for (const Known& known : kKnown) {
    if (text.substr(0, colon) != known.name) continue;
    CodecChoice codec = {known.kind, known.level};
    if (colon == text.size()) return codec;
    if (known.highest < known.lowest) return invalid("codec '" + std::string(known.name) + "' has no levels");
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, codec.level);
    if (parsed.ec != std::errc() || parsed.ptr != end || codec.level < known.lowest || codec.level > known.highest) {
      return invalid("the level of codec '" + std::string(known.name) + "' is a number from " +
                     std::to_string(known.lowest) + " to " + std::to_string(known.highest));
    }
    return codec;
  }
  return invalid("unknown codec; use none, lz4, zstd, gzip, blosc-lz4 or blosc-zstd, with a level as in zstd:3");
}

std::string codec_text(const CodecChoice& codec) {
  const auto with_level = [&](const char* name) { return std::string(name) + ":" + std::to_string(codec.level); };
  switch (codec.kind) {
    case CodecChoice::Kind::kZstd:
      return with_level("zstd");
    case CodecChoice::Kind::kBloscLz4:
      return with_level("blosc-lz4");
    case CodecChoice::Kind::kBloscZstd:
      return with_level("blosc-zstd");
    case CodecChoice::Kind::kGzip:
      return with_level("gzip");
    case CodecChoice::Kind::kLz4:
      return "lz4";
    case CodecChoice::Kind::kNone:
      break;
  }
  return "none";
}

Result<StorePlan> plan_workload(const WorkloadOptions& options) {
  const auto* const preset = std::find_if(std::begin(kPresets), std::end(kPresets),
                                          [&](const Preset& row) { return options.workload == row.name; });
  if (preset == std::end(kPresets)) return invalid("unknown workload; use w1, w2, w3, w4, w5 or w6");
  HEADRACE_TRY_ASSIGN(const CodecChoice codec,
                      parse_codec_choice(options.codec.empty() ? preset->codec : options.codec));
  StorePlan plan;
  plan.format = options.format.empty()   ? preset->format
                : options.format == "v2" ? StoreFormat::kV2
                : options.format == "v3" ? StoreFormat::kV3
                                         : StoreFormat::kSharded;

  const auto data_bytes = [](const StorePlan& of) {
    std::uint64_t bytes = 0;
    for (const ArrayPlan& array : of.arrays) bytes += item_bytes(array) * product(array.shape);
    return bytes;
  };
  StorePlan one_step;
  add_data(*preset, 1, one_step);
  const double wanted = options.decoded_bytes != 0
                            ? static_cast<double>(options.decoded_bytes) / static_cast<double>(data_bytes(one_step))
                            : std::round(options.scale * static_cast<double>(preset->steps));
  if (wanted > kMaxSteps) return invalid("--scale or --size asks for more than ten million time steps");
  const std::uint64_t steps = static_cast<std::uint64_t>(std::max(wanted, 1.0));

  if (preset->since != nullptr) {
    const bool levels = preset->name[1] == '2' || preset->name[1] == '3';
    add_coordinates(*preset, steps, preset->name[1] == '1' ? kQuarterDegree : kModelGrid, levels, plan);
  }
  const std::size_t first_data = plan.arrays.size();
  add_data(*preset, steps, plan);
  for (std::size_t i = first_data; i < plan.arrays.size(); ++i) {
    ArrayPlan& array = plan.arrays[i];
    for (std::size_t axis = 0; axis < array.chunk.size(); ++axis) {
      array.chunk[axis] = std::min(array.chunk[axis], array.shape[axis]);
    }
    array.codec = codec;
  }
  HEADRACE_TRY(set_chunks(options.chunks, plan));
  if (plan.format == StoreFormat::kSharded) {
    for (std::size_t i = first_data; i < plan.arrays.size(); ++i) plan.arrays[i].shard = shard_shape(plan.arrays[i]);
  }
  plan.decoded_bytes = data_bytes(plan);
  plan.step_bytes = data_bytes(one_step);
  JsonWriter attributes;
  plan.attributes_json =
      attributes.begin_object()
          .member("title", "synthetic fields, workload " + options.workload)
          .member("source", "headrace gen --workload " + options.workload + " --seed " + std::to_string(options.seed))
          .end_object()
          .text();
  return plan;
}

std::string array_document(const ArrayPlan& array, StoreFormat format) {
  JsonWriter json;
  format == StoreFormat::kV2 ? write_v2_array(array, json) : write_v3_array(array, json);
  return json.text();
}

std::string v2_attributes(const ArrayPlan& array) {
  // The dimensions' names go into the same object, where xarray looks for them.
  JsonWriter json;
  json.begin_array();
  for (const std::string& name : array.dimensions) json.value(name);
  std::string names = json.end_array().text();
  names.pop_back();
  std::string text = array.attributes_json;
  const std::size_t brace = text.find('{');
  const bool empty = text.find('"') == std::string::npos;
  text.insert(brace + 1, "\"_ARRAY_DIMENSIONS\": " + names + (empty ? "" : ", "));
  return text;
}

std::string v3_group_document(const StorePlan& plan) {
  JsonWriter json;
  json.begin_object()
      .member("zarr_format", 3)
      .member("node_type", "group")
      .key("attributes")
      .raw(plan.attributes_json)
      .key("consolidated_metadata")
      .begin_object()
      .member("kind", "inline")
      .member("must_understand", false)
      .key("metadata")
      .begin_object();
  for (const ArrayPlan& array : plan.arrays) json.key(array.name).raw(array_document(array, plan.format));
  return json.end_object().end_object().end_object().text();
}

std::string v2_consolidated_document(const StorePlan& plan) {
  JsonWriter json;
  json.begin_object().member("zarr_consolidated_format", 1).key("metadata").begin_object();
  json.key(".zgroup").raw(kV2Group).key(".zattrs").raw(plan.attributes_json);
  for (const ArrayPlan& array : plan.arrays) {
    json.key(array.name + "/.zarray").raw(array_document(array, plan.format));
    json.key(array.name + "/.zattrs").raw(v2_attributes(array));
  }
  return json.end_object().end_object().text();
}

}  // namespace headrace::cli

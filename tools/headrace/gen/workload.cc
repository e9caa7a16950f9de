#include "gen/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "cli_common.h"

namespace headrace::cli {
namespace {

constexpr std::uint64_t kShardBytes = std::uint64_t{64} << 20;  // decoded, but at least one chunk
constexpr std::uint64_t kHoursAStep = 6;
constexpr double kMaxSteps = 1e7;  // all times are kept in memory
constexpr std::uint64_t kLevels = 16;
constexpr Grid kQuarterDegree = {721, 1440};
constexpr Grid kModelGrid = {640, 1280};

Status invalid(std::string message) { return Status(Code::kInvalidArgument, Layer::kApi, std::move(message)); }

// The packing step is the smallest power of two with which 16 bits span the variable.
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
// A variable's index seeds its weather, so that the stacked workload has the same fields as the others.
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
  array.attributes = {{"long_name", variable.model->long_name}, {"units", variable.model->units}};
  return array;
}

// All of kModelVariables, concatenated along one axis.
ArrayPlan stacked_array(std::uint64_t steps) {
  ArrayPlan array;
  Json& names = array.attributes["channel_names"] = Json::array();
  for (std::uint64_t id = 0; id < std::size(kModelVariables); ++id) {
    const Variable& variable = kModelVariables[id];
    for (std::uint64_t level = 0; level < (variable.levels ? kLevels : 1); ++level) {
      array.channels.push_back({variable.model, id, level});
      names.push_back(variable.name + (variable.levels ? std::to_string(level + 1) : ""));
    }
  }
  array.name = "combined";
  array.dimensions = {"time", "channel", "latitude", "longitude"};
  array.shape = {steps, array.channels.size(), kModelGrid.rows, kModelGrid.columns};
  array.chunk = {1, 1, kModelGrid.rows, kModelGrid.columns};
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
ArrayPlan coordinate(const char* name, const char* data_type, Json attributes, std::uint64_t count,
                     T (*value)(std::uint64_t i, std::uint64_t count)) {
  ArrayPlan array;
  array.name = name;
  array.dimensions = {name};
  array.shape = array.chunk = {count};
  array.data_type = data_type;
  array.attributes = std::move(attributes);
  array.values.resize(count * sizeof(T));
  for (std::uint64_t i = 0; i < count; ++i) {
    const T number = value(i, count);
    std::memcpy(&array.values[i * sizeof(T)], &number, sizeof(T));
  }
  return array;
}

void add_coordinates(const Preset& preset, std::uint64_t steps, const Grid& grid, bool levels, StorePlan& plan) {
  plan.arrays.push_back(coordinate<std::int64_t>(
      "time", "int64", {{"units", "hours since " + std::string(preset.since)}, {"calendar", "proleptic_gregorian"}},
      steps, [](std::uint64_t i, std::uint64_t) { return static_cast<std::int64_t>(kHoursAStep * i); }));
  plan.arrays.push_back(coordinate<float>(
      "latitude", "float32", {{"units", "degrees_north"}}, grid.rows, [](std::uint64_t i, std::uint64_t count) {
        return static_cast<float>(90 - 180 * static_cast<double>(i) / static_cast<double>(count - 1));
      }));
  plan.arrays.push_back(coordinate<float>(
      "longitude", "float32", {{"units", "degrees_east"}}, grid.columns, [](std::uint64_t i, std::uint64_t count) {
        return static_cast<float>(360 * static_cast<double>(i) / static_cast<double>(count));
      }));
  if (levels) {
    plan.arrays.push_back(
        coordinate<std::int32_t>("level", "int32", {{"long_name", "model level"}}, kLevels,
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

// Whole axes from the last one on, then as much of the next one as kShardBytes permits, in equal parts.
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

Json codec_json(const CodecChoice& codec, bool v2) {
  const auto named = [&](const char* v2_id, const char* v3_name, Json configuration) -> Json {
    if (!v2) return {{"name", v3_name}, {"configuration", std::move(configuration)}};
    Json json = {{"id", v2_id}};
    json.update(configuration);
    return json;
  };
  switch (codec.kind) {
    case CodecChoice::Kind::kNone:
      return {};
    case CodecChoice::Kind::kZstd:
      return named("zstd", "zstd",
                   v2 ? Json{{"level", codec.level}} : Json{{"level", codec.level}, {"checksum", false}});
    case CodecChoice::Kind::kGzip:
      return named("gzip", "gzip", {{"level", codec.level}});
    case CodecChoice::Kind::kLz4:
      return named("lz4", "numcodecs.lz4", {{"acceleration", 1}});
    case CodecChoice::Kind::kBloscLz4:
    case CodecChoice::Kind::kBloscZstd:
      break;
  }
  Json blosc = {{"cname", codec.kind == CodecChoice::Kind::kBloscLz4 ? "lz4" : "zstd"},
                {"clevel", codec.level},
                {"shuffle", v2 ? Json(1) : Json("shuffle")}};
  if (!v2) blosc["typesize"] = 4;
  blosc["blocksize"] = 0;
  return named("blosc", "blosc", std::move(blosc));
}

Json little_endian_bytes() { return {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}; }

Json v3_codecs(const CodecChoice& codec) {
  Json list = Json::array();
  list.push_back(little_endian_bytes());
  if (codec.kind != CodecChoice::Kind::kNone) list.push_back(codec_json(codec, false));
  return list;
}

Json v2_array(const ArrayPlan& array) {
  const bool is_float = array.data_type == "float32";
  return {{"zarr_format", 2},
          {"shape", array.shape},
          {"chunks", array.chunk},
          {"dtype", is_float                     ? "<f4"
                    : array.data_type == "int64" ? "<i8"
                                                 : "<i4"},
          {"compressor", codec_json(array.codec, true)},
          // Not 0 for coordinates: readers treat the fill value as "missing", and the first time is 0.
          {"fill_value", is_float ? Json("NaN") : Json()},
          {"order", "C"},
          {"filters", nullptr},
          {"dimension_separator", "."}};
}

Json v3_array(const ArrayPlan& array) {
  Json codecs = v3_codecs(array.codec);
  if (!array.shard.empty()) {
    Json index_codecs = Json::array();
    index_codecs.push_back(little_endian_bytes());
    index_codecs.push_back({{"name", "crc32c"}});
    Json sharding = {{"name", "sharding_indexed"},
                     {"configuration",
                      {{"chunk_shape", array.chunk},
                       {"codecs", std::move(codecs)},
                       {"index_codecs", std::move(index_codecs)},
                       {"index_location", "end"}}}};
    codecs = Json::array();
    codecs.push_back(std::move(sharding));
  }
  const auto& grid = array.shard.empty() ? array.chunk : array.shard;
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", array.shape},
          {"data_type", array.data_type},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", grid}}}}},
          {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
          {"fill_value", array.data_type == "float32" ? Json("NaN") : Json(0)},
          {"codecs", std::move(codecs)},
          {"dimension_names", array.dimensions},
          {"attributes", array.attributes}};
}

Json array_json(const ArrayPlan& array, StoreFormat format) {
  return format == StoreFormat::kV2 ? v2_array(array) : v3_array(array);
}

// Adds the dimension names, which xarray reads from the attributes.
Json v2_attributes_json(const ArrayPlan& array) {
  Json json = {{"_ARRAY_DIMENSIONS", array.dimensions}};
  json.update(array.attributes);
  return json;
}

}  // namespace

Result<CodecChoice> parse_codec_choice(std::string_view text) {
  struct Known {
    const char* name;
    CodecChoice::Kind kind;
    int level, lowest, highest;  // highest < lowest: the codec has no levels
  };
  // Blosc's level 2 corresponds to zstd's level 3.
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
  plan.attributes = {
      {"title", "synthetic fields, workload " + options.workload},
      {"source", "headrace gen --workload " + options.workload + " --seed " + std::to_string(options.seed)}};
  return plan;
}

std::string document_of(const Json& json) { return json_text(json) + "\n"; }

std::string array_document(const ArrayPlan& array, StoreFormat format) {
  return document_of(array_json(array, format));
}

std::string v2_attributes(const ArrayPlan& array) { return document_of(v2_attributes_json(array)); }

std::string v3_group_document(const StorePlan& plan) {
  Json arrays = Json::object();
  for (const ArrayPlan& array : plan.arrays) arrays[array.name] = array_json(array, plan.format);
  return document_of(
      {{"zarr_format", 3},
       {"node_type", "group"},
       {"attributes", plan.attributes},
       {"consolidated_metadata", {{"kind", "inline"}, {"must_understand", false}, {"metadata", std::move(arrays)}}}});
}

std::string v2_consolidated_document(const StorePlan& plan) {
  Json documents = {{".zgroup", {{"zarr_format", 2}}}, {".zattrs", plan.attributes}};
  for (const ArrayPlan& array : plan.arrays) {
    documents[array.name + "/.zarray"] = array_json(array, plan.format);
    documents[array.name + "/.zattrs"] = v2_attributes_json(array);
  }
  return document_of({{"zarr_consolidated_format", 1}, {"metadata", std::move(documents)}});
}

}  // namespace headrace::cli

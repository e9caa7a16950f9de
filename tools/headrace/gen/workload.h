// Workloads: plans of stores like those of known data loaders; generate_store() executes them.
//
//   w1  a year of three 0.25 degree fields, Zarr v2, one field per chunk, no codec
//   w2  a year of a weather model's training set, v2, ten times per chunk, Blosc lz4
//   w3  the same rechunked to one field per chunk, v3, zstd
//   w4  the same with all variables and levels stacked into one array of 71 channels, v3, no codec
//   w5  uniform random numbers, v3, zstd
//   w6  the six surface and 500 hPa arrays of w3
//
// Scaling changes only the number of times; the chunk shape stays.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gen/field_source.h"
#include "json_text.h"

namespace headrace::cli {

enum class StoreFormat { kV2, kV3, kSharded };

struct CodecChoice {
  enum class Kind { kNone, kZstd, kBloscLz4, kBloscZstd, kGzip, kLz4 } kind = Kind::kNone;
  int level = 0;
};
// "none", "lz4", or a name with an optional level: "zstd", "zstd:19", "blosc-zstd:2". kInvalidArgument otherwise.
Result<CodecChoice> parse_codec_choice(std::string_view text);
std::string codec_text(const CodecChoice& codec);

// One plane of an array, and the field in it.
struct Channel {
  const FieldModel* model = nullptr;  // null: uniform random numbers
  std::uint64_t variable = 0;
  std::uint64_t level = 0;
};

struct ArrayPlan {
  std::string name;
  std::vector<std::string> dimensions;
  std::vector<std::uint64_t> shape, chunk, shard;  // shard: empty unless sharded
  std::string data_type = "float32";               // or "int64", "int32"
  Json attributes = Json::object();
  CodecChoice codec;
  // Data: axes are time, channel (omitted if there is only one), row, column.
  std::vector<Channel> channels;
  // Coordinates, instead of channels: all values, little-endian.
  std::vector<std::byte> values;
};

struct StorePlan {
  StoreFormat format = StoreFormat::kV2;
  Json attributes;
  std::vector<ArrayPlan> arrays;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t step_bytes = 0;  // decoded bytes of one time step of the data
};

// Overrides of a workload; empty or 0: the workload's own value.
struct WorkloadOptions {
  std::string workload;
  double scale = 1;                 // factor for the number of times
  std::uint64_t decoded_bytes = 0;  // instead of scale: as many times as fit, but at least one
  std::string format, codec;
  std::vector<std::vector<std::uint64_t>> chunks;  // chunk shapes; each applies to data arrays of its rank
  std::uint64_t seed = 0;
};

// kInvalidArgument: an unknown name, or a chunk shape that matches no array.
Result<StorePlan> plan_workload(const WorkloadOptions& options);

// Metadata documents of an array of the plan, and of its group.
std::string array_document(const ArrayPlan& array, StoreFormat format);
std::string v2_attributes(const ArrayPlan& array);
std::string v3_group_document(const StorePlan& plan);
std::string v2_consolidated_document(const StorePlan& plan);

}  // namespace headrace::cli

// Configuration of the sharding_indexed codec ("v3/codecs/sharding-indexed" 1.0).
#include <limits>
#include <optional>

#include "base/checked.h"
#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"

namespace headrace::zarr {
namespace {

using base::Json;

constexpr int kMaxShardingDepth = 8;
constexpr std::string_view kShardingConfig = "sharding_indexed";

Result<std::vector<CodecSpec>> parse_codec_list(const Json& config, std::string_view key) {
  HEADRACE_TRY_ASSIGN(const Json* list, required_member(config, key, kShardingConfig));
  const std::string what = std::string(kShardingConfig) + " " + std::string(key);
  if (!list->is_array() || list->empty()) return wrong_value(what, "a list with at least one codec", *list);
  std::vector<CodecSpec> codecs;
  for (const Json& item : *list) {
    HEADRACE_TRY_ASSIGN(CodecSpec spec, parse_extension(item, what + "[" + std::to_string(codecs.size()) + "]"));
    codecs.push_back(std::move(spec));
  }
  return codecs;
}

bool changes_size(std::string_view codec) {
  for (std::string_view name :
       {"gzip", "zstd", "blosc", "zlib", "lz4", "bz2", "lzma", "numcodecs.gzip", "numcodecs.zstd", "numcodecs.blosc",
        "numcodecs.zlib", "numcodecs.lz4", "numcodecs.bz2", "numcodecs.lzma", "sharding_indexed"}) {
    if (name == codec) return true;
  }
  return false;
}

// The index is read first, so its size must follow from the metadata alone.
Status check_index_codecs(const std::vector<CodecSpec>& codecs) {
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    const CodecSpec& codec = codecs[i];
    const std::string what = "sharding_indexed index_codecs[" + std::to_string(i) + "]";
    if (changes_size(codec.name)) {
      return corrupt(what + " is '" + codec.name + "', but codecs of the index must keep a fixed size");
    }
    const bool is_bytes = codec.name == "bytes" || codec.name == "endian";
    if (!is_bytes && codec.name != "crc32c") {
      return unsupported("codec " + quote(codec.name) +
                         " in index_codecs is not implemented; 'bytes' and 'crc32c' are");
    }
    if (is_bytes != (i == 0)) {
      return corrupt(what + " is '" + codec.name + "', but exactly one array -> bytes codec is allowed, at the start");
    }
    if (!is_bytes) {
      HEADRACE_TRY(refuse_other_members(codec.config, {}, "configuration of " + what));
      continue;
    }
    HEADRACE_TRY(refuse_other_members(codec.config, {"endian"}, "configuration of " + what));
    HEADRACE_TRY_ASSIGN(const Json* endian, required_member(codec.config, "endian", "configuration of " + what));
    if (!is_text(*endian, "little") && !is_text(*endian, "big")) {
      return wrong_value("endian in the configuration of " + what, "\"little\" or \"big\"", *endian);
    }
  }
  return {};
}

Result<ShardingConfig> parse_level(const Json& config, const std::vector<std::uint64_t>& outer_shape, int depth) {
  if (depth >= kMaxShardingDepth) {
    return unsupported("sharding nested deeper than " + std::to_string(kMaxShardingDepth) + " levels");
  }
  if (!config.is_object()) return wrong_value(kShardingConfig, "an object", config);
  HEADRACE_TRY(
      refuse_other_members(config, {"chunk_shape", "codecs", "index_codecs", "index_location"}, kShardingConfig));
  ShardingConfig sharding;

  const std::string shape_name = "sharding_indexed chunk_shape";
  HEADRACE_TRY_ASSIGN(const Json* shape, required_member(config, "chunk_shape", kShardingConfig));
  HEADRACE_TRY_ASSIGN(sharding.inner_shape, read_extents(*shape, shape_name));
  if (sharding.inner_shape.size() != outer_shape.size()) {
    return corrupt(shape_name + " has " + std::to_string(sharding.inner_shape.size()) +
                   " dimensions, but the shard has " + std::to_string(outer_shape.size()));
  }
  std::optional<std::uint64_t> index_bytes = 16;  // offset and length of each inner chunk
  for (std::size_t i = 0; i < outer_shape.size(); ++i) {
    const std::uint64_t inner = sharding.inner_shape[i];
    if (inner == 0 || outer_shape[i] % inner != 0) {
      return corrupt(shape_name + "[" + std::to_string(i) + "] is " + std::to_string(inner) +
                     ", which does not divide the shard's extent of " + std::to_string(outer_shape[i]));
    }
    if (index_bytes) index_bytes = base::checked_mul(*index_bytes, outer_shape[i] / inner);
  }
  if (!index_bytes || *index_bytes > std::numeric_limits<std::int64_t>::max()) {
    return corrupt(shape_name + " makes a shard index of more than 2^63 - 1 bytes");
  }

  if (auto location = config.find("index_location"); location != config.end()) {
    if (!is_text(*location, "start") && !is_text(*location, "end")) {
      return wrong_value("sharding_indexed index_location", "\"start\" or \"end\"", *location);
    }
    sharding.index_at_end = is_text(*location, "end");
  }
  HEADRACE_TRY_ASSIGN(sharding.index_codecs, parse_codec_list(config, "index_codecs"));
  HEADRACE_TRY(check_index_codecs(sharding.index_codecs));
  HEADRACE_TRY_ASSIGN(sharding.codecs, parse_codec_list(config, "codecs"));
  // An inner shard after a codec that changes the shape is checked when the chain is built.
  if (sharding.codecs[0].name == "sharding_indexed") {
    auto inner = parse_level(sharding.codecs[0].config, sharding.inner_shape, depth + 1);
    if (!inner.ok()) return std::move(inner).status();
  }
  return sharding;
}

}  // namespace

Result<ShardingConfig> parse_sharding(const Json& config, const std::vector<std::uint64_t>& outer_shape) {
  return parse_level(config, outer_shape, 0);
}

}  // namespace headrace::zarr

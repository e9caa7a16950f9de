// Array and group metadata of Zarr v2 and v3, in one form.
//
// Parsing is strict and never guesses. What the specifications forbid fails with kCorrupt and names the rule; what is
// legal but not implemented fails with kUnsupported and names the feature. ("v3/core" = Zarr core specification 3.1,
// "v2" = 2.0.)
//
// Threads: plain values; the parsers have no state.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "zarr/metadata/rectilinear_grid.h"

namespace headrace::zarr {

inline constexpr int kMaxShardingDepth = 8;

inline constexpr std::size_t kMaxRank = 32;

class Lenient;  // the enabled leniencies and their uses; null: none

// One step of a codec chain as written. The codec table resolves it later.
struct CodecSpec {
  std::string name;   // v3 name, or v2 numcodecs id
  base::Json config;  // object; v2: without "id"
};

struct ChunkKeyEncoding {
  enum class Kind : std::uint8_t { kDefault, kV2 } kind = Kind::kDefault;
  char separator = '/';
};

struct ArrayMetadata {
  int zarr_format = 3;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> chunk_shape;  // same rank; > 0 where shape > 0; rectilinear: largest extent of each axis
  std::shared_ptr<const RectilinearGrid> rectilinear;  // null: regular grid
  DataType dtype;
  bool v2_big_endian = false;  // v2 only: byte order of a non-structured dtype
  char v2_order = 'C';         // v2 only
  ChunkKeyEncoding keys;
  // One element's bytes in decoded form (little-endian, packed): item_bytes of them. Empty: v2 null, whose contents are
  // undefined; zeros are used. Elements of variable length: any number of bytes, none for v2 null.
  std::vector<std::byte> fill;
  std::string fill_text;          // as written, compact JSON, for display
  std::vector<CodecSpec> codecs;  // v3: the list; v2: filters then compressor, in encoding order
  std::vector<std::optional<std::string>> dimension_names;  // empty if absent, else one per dimension
  base::Json attributes = base::Json::object();
};

struct GroupMetadata {
  int zarr_format = 3;
  base::Json attributes = base::Json::object();
  bool has_consolidated = false;
};

// `.zarray`; attributes come from parse_v2_attributes.
Result<ArrayMetadata> parse_v2_array(std::string_view text, Lenient* lenient = nullptr);
Result<GroupMetadata> parse_v2_group(std::string_view text, Lenient* lenient = nullptr);  // `.zgroup`
// `.zattrs`: an object. Some writers put bare NaN and Infinity into attributes; they become the strings "NaN" and
// "Infinity". The same holds below "attributes" in zarr.json.
Result<base::Json> parse_v2_attributes(std::string_view text);

// `zarr.json`. node_type decides the kind of node; parse_v3_array on a group fails with kInvalidArgument ("is a
// group").
Result<ArrayMetadata> parse_v3_array(std::string_view text, Lenient* lenient = nullptr);
Result<GroupMetadata> parse_v3_group(std::string_view text, Lenient* lenient = nullptr);
// Parses either kind of node.
struct V3Node {
  std::optional<ArrayMetadata> array;
  std::optional<GroupMetadata> group;
};
Result<V3Node> parse_v3_node(std::string_view text, Lenient* lenient = nullptr);
// Returns "array" or "group"; checks zarr_format and node_type only.
Result<std::string> parse_v3_node_type(std::string_view text);

// v3 extension object or bare string -> {name, configuration}. `what` names the field in messages.
Result<CodecSpec> parse_extension(const base::Json& value, std::string_view what);

// NumPy type string or descr list ("<f4", ">M8[ns]", [["a","<i4"],["b","|S3",[2]]]). Sets big_endian for a simple type.
Result<DataType> parse_v2_dtype(const base::Json& value, bool& big_endian);
// dtype "|O": the type of the objects that the first filter of `codecs`, a numcodecs object codec, encodes.
Result<DataType> parse_v2_object_type(const std::vector<CodecSpec>& codecs);
// "float32", "r16", {"name": "numpy.datetime64", "configuration": {...}}, ...
Result<DataType> parse_v3_dtype(const base::Json& value);
// Bytes of one fill element in decoded form (little-endian, packed).
Result<std::vector<std::byte>> parse_v2_fill(const base::Json& value, const DataType& dtype);
Result<std::vector<std::byte>> parse_v3_fill(const base::Json& value, const DataType& dtype);

// Appends the chunk's key (relative to the array) to `key`. Allocates only if `key` must grow.
// REQUIRES: index.size() is the array's rank.
void append_chunk_key(const ChunkKeyEncoding& encoding, const std::uint64_t* index, std::size_t rank, std::string& key);

// Configuration of one sharding_indexed codec ("v3/codecs/sharding-indexed" 1.0).
struct ShardingConfig {
  std::vector<std::uint64_t> inner_shape;
  std::vector<CodecSpec> codecs;
  std::vector<CodecSpec> index_codecs;
  bool index_at_end = true;
};
// Checks the configuration against the shape of the shard it encodes: same rank, and the inner shape divides the outer.
Result<ShardingConfig> parse_sharding(const base::Json& config, const std::vector<std::uint64_t>& outer_shape);

}  // namespace headrace::zarr

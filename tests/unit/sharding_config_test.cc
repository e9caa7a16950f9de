// A sharding configuration is accepted only if it determines the location of every inner chunk and of the index.
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {
namespace {

using base::Json;

const Json kValid =
    Json::parse(R"({"chunk_shape": [2, 5], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
  "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]})");
const std::vector<std::uint64_t> kShard = {6, 10};

void refuse(const char* key, const char* value, Code code) {
  Json config = kValid;
  config[key] = Json::parse(value);
  const Status status = parse_sharding(config, kShard).status();
  EXPECT_EQ(code_name(status.code()), code_name(code)) << key << " " << value << ": " << status.to_string();
}

TEST(ShardingConfig, ReadsEveryMember) {
  Json config = kValid;
  config["index_location"] = "start";
  auto sharding = parse_sharding(config, kShard);
  ASSERT_TRUE(sharding.ok()) << sharding.status().to_string();
  EXPECT_EQ(sharding->inner_shape, (std::vector<std::uint64_t>{2, 5}));
  EXPECT_EQ(sharding->codecs.size(), 1u);
  EXPECT_EQ(sharding->index_codecs.size(), 2u);
  EXPECT_FALSE(sharding->index_at_end);
}

TEST(ShardingConfig, IndexIsAtTheEndByDefault) {
  auto sharding = parse_sharding(kValid, kShard);
  ASSERT_TRUE(sharding.ok());
  EXPECT_TRUE(sharding->index_at_end);
}

TEST(ShardingConfig, RefusesEachMissingMember) {
  for (const auto& item : kValid.items()) {
    Json config = kValid;
    config.erase(item.key());
    const Status status = parse_sharding(config, kShard).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find(item.key()), std::string::npos) << status.message();
  }
}

TEST(ShardingConfig, RefusesUnknownMembersAndOtherThanObjects) {
  refuse("other", "1", Code::kCorrupt);
  EXPECT_EQ(parse_sharding(Json(5), kShard).status().code(), Code::kCorrupt);
}

TEST(ShardingConfig, RefusesInnerShapeThatDoesNotDivideTheShard) {
  for (const char* value :
       {"[2]", "[2, 5, 1]", "[4, 5]", "[12, 10]", "[0, 5]", "[-2, 5]", "[2.0, 5]", "\"25\"", "null"}) {
    refuse("chunk_shape", value, Code::kCorrupt);
  }
}

TEST(ShardingConfig, RefusesUnknownIndexLocation) {
  for (const char* value : {"\"middle\"", "null", "1", "\"\""}) refuse("index_location", value, Code::kCorrupt);
}

TEST(ShardingConfig, RefusesEmptyOrMalformedCodecs) {
  for (const char* key : {"codecs", "index_codecs"}) {
    for (const char* value : {"[]", "null", "{}", "[5]", "\"bytes\""}) refuse(key, value, Code::kCorrupt);
  }
}

TEST(ShardingConfig, RefusesIndexCodecsWithoutFixedSize) {
  for (const char* name : {"gzip", "zstd", "blosc", "numcodecs.lz4", "sharding_indexed"}) {
    const std::string value =
        std::string(R"([{"name": "bytes", "configuration": {"endian": "little"}}, ")") + name + "\"]";
    refuse("index_codecs", value.c_str(), Code::kCorrupt);
  }
}

TEST(ShardingConfig, IndexCodecsAreOneBytesThenChecksums) {
  for (
      const char* value :
      {R"(["crc32c"])", R"([{"name": "bytes"}])", R"([{"name": "bytes", "configuration": {"endian": "middle"}}])",
       R"(["crc32c", {"name": "bytes", "configuration": {"endian": "big"}}])",
       R"([{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "bytes", "configuration": {"endian": "big"}}])",
       R"([{"name": "bytes", "configuration": {"endian": "big", "x": 1}}])",
       R"([{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c", "configuration": {"x": 1}}])"}) {
    refuse("index_codecs", value, Code::kCorrupt);
  }
  refuse("index_codecs", R"([{"name": "transpose", "configuration": {"order": [0]}}, "bytes"])", Code::kUnsupported);
}

TEST(ShardingConfig, RefusesIndexBeyond63Bits) {
  Json config = kValid;
  config["chunk_shape"] = Json::parse("[1, 1]");
  EXPECT_EQ(parse_sharding(config, {std::uint64_t{1} << 40, std::uint64_t{1} << 20}).status().code(), Code::kCorrupt);
  EXPECT_TRUE(parse_sharding(config, {std::uint64_t{1} << 38, std::uint64_t{1} << 20}).ok());
}

Json nested(int levels) {
  Json config = kValid;
  for (int i = 1; i < levels; ++i) {
    Json outer = kValid;
    outer["codecs"] = Json::array({{{"name", "sharding_indexed"}, {"configuration", config}}});
    config = outer;
  }
  return config;
}

TEST(ShardingConfig, ChecksNestedShards) {
  EXPECT_TRUE(parse_sharding(nested(2), kShard).ok());
  Json config = nested(2);
  config["codecs"][0]["configuration"]["chunk_shape"] = Json::parse("[2, 3]");
  EXPECT_EQ(parse_sharding(config, kShard).status().code(), Code::kCorrupt);
}

TEST(ShardingConfig, RefusesDeepNesting) {
  EXPECT_TRUE(parse_sharding(nested(4), kShard).ok());
  const Status status = parse_sharding(nested(50), kShard).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message().rfind("sharding nested deeper", 0), 0u) << status.message();
}

}  // namespace
}  // namespace headrace::zarr

// Zarr v3 metadata is accepted exactly where core specification 3.1 accepts it; everything else is refused by name.
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {
namespace {

using base::Json;

const Json kValid = Json::parse(R"({"zarr_format": 3, "node_type": "array", "shape": [20, 10], "data_type": "int16",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6, 5]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
  "fill_value": -2, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]})");

Result<ArrayMetadata> parse_with(const char* key, const Json& value) {
  Json document = kValid;
  document[key] = value;
  return parse_v3_array(document.dump());
}

Status refusal(const char* key, const char* value) { return parse_with(key, Json::parse(value)).status(); }

void expect(const Status& status, Code code, const std::string& part) {
  EXPECT_EQ(code_name(status.code()), code_name(code)) << status.to_string();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.to_string();
}

TEST(V3Metadata, ReadsEveryMember) {
  Json document = kValid;
  document["attributes"] = {{"units", "K"}};
  document["dimension_names"] = {"x", nullptr};
  document["storage_transformers"] = Json::array();
  auto array = parse_v3_array(document.dump());
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(array->zarr_format, 3);
  EXPECT_EQ(array->shape, (std::vector<std::uint64_t>{20, 10}));
  EXPECT_EQ(array->chunk_shape, (std::vector<std::uint64_t>{6, 5}));
  EXPECT_EQ(array->dtype.name, "int16");
  EXPECT_EQ(array->fill, (std::vector<std::byte>{std::byte{0xfe}, std::byte{0xff}}));
  EXPECT_EQ(array->attributes["units"], "K");
  ASSERT_EQ(array->dimension_names.size(), 2u);
  EXPECT_EQ(array->dimension_names[0], "x");
  EXPECT_EQ(array->dimension_names[1], std::nullopt);
  ASSERT_EQ(array->codecs.size(), 2u);
  EXPECT_EQ(array->codecs[0].config["endian"], "little");
  EXPECT_EQ(array->codecs[1].name, "crc32c");
  EXPECT_TRUE(array->codecs[1].config.is_object());
}

TEST(V3Metadata, RefusesEachMissingMember) {
  for (const auto& item : kValid.items()) {
    Json document = kValid;
    document.erase(item.key());
    expect(parse_v3_array(document.dump()).status(), Code::kCorrupt, item.key());
  }
}

TEST(V3Metadata, RefusesFormatThatIsNotTheInteger3) {
  for (const char* value : {"3.0", "\"3\"", "2", "true", "[3]", "-3", "null"}) {
    expect(refusal("zarr_format", value), Code::kCorrupt, "zarr_format");
  }
}

TEST(V3Metadata, RefusesUnknownNodeType) {
  for (const char* value : {"\"Array\"", "\"\"", "null", "5"})
    expect(refusal("node_type", value), Code::kCorrupt, "node_type");
}

TEST(V3Metadata, GroupIsNoArray) {
  expect(parse_v3_array(R"({"zarr_format": 3, "node_type": "group"})").status(), Code::kInvalidArgument, "is a group");
  expect(parse_v3_group(kValid.dump()).status(), Code::kInvalidArgument, "is an array");
}

TEST(V3Metadata, NodeTypeNeedsNothingElse) {
  auto type = parse_v3_node_type(R"({"zarr_format": 3, "node_type": "group", "later_version": 1})");
  ASSERT_TRUE(type.ok());
  EXPECT_EQ(*type, "group");
  EXPECT_EQ(parse_v3_node_type("[]").status().code(), Code::kCorrupt);
}

TEST(V3Metadata, RefusesUnknownTopLevelKeyWithoutMustUnderstandFalse) {
  for (const char* value : {"1", "[]", "null", "{}", R"({"must_understand": true})", R"({"must_understand": 0})",
                            R"({"must_understand": "false"})", R"([{"must_understand": false}])"}) {
    expect(refusal("my_extension", value), Code::kCorrupt, "my_extension");
  }
}

TEST(V3Metadata, IgnoresUnknownTopLevelKeyWithMustUnderstandFalse) {
  EXPECT_TRUE(parse_with("my_extension", Json::parse(R"({"must_understand": false, "x": [1]})")).ok());
}

TEST(V3Metadata, UnknownKeysInAttributesAreFree) {
  EXPECT_TRUE(parse_with("attributes", Json::parse(R"({"anything": {"must_understand": true}})")).ok());
  expect(refusal("attributes", "[]"), Code::kCorrupt, "attributes");
  expect(refusal("attributes", "null"), Code::kCorrupt, "attributes");
}

TEST(V3Metadata, BareNonFiniteNumbersAreStringsInAttributesOnly) {
  std::string text = kValid.dump();
  text.insert(1, R"("attributes": {"missing_value": NaN, "range": [-Infinity, 1]}, )");
  auto array = parse_v3_array(text);
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(array->attributes, Json::parse(R"({"missing_value": "NaN", "range": ["-Infinity", 1]})"));
  text = kValid.dump();
  text.replace(text.find("\"fill_value\":-2") + 13, 2, "NaN");
  expect(parse_v3_array(text).status(), Code::kCorrupt, "JSON");
  text.insert(1, "\"attributes\": {\"a\": NaN}, ");
  expect(parse_v3_array(text).status(), Code::kCorrupt, "JSON");
}

TEST(V3Metadata, RefusesExtentsThatAreNoIntegers) {
  for (const char* value : {"[-1, 1]", "[1.0, 1]", "[true, 1]", "[\"1\", 1]", "[9223372036854775808, 1]",
                            "[18446744073709551616, 1]", "[null, 1]", "[[1], 1]"}) {
    expect(refusal("shape", value), Code::kCorrupt, "shape[0]");
  }
  for (const char* value : {"5", "null", "{}"}) expect(refusal("shape", value), Code::kCorrupt, "shape");
}

TEST(V3Metadata, OpensArraysOfAnySizeAndOfNone) {
  EXPECT_TRUE(parse_with("shape", Json::parse("[9223372036854775807, 9223372036854775807]")).ok());
  EXPECT_TRUE(parse_with("shape", Json::parse("[0, 10]")).ok());
  Json scalar = kValid;
  scalar["shape"] = Json::array();
  scalar["chunk_grid"]["configuration"]["chunk_shape"] = Json::array();
  EXPECT_TRUE(parse_v3_array(scalar.dump()).ok());
}

TEST(V3Metadata, RefusesRankAbove32ByName) {
  const Json ones = std::vector<int>(33, 1);
  const Status status = parse_with("shape", ones).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message().rfind("rank 33", 0), 0u) << status.message();
}

TEST(V3Metadata, RefusesMalformedChunkGrid) {
  for (const char* value : {"5", "{}", "{\"name\": \"regular\"}", "\"regular\"",
                            R"({"name": "regular", "configuration": {"chunk_shape": [6]}})",
                            R"({"name": "regular", "configuration": {"chunk_shape": [6, 0]}})",
                            R"({"name": "regular", "configuration": {"chunk_shape": [6, -5]}})",
                            R"({"name": "regular", "configuration": {"chunk_shape": [6, [5]]}})",
                            R"({"name": "regular", "configuration": {"chunk_shape": [6, 5], "other": 1}})",
                            R"({"name": "regular", "configuration": [6, 5]})",
                            R"({"name": "regular", "configuration": {"chunk_shape": [4294967296, 4294967296]}})"}) {
    expect(refusal("chunk_grid", value), Code::kCorrupt, "chunk_");
  }
}

TEST(V3Metadata, RefusesOtherChunkGridsByName) {
  expect(refusal("chunk_grid", R"({"name": "hexagonal", "configuration": {}})"), Code::kUnsupported,
         "chunk grid 'hexagonal'");
  expect(refusal("chunk_grid", R"({"name": "rectilinear", "configuration": {"kind": "file", "chunk_shapes": [6, 5]}})"),
         Code::kUnsupported, "of kind \"file\"");
}

TEST(V3Metadata, MustUnderstandFalseDoesNotRescueGridKeysOrDataType) {
  expect(refusal("chunk_grid", R"({"name": "x-grid", "must_understand": false})"), Code::kCorrupt, "must_understand");
  expect(refusal("chunk_key_encoding", R"({"name": "x-keys", "must_understand": false})"), Code::kCorrupt,
         "must_understand");
  expect(refusal("data_type", R"({"name": "x-type", "must_understand": false})"), Code::kCorrupt, "must_understand");
}

TEST(V3Metadata, ReadsChunkKeyEncodings) {
  struct Row {
    const char* text;
    ChunkKeyEncoding::Kind kind;
    char separator;
  };
  using Kind = ChunkKeyEncoding::Kind;
  for (const Row& row :
       {Row{"\"default\"", Kind::kDefault, '/'}, Row{R"({"name": "default"})", Kind::kDefault, '/'},
        Row{R"({"name": "default", "configuration": {"separator": "."}})", Kind::kDefault, '.'},
        Row{"\"v2\"", Kind::kV2, '.'}, Row{R"({"name": "v2", "configuration": {"separator": "/"}})", Kind::kV2, '/'}}) {
    auto array = parse_with("chunk_key_encoding", Json::parse(row.text));
    ASSERT_TRUE(array.ok()) << row.text;
    EXPECT_EQ(array->keys.kind, row.kind) << row.text;
    EXPECT_EQ(array->keys.separator, row.separator) << row.text;
  }
}

TEST(V3Metadata, RefusesOtherSeparators) {
  for (const char* separator : {"\"\"", "\"..\"", "\"/../\"", "\"//\"", "\":\"", "null", "5"}) {
    const std::string value = std::string(R"({"name": "default", "configuration": {"separator": )") + separator + "}}";
    expect(refusal("chunk_key_encoding", value.c_str()), Code::kCorrupt, "separator");
  }
}

TEST(V3Metadata, RefusesOtherChunkKeyEncodingsByName) {
  expect(refusal("chunk_key_encoding", "\"hashed\""), Code::kUnsupported, "chunk key encoding 'hashed'");
}

TEST(V3Metadata, RefusesCodecsThatAreNoListOfExtensions) {
  for (const char* value : {"[]", "null", "\"bytes\"", "{}"})
    expect(refusal("codecs", value), Code::kCorrupt, "codecs");
  for (const char* value :
       {"[5]", "[null]", "[{}]", R"([{"name": null}])", R"([{"name": "bytes", "configuration": []}])",
        R"([{"name": "bytes", "must_understand": 0}])", R"([{"name": "bytes", "endian": "little"}])",
        R"([{"configuration": {}}])"}) {
    expect(refusal("codecs", value), Code::kCorrupt, "codecs[0]");
  }
}

TEST(V3Metadata, ExtensionNamesFollowTheRule) {
  for (const char* name :
       {"bytes", "numcodecs.zlib", "vlen-utf8", "sharding_indexed", "a0", "https://example.org/codec/1.0"}) {
    EXPECT_TRUE(parse_extension(Json(name), "codec").ok()) << name;
  }
  for (const char* name :
       {"", "a", "Bytes", "0a", "_a", "by tes", "b\u00e4", "a/b", "https://", "://x", "http://a b"}) {
    EXPECT_EQ(parse_extension(Json(name), "codec").status().code(), Code::kCorrupt) << name;
  }
}

TEST(V3Metadata, RefusesStorageTransformers) {
  expect(refusal("storage_transformers", "\"none\""), Code::kCorrupt, "storage_transformers");
  expect(refusal("storage_transformers", "null"), Code::kCorrupt, "storage_transformers");
  expect(refusal("storage_transformers", R"([{"name": "nope"}])"), Code::kUnsupported, "storage transformer 'nope'");
  expect(refusal("storage_transformers", R"([{"name": "nope", "must_understand": false}])"), Code::kUnsupported,
         "storage transformer");
}

TEST(V3Metadata, RefusesMalformedDimensionNames) {
  for (const char* value : {R"(["x"])", R"(["x", "y", "z"])", R"(["x", 5])", R"({"0": "x"})", "\"xy\""}) {
    expect(refusal("dimension_names", value), Code::kCorrupt, "dimension_names");
  }
  EXPECT_TRUE(parse_with("dimension_names", Json::parse(R"(["x", "x"])")).ok());
  EXPECT_TRUE(parse_with("dimension_names", nullptr).ok());  // as zarr-python 3.0 wrote it
}

TEST(V3Metadata, RefusesKeyGivenTwice) {
  std::string text = kValid.dump();
  text.insert(1, "\"shape\": [5, 5], ");
  expect(parse_v3_array(text).status(), Code::kCorrupt, "twice");
}

TEST(V3Metadata, MessagesAreShortWhateverTheDocumentHolds) {
  const Status status = parse_with("shape", std::string(1 << 20, 'x')).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_LT(status.message().size(), 300u);
  EXPECT_LT(parse_with("data_type", std::string(1 << 20, 'x')).status().message().size(), 300u);
  EXPECT_LT(parse_with(std::string(1 << 20, 'k').c_str(), 1).status().message().size(), 300u);
}

TEST(V3Metadata, GroupsHoldAttributesAndConsolidatedMetadata) {
  auto group =
      parse_v3_group(R"({"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}, "consolidated_metadata":
    {"kind": "inline", "must_understand": false, "metadata": {}}})");
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_TRUE(group->has_consolidated);
  EXPECT_EQ(group->attributes["a"], 1);
  // As zarr-python 3.0 wrote it.
  group = parse_v3_group(R"({"zarr_format": 3, "node_type": "group", "consolidated_metadata": null})");
  ASSERT_TRUE(group.ok());
  EXPECT_FALSE(group->has_consolidated);
}

TEST(V3Metadata, RefusesMalformedConsolidatedMetadata) {
  for (const char* value : {"5", "{}", R"({"kind": "inline", "metadata": {}})",
                            R"({"kind": "inline", "must_understand": true, "metadata": {}})",
                            R"({"kind": "other", "must_understand": false, "metadata": {}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": []})",
                            R"({"kind": "inline", "must_understand": false})"}) {
    const std::string text =
        std::string(R"({"zarr_format": 3, "node_type": "group", "consolidated_metadata": )") + value + "}";
    expect(parse_v3_group(text).status(), Code::kCorrupt, "consolidated_metadata");
  }
}

TEST(V3Metadata, RefusesUnknownKeysInGroups) {
  expect(parse_v3_group(R"({"zarr_format": 3, "node_type": "group", "shape": [1]})").status(), Code::kCorrupt,
         "'shape'");
}

TEST(V3DataType, ReadsCoreAndRegisteredTypes) {
  struct Row {
    const char* text;
    const char* name;
    std::uint32_t bytes, swap_width;
  };
  for (const Row& row : {
           Row{"\"bool\"", "bool", 1, 1},
           Row{"\"int8\"", "int8", 1, 1},
           Row{"\"uint64\"", "uint64", 8, 8},
           Row{"\"float16\"", "float16", 2, 2},
           Row{"\"bfloat16\"", "bfloat16", 2, 2},
           Row{"\"complex64\"", "complex64", 8, 4},
           Row{"\"complex_float64\"", "complex128", 16, 8},
           Row{"\"r24\"", "r24", 3, 1},
           Row{R"({"name": "float32"})", "float32", 4, 4},
           Row{R"({"name": "float32", "configuration": {}})", "float32", 4, 4},
           Row{R"({"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 10}})", "<M8[10ms]", 8,
               8},
           Row{R"({"name": "numpy.timedelta64", "configuration": {"unit": "generic", "scale_factor": 1}})",
               "<m8[generic]", 8, 8},
           Row{R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}})", "<U3", 12, 4},
           Row{R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 7}})", "|S7", 7, 1},
           Row{R"({"name": "raw_bytes", "configuration": {"length_bytes": 3}})", "r24", 3, 1},
       }) {
    auto type = parse_v3_dtype(Json::parse(row.text));
    ASSERT_TRUE(type.ok()) << row.text << type.status().to_string();
    EXPECT_EQ(type->name, row.name) << row.text;
    EXPECT_EQ(type->item_bytes, row.bytes) << row.text;
    EXPECT_EQ(type->uniform_swap_width(), row.swap_width) << row.text;
    EXPECT_TRUE(type->stored_swap_runs.empty());
  }
}

TEST(V3DataType, RefusesExtensionsByName) {
  for (const char* name : {"strings",
                           "str",
                           "string8",
                           "utf8",
                           "byte",
                           "bytes_",
                           "object",
                           "variable_length_utf8",
                           "variable_length_string",
                           "float8_e4m2",
                           "int3",
                           "uint1",
                           "float4",
                           "complex_float12",
                           "complex_int4",
                           "complex_",
                           "complex32",
                           "optional",
                           "float31",
                           "int",
                           "r-8"}) {
    expect(parse_v3_dtype(Json(name)).status(), Code::kUnsupported, std::string("data type '") + name + "'");
  }
  // A type of variable length cannot be a field of a fixed-size element.
  for (const char* name : {"string", "bytes", "variable_length_bytes", "binary"}) {
    ASSERT_TRUE(parse_v3_dtype(Json(name)).ok()) << name;
    const std::string field =
        std::string(R"({"name":"struct","configuration":{"fields":[{"name":"a","data_type":")") + name + R"("}]}})";
    expect(parse_v3_dtype(Json::parse(field)).status(), Code::kUnsupported, std::string("data type '") + name + "'");
  }
}

TEST(V3DataType, SmallTypesAreTheirStoredBytesByName) {
  struct Row {
    const char* name;
    std::uint32_t bytes, swap_width;
  };
  for (const Row& row :
       {Row{"int2", 1, 1}, Row{"int4", 1, 1}, Row{"uint2", 1, 1}, Row{"uint4", 1, 1}, Row{"float4_e2m1fn", 1, 1},
        Row{"float6_e2m3fn", 1, 1}, Row{"float6_e3m2fn", 1, 1}, Row{"float8_e3m4", 1, 1}, Row{"float8_e4m3", 1, 1},
        Row{"float8_e4m3b11fnuz", 1, 1}, Row{"float8_e4m3fn", 1, 1}, Row{"float8_e4m3fnuz", 1, 1},
        Row{"float8_e5m2", 1, 1}, Row{"float8_e5m2fnuz", 1, 1}, Row{"float8_e8m0fnu", 1, 1},
        Row{"complex_float16", 4, 2}, Row{"complex_bfloat16", 4, 2}, Row{"complex_float8_e5m2", 2, 1},
        Row{"complex_float4_e2m1fn", 2, 1}}) {
    auto type = parse_v3_dtype(Json(row.name));
    ASSERT_TRUE(type.ok()) << row.name << type.status().to_string();
    EXPECT_EQ(type->kind, TypeKind::kRaw);
    EXPECT_EQ(type->name, row.name);
    EXPECT_EQ(type->item_bytes, row.bytes) << row.name;
    EXPECT_EQ(type->uniform_swap_width(), row.swap_width) << row.name;
    const std::string configured = std::string("{\"name\": \"") + row.name + "\", \"configuration\": {\"x\": 1}}";
    EXPECT_EQ(parse_v3_dtype(Json::parse(configured)).status().code(), Code::kCorrupt);
  }
}

TEST(V3DataType, RefusesMalformedTypes) {
  for (const char* text : {
           "\"\"",
           "\"Float32\"",
           "5",
           "null",
           "[]",
           "\"r0\"",
           "\"r7\"",
           "\"r08\"",
           R"({"name": "float32", "configuration": {"x": 1}})",
           R"({"name": "numpy.datetime64"})",
           R"({"name": "numpy.datetime64", "configuration": {"unit": "ms"}})",
           R"({"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 0}})",
           R"({"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 2147483648}})",
           R"({"name": "numpy.datetime64", "configuration": {"unit": "q", "scale_factor": 1}})",
           R"({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1, "x": 1}})",
           R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 6}})",
           R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 0}})",
           R"({"name": "raw_bytes", "configuration": {}})",
       }) {
    EXPECT_EQ(parse_v3_dtype(Json::parse(text)).status().code(), Code::kCorrupt) << text;
  }
}

TEST(V3DataType, RefusesHugeElements) {
  for (const char* text : {"\"r18446744073709551616\"", "\"r134217736\"",
                           R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 2147483647}})"}) {
    expect(parse_v3_dtype(Json::parse(text)).status(), Code::kUnsupported, "elements of more than");
  }
}

TEST(V3DataType, StructFieldsArePackedInOrder) {
  auto type = parse_v3_dtype(Json::parse(R"({"name": "struct", "configuration": {"fields": [
    {"name": "id", "data_type": "int32"},
    {"name": "in", "data_type": {"name": "struct", "configuration": {"fields": [{"name": "id", "data_type": "uint8"}]}}},
    {"name": "t", "data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}}]}})"));
  ASSERT_TRUE(type.ok()) << type.status().to_string();
  EXPECT_EQ(type->item_bytes, 13u);
  EXPECT_EQ(type->fields[2].offset_bytes, 5u);
  EXPECT_EQ(type->swap_runs, (std::vector<DataType::SwapRun>{{4, 1}, {1, 1}, {8, 1}}));
  EXPECT_EQ(type->uniform_swap_width(), 0u);
}

TEST(V3DataType, LegacyStructuredHasPairs) {
  auto type = parse_v3_dtype(
      Json::parse(R"({"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", "float64"]]}})"));
  ASSERT_TRUE(type.ok()) << type.status().to_string();
  EXPECT_EQ(type->item_bytes, 12u);
  EXPECT_EQ(type->name, "structured");  // the name is kept, because the bytes codec then accepts it without "endian"
}

TEST(V3DataType, RefusesMalformedStructs) {
  for (const char* fields :
       {"[]", "{}", R"([["a", "int32"]])", R"([{"name": "a"}])", R"([{"name": "", "data_type": "int8"}])",
        R"([{"name": "a", "data_type": "int8"}, {"name": "a", "data_type": "int8"}])",
        R"([{"name": "a", "data_type": "int8", "x": 1}])", R"([{"name": 5, "data_type": "int8"}])"}) {
    const std::string text = std::string(R"({"name": "struct", "configuration": {"fields": )") + fields + "}}";
    EXPECT_EQ(parse_v3_dtype(Json::parse(text)).status().code(), Code::kCorrupt) << fields;
  }
  expect(parse_v3_dtype(
             Json::parse(R"({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "string"}]}})"))
             .status(),
         Code::kUnsupported, "data type 'string'");
}

TEST(V3DataType, RefusesDeepNesting) {
  std::string text = "\"int8\"";
  for (int i = 0; i < 100; ++i) {
    text = R"({"name":"struct","configuration":{"fields":[{"name":"a","data_type":)" + text + "}]}}";
  }
  expect(parse_v3_dtype(Json::parse(text)).status(), Code::kUnsupported, "nested deeper");
}

TEST(ChunkKey, FollowsTheEncoding) {
  struct Row {
    ChunkKeyEncoding encoding;
    std::vector<std::uint64_t> index;
    const char* key;
  };
  using Kind = ChunkKeyEncoding::Kind;
  for (const Row& row :
       {Row{{Kind::kDefault, '/'}, {1, 23, 45}, "a/c/1/23/45"}, Row{{Kind::kDefault, '.'}, {1, 23}, "a/c.1.23"},
        Row{{Kind::kDefault, '/'}, {}, "a/c"}, Row{{Kind::kV2, '.'}, {1, 23, 45}, "a/1.23.45"},
        Row{{Kind::kV2, '/'}, {7}, "a/7"}, Row{{Kind::kV2, '.'}, {}, "a/0"},
        Row{{Kind::kV2, '.'}, {18446744073709551615u}, "a/18446744073709551615"}}) {
    std::string key = "a/";
    append_chunk_key(row.encoding, row.index.data(), row.index.size(), key);
    EXPECT_EQ(key, row.key);
  }
}

}  // namespace
}  // namespace headrace::zarr

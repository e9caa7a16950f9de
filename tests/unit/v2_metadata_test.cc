// Zarr v2 metadata is accepted exactly where specification 2.0 accepts it; everything else is refused by name.
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {
namespace {

using base::Json;

const Json kValid = Json::parse(R"({"zarr_format": 2, "shape": [20, 10], "chunks": [6, 5], "dtype": "<f4",
  "compressor": {"id": "zlib", "level": 1}, "fill_value": null, "order": "C", "filters": null})");

Result<ArrayMetadata> parse_with(const char* key, const Json& value) {
  Json document = kValid;
  document[key] = value;
  return parse_v2_array(document.dump());
}

Status refusal(const char* key, const Json& value) { return parse_with(key, value).status(); }

// Expects the code, and a message that contains `part`.
void expect(const Status& status, Code code, const std::string& part) {
  EXPECT_EQ(code_name(status.code()), code_name(code)) << status.to_string();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.to_string();
}

DataType dtype_of(const char* text, bool* big_endian = nullptr) {
  bool big = false;
  auto type = parse_v2_dtype(Json::parse(text), big);
  EXPECT_TRUE(type.ok()) << text << ": " << type.status().to_string();
  if (big_endian != nullptr) *big_endian = big;
  return type.ok() ? *type : DataType();
}

Status dtype_refusal(const char* text) {
  bool big = false;
  return parse_v2_dtype(Json::parse(text), big).status();
}

TEST(V2Metadata, ReadsEveryMember) {
  Json document = kValid;
  document["order"] = "F";
  document["dtype"] = ">i2";
  document["fill_value"] = -2;
  document["dimension_separator"] = "/";
  document["filters"] = Json::parse(R"([{"id": "delta", "dtype": ">i2"}])");
  auto array = parse_v2_array(document.dump());
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(array->zarr_format, 2);
  EXPECT_EQ(array->shape, (std::vector<std::uint64_t>{20, 10}));
  EXPECT_EQ(array->chunk_shape, (std::vector<std::uint64_t>{6, 5}));
  EXPECT_EQ(array->dtype.name, "int16");
  EXPECT_TRUE(array->v2_big_endian);
  EXPECT_EQ(array->v2_order, 'F');
  EXPECT_EQ(array->keys.kind, ChunkKeyEncoding::Kind::kV2);
  EXPECT_EQ(array->keys.separator, '/');
  EXPECT_EQ(array->fill, (std::vector<std::byte>{std::byte{0xfe}, std::byte{0xff}}));
  EXPECT_EQ(array->fill_text, "-2");
  ASSERT_EQ(array->codecs.size(), 2u);  // in encoding order
  EXPECT_EQ(array->codecs[0].name, "delta");
  EXPECT_EQ(array->codecs[0].config, Json::parse(R"({"dtype": ">i2"})"));
  EXPECT_EQ(array->codecs[1].name, "zlib");
}

TEST(V2Metadata, SeparatorDefaultsToDot) {
  auto array = parse_v2_array(kValid.dump());
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->keys.separator, '.');
}

TEST(V2Metadata, IgnoresUnknownMembers) {
  EXPECT_TRUE(parse_with("extra", Json::parse(R"({"must_understand": true})")).ok());
}

TEST(V2Metadata, NullFillIsEmpty) {
  auto array = parse_v2_array(kValid.dump());
  ASSERT_TRUE(array.ok());
  EXPECT_TRUE(array->fill.empty());
}

TEST(V2Metadata, RefusesEachMissingMember) {
  for (const auto& item : kValid.items()) {
    Json document = kValid;
    document.erase(item.key());
    expect(parse_v2_array(document.dump()).status(), Code::kCorrupt, item.key());
  }
}

TEST(V2Metadata, RefusesFormatThatIsNotTheInteger2) {
  for (const char* text : {"2.0", "\"2\"", "3", "true", "null"}) {
    expect(refusal("zarr_format", Json::parse(text)), Code::kCorrupt, "zarr_format");
  }
}

TEST(V2Metadata, RefusesWhatIsNoObject) {
  for (const char* text : {"[]", "5", "", "{", "{} {}"})
    EXPECT_EQ(parse_v2_array(text).status().code(), Code::kCorrupt);
}

TEST(V2Metadata, RefusesExtentsThatAreNoIntegers) {
  for (const char* text : {"[-1, 1]", "[1.0, 1]", "[true, 1]", "[\"1\", 1]", "[9223372036854775808, 1]", "[null, 1]"}) {
    expect(refusal("shape", Json::parse(text)), Code::kCorrupt, "shape[0]");
  }
  expect(refusal("shape", 5), Code::kCorrupt, "shape");
}

TEST(V2Metadata, RefusesChunksOfAnotherRank) {
  expect(refusal("chunks", Json::parse("[6]")), Code::kCorrupt, "chunks has 1 dimensions");
}

TEST(V2Metadata, RefusesChunkExtentZeroUnlessArrayIsEmpty) {
  expect(refusal("chunks", Json::parse("[6, 0]")), Code::kCorrupt, "chunks[1]");
  Json document = kValid;
  document["shape"] = Json::parse("[20, 0]");
  document["chunks"] = Json::parse("[6, 0]");
  EXPECT_TRUE(parse_v2_array(document.dump()).ok());
}

TEST(V2Metadata, RefusesChunkOfMoreBytesThanFitSigned64Bits) {
  expect(refusal("chunks", Json::parse("[4611686018427387904, 1]")), Code::kCorrupt, "2^63");
  expect(refusal("chunks", Json::parse("[4294967296, 4294967296]")), Code::kCorrupt, "2^63");
  EXPECT_TRUE(parse_with("chunks", Json::parse("[2305843009213693951, 1]")).ok());
}

TEST(V2Metadata, OpensArraysOfAnySize) {
  EXPECT_TRUE(parse_with("shape", Json::parse("[9223372036854775807, 9223372036854775807]")).ok());
}

TEST(V2Metadata, RefusesRankAbove32ByName) {
  Json document = kValid;
  document["shape"] = document["chunks"] = std::vector<int>(32, 1);
  EXPECT_TRUE(parse_v2_array(document.dump()).ok());
  document["shape"] = document["chunks"] = std::vector<int>(33, 1);
  const Status status = parse_v2_array(document.dump()).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message().rfind("rank 33", 0), 0u) << status.message();
}

TEST(V2Metadata, RefusesOrderOtherThanCAndF) {
  for (const char* text : {"\"c\"", "\"A\"", "1", "null"})
    expect(refusal("order", Json::parse(text)), Code::kCorrupt, "order");
}

TEST(V2Metadata, RefusesSeparatorOtherThanDotAndSlash) {
  for (const char* text : {"\"\"", "\"..\"", "\"/../\"", "\"-\"", "5", "null"}) {
    expect(refusal("dimension_separator", Json::parse(text)), Code::kCorrupt, "dimension_separator");
  }
}

TEST(V2Metadata, RefusesCompressorWithoutId) {
  for (const char* text : {"5", "\"zlib\"", "[]", "{\"level\": 1}", "{\"id\": 5}", "{\"id\": \"\"}"}) {
    expect(refusal("compressor", Json::parse(text)), Code::kCorrupt, "compressor");
  }
}

TEST(V2Metadata, RefusesFiltersThatAreNoListOfObjectsWithId) {
  for (const char* text : {"{\"id\": \"delta\"}", "[5]", "[{}]", "\"delta\""}) {
    expect(refusal("filters", Json::parse(text)), Code::kCorrupt, "filters");
  }
}

TEST(V2Metadata, EmptyFiltersAreNone) {
  auto array = parse_with("filters", Json::array());
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->codecs.size(), 1u);
}

TEST(V2Metadata, GroupNeedsFormat2) {
  EXPECT_TRUE(parse_v2_group(R"({"zarr_format": 2})").ok());
  expect(parse_v2_group("{}").status(), Code::kCorrupt, "zarr_format");
  expect(parse_v2_group(R"({"zarr_format": 3})").status(), Code::kCorrupt, "zarr_format");
}

TEST(V2Metadata, AttributesAreAnObject) {
  auto attributes = parse_v2_attributes(R"({"units": "K"})");
  ASSERT_TRUE(attributes.ok());
  EXPECT_EQ((*attributes)["units"], "K");
  expect(parse_v2_attributes("[1]").status(), Code::kCorrupt, ".zattrs");
}

TEST(V2Metadata, BareNonFiniteNumbersAreStringsInAttributesOnly) {
  auto attributes =
      parse_v2_attributes(R"({"a": NaN, "b": [Infinity, -Infinity , 1], "NaN": "NaN, \"NaN", "d": {"e":NaN}})");
  ASSERT_TRUE(attributes.ok()) << attributes.status().to_string();
  EXPECT_EQ(*attributes,
            Json::parse(R"({"a": "NaN", "b": ["Infinity", "-Infinity", 1], "NaN": "NaN, \"NaN", "d": {"e": "NaN"}})"));
  for (const char* text : {R"({"a": nan})", R"({"a": NaNs})", R"({"a": +Infinity})", R"({NaN: 1})", R"({"a": NaN)",
                           "NaN", R"(["NaN)", R"({"a": NaN, "b": "\)"}) {
    EXPECT_EQ(parse_v2_attributes(text).status().code(), Code::kCorrupt) << text;
  }
  std::string text = kValid.dump();
  text.replace(text.find("\"fill_value\":null") + 13, 4, "NaN");
  expect(parse_v2_array(text).status(), Code::kCorrupt, "JSON");
}

TEST(V2DataType, ReadsNumpyTypeStrings) {
  struct Row {
    const char* text;
    const char* name;
    std::uint32_t bytes, swap_width;
    bool big;
  };
  const Row rows[] = {
      {"\"|b1\"", "bool", 1, 1, false},
      {"\"|u1\"", "uint8", 1, 1, false},
      {"\"<i1\"", "int8", 1, 1, false},
      {"\">u1\"", "uint8", 1, 1, false},
      {"\"<i8\"", "int64", 8, 8, false},
      {"\">u4\"", "uint32", 4, 4, true},
      {"\">f2\"", "float16", 2, 2, true},
      {"\"<f8\"", "float64", 8, 8, false},
      {"\">c8\"", "complex64", 8, 4, true},
      {"\"<c16\"", "complex128", 16, 8, false},
      {"\"|S5\"", "|S5", 5, 1, false},
      {"\">U3\"", "<U3", 12, 4, true},
      {"\"|V3\"", "r24", 3, 1, false},
      {"\">M8[25us]\"", "<M8[25us]", 8, 8, true},
      {"\"<m8[generic]\"", "<m8[generic]", 8, 8, false},
      {"\"<M8[\u03bcs]\"", "<M8[us]", 8, 8, false},
  };
  for (const Row& row : rows) {
    bool big = false;
    const DataType type = dtype_of(row.text, &big);
    EXPECT_EQ(type.name, row.name) << row.text;
    EXPECT_EQ(type.item_bytes, row.bytes) << row.text;
    EXPECT_EQ(type.uniform_swap_width(), row.swap_width) << row.text;
    EXPECT_EQ(big, row.big) << row.text;
  }
  EXPECT_EQ(dtype_of("\"<M8[25us]\"").unit, "25us");
}

TEST(V2DataType, RefusesTypeStringsThatAreNone) {
  for (const char* text : {"\"\"",       "\"<\"",      "\"<f\"",      "\"f4\"",     "\"=f4\"",
                           "\"?u4\"",    "\"<f3\"",    "\"<i-4\"",    "\"<i16\"",   "\"<x4\"",
                           "\"<f4 \"",   "\"<f04\"",   "\"|b2\"",     "\"<M4[s]\"", "\"<M8\"",
                           "\"<M8[]\"",  "\"<M8[q]\"", "\"<M8[0s]\"", "\"<M8[s\"",  "\"|S9999999999999999999\"",
                           "\"<f4[s]\"", "4",          "null",        "{}"}) {
    EXPECT_EQ(dtype_refusal(text).code(), Code::kCorrupt) << text;
  }
}

TEST(V2DataType, TakesTheNameThatTensorstoreWritesForBfloat16) {
  bool big = true;
  const DataType type = dtype_of("\"bfloat16\"", &big);
  EXPECT_EQ(type.name, "bfloat16");
  EXPECT_EQ(type.item_bytes, 2u);
  EXPECT_FALSE(big);
  for (const char* text : {"\"int4\"", "\"float8_e5m2\""}) {
    expect(dtype_refusal(text), Code::kUnsupported, "is not implemented");
  }
}

TEST(V2DataType, RefusesMissingByteOrder) {
  expect(dtype_refusal("\"|i4\""), Code::kCorrupt, "byte order");
  expect(dtype_refusal("\"|U4\""), Code::kCorrupt, "byte order");
}

TEST(V2DataType, RefusesObjectsByName) {
  const Status status = dtype_refusal("\"|O\"");
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message().rfind("object arrays (variable-length", 0), 0u);
}

TEST(V2DataType, RefusesLongDoubleAndEmptyAndHugeElementsByName) {
  expect(dtype_refusal("\"<f16\""), Code::kUnsupported, "extended precision");
  expect(dtype_refusal("\"|S0\""), Code::kUnsupported, "elements without bytes");
  expect(dtype_refusal("\"|V16777217\""), Code::kUnsupported, "elements of more than");
  expect(dtype_refusal("\"<U4194305\""), Code::kUnsupported, "elements of more than");
}

TEST(V2DataType, StructFieldsArePackedInOrder) {
  const DataType type = dtype_of(R"([["id", "<u4"], ["s", "|S3"], ["m", "<f8", [2, 3]]])");
  EXPECT_EQ(type.kind, TypeKind::kStruct);
  EXPECT_EQ(type.item_bytes, 4u + 3 + 48);
  ASSERT_EQ(type.fields.size(), 3u);
  EXPECT_EQ(type.fields[2].offset_bytes, 7u);
  EXPECT_EQ(type.fields[2].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(type.swap_runs, (std::vector<DataType::SwapRun>{{4, 1}, {1, 3}, {8, 6}}));
  EXPECT_TRUE(type.stored_swap_runs.empty());  // nothing is big-endian
}

TEST(V2DataType, StructKeepsEachFieldsByteOrder) {
  const DataType type =
      dtype_of(R"([["a", ">i2"], ["b", "<f4"], ["in", [["x", ">u2"], ["y", "|u1"]], [2]], ["c", ">c16"]])");
  EXPECT_TRUE(type.fields[0].big_endian);
  EXPECT_FALSE(type.fields[1].big_endian);
  EXPECT_TRUE(type.fields[2].type.fields[0].big_endian);
  EXPECT_EQ(type.swap_runs, (std::vector<DataType::SwapRun>{{2, 1}, {4, 1}, {2, 1}, {1, 1}, {2, 1}, {1, 1}, {8, 2}}));
  EXPECT_EQ(type.stored_swap_runs,
            (std::vector<DataType::SwapRun>{{2, 1}, {1, 4}, {2, 1}, {1, 1}, {2, 1}, {1, 1}, {8, 2}}));
}

TEST(V2DataType, NamelessFieldsAreNamedAsNumpyDoes) {
  const DataType type = dtype_of(R"([["a", "|u1"], ["", "|V3"], ["b", "<i4"]])");
  EXPECT_EQ(type.fields[1].name, "f1");
}

TEST(V2DataType, RefusesMalformedFields) {
  for (const char* text : {"[]", R"([["a"]])", R"([["a", "<u2"], ["a", "<u2"]])", R"([[5, "<u2"]])", R"(["a", "<u2"])",
                           R"([["a", "<u2", 3]])", R"([["a", "<u2", [-2]]])", R"([["a", "<u2", [2], 1]])",
                           R"([["a", "u2"]])", R"([["", "<u2"], ["f0", "<u2"]])"}) {
    EXPECT_EQ(dtype_refusal(text).code(), Code::kCorrupt) << text;
  }
}

TEST(V2DataType, RefusesElementsBeyondLimits) {
  expect(dtype_refusal(R"([["a", "<u2", [1099511627776, 1099511627776]]])"), Code::kUnsupported, "elements of more");
  expect(dtype_refusal(R"([["a", "|V16777216"], ["b", "|u1"]])"), Code::kUnsupported, "elements of more");
  expect(dtype_refusal(R"([["a", "<u2", [0]]])"), Code::kUnsupported, "fields without bytes");
  // A short text must not expand to a list of millions of runs.
  expect(dtype_refusal(R"([["a", [["x", "<u2"], ["y", "|u1"]], [1000000]]])"), Code::kUnsupported, "runs");
}

TEST(V2DataType, RefusesDeepNesting) {
  std::string text = "\"<u2\"";
  for (int i = 0; i < 1000; ++i) text = "[[\"a\"," + text + "]]";
  bool big = false;
  expect(parse_v2_dtype(Json::parse(text), big).status(), Code::kUnsupported, "nested deeper");
}

}  // namespace
}  // namespace headrace::zarr

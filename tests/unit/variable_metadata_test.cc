// Metadata of strings and byte strings of variable length: "data-types/string" and "data-types/bytes" of the registered
// extensions, and v2's object arrays with numcodecs' object codecs.
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {
namespace {

using base::Json;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void expect(const Status& status, Code code, std::string_view word) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
}

Json v2(const Json& filters, const Json& fill = "") {
  return {{"zarr_format", 2}, {"shape", {4}},       {"chunks", {2}},         {"dtype", "|O"},
          {"order", "C"},     {"filters", filters}, {"compressor", nullptr}, {"fill_value", fill}};
}

Json filter(const char* id) { return Json::array({{{"id", id}}}); }

TEST(VariableMetadata, V3NamesOfStringsAndBytes) {
  for (const char* text : {R"("string")", R"({"name":"string"})", R"({"name":"string","configuration":{}})"}) {
    const auto type = parse_v3_dtype(Json::parse(text));
    ASSERT_TRUE(type.ok()) << type.status().to_string();
    EXPECT_EQ(type->kind, TypeKind::kString);
    EXPECT_EQ(type->item_bytes, 0u);
    EXPECT_EQ(type->name, "string");
  }
  for (const char* name : {"bytes", "variable_length_bytes", "binary"}) {
    const auto type = parse_v3_dtype(name);
    ASSERT_TRUE(type.ok()) << type.status().to_string();
    EXPECT_EQ(type->kind, TypeKind::kVariableBytes);
    EXPECT_EQ(type->name, "bytes");
    EXPECT_TRUE(type->is_variable_length());
  }
}

TEST(VariableMetadata, V3TypesTakeNoConfiguration) {
  expect(parse_v3_dtype(Json::parse(R"({"name":"string","configuration":{"length":3}})")).status(), Code::kCorrupt,
         "length");
}

TEST(VariableMetadata, V3FieldsHaveASize) {
  for (const char* name : {"string", "bytes", "variable_length_bytes"}) {
    const Json type = {{"name", "struct"},
                       {"configuration", {{"fields", Json::array({{{"name", "a"}, {"data_type", name}}})}}}};
    expect(parse_v3_dtype(type).status(), Code::kUnsupported, std::string("data type '") + name + "'");
  }
}

TEST(VariableMetadata, V3FillOfStrings) {
  const DataType type = *parse_v3_dtype("string");
  EXPECT_EQ(text_of(*parse_v3_fill("h\xc3\xa9", type)), "h\xc3\xa9");
  EXPECT_EQ(text_of(*parse_v3_fill("", type)), "");
  for (const Json& fill : {Json(0), Json(nullptr), Json(true), Json::array({1})}) {
    expect(parse_v3_fill(fill, type).status(), Code::kCorrupt, "fill_value");
  }
  expect(parse_v3_fill(std::string((std::size_t{16} << 20) + 1, 'x'), type).status(), Code::kUnsupported,
         "elements of more than");
}

TEST(VariableMetadata, V3FillOfBytesIsBase64OrAList) {
  const DataType type = *parse_v3_dtype("bytes");
  EXPECT_EQ(text_of(*parse_v3_fill("AQID", type)), "\x01\x02\x03");
  EXPECT_EQ(text_of(*parse_v3_fill(Json::array({1, 2, 3}), type)), "\x01\x02\x03");
  EXPECT_EQ(text_of(*parse_v3_fill("", type)), "");
  EXPECT_EQ(text_of(*parse_v3_fill(Json::array(), type)), "");
  for (const Json& fill : {Json("A"), Json("a b="), Json(0), Json(nullptr), Json::array({256}), Json::array({-1}),
                           Json::array({1.0}), Json::array({"a"})}) {
    expect(parse_v3_fill(fill, type).status(), Code::kCorrupt, "fill_value");
  }
}

TEST(VariableMetadata, V2ObjectCodecsGiveTheType) {
  const auto kind = [](const char* id) {
    const auto array = parse_v2_array(v2(filter(id)).dump());
    EXPECT_TRUE(array.ok()) << array.status().to_string();
    return array->dtype.kind;
  };
  EXPECT_EQ(kind("vlen-utf8"), TypeKind::kString);
  EXPECT_EQ(kind("json2"), TypeKind::kString);
  EXPECT_EQ(kind("vlen-bytes"), TypeKind::kVariableBytes);
}

TEST(VariableMetadata, V2ObjectCodecsThatAreRefusedByName) {
  const auto refusal = [](const Json& filters) { return parse_v2_array(v2(filters).dump()).status(); };
  expect(refusal(filter("pickle")), Code::kUnsupported,
         "'pickle', which is not supported: reading a pickle executes code");
  expect(refusal(filter("vlen-array")), Code::kUnsupported, "'vlen-array'");
  expect(refusal(filter("msgpack2")), Code::kUnsupported, "'msgpack2'");
  expect(refusal(filter("categorize")), Code::kUnsupported, "'categorize'");
  expect(refusal(nullptr), Code::kUnsupported, "neither filter nor object codec");
  for (const char* id : {"pickle", "vlen-array", "msgpack2", "categorize"}) {
    EXPECT_EQ(refusal(filter(id)).message().rfind("object arrays: dtype '|O'", 0), 0u);
  }
}

TEST(VariableMetadata, V2ObjectCodecStandsFirst) {
  const Json filters = Json::array({{{"id", "delta"}, {"dtype", "<i4"}}, {{"id", "vlen-utf8"}}});
  expect(parse_v2_array(v2(filters).dump()).status(), Code::kUnsupported, "first filter 'delta'");
}

TEST(VariableMetadata, V2FillOfStrings) {
  const auto fill = [](const Json& value) {
    const auto array = parse_v2_array(v2(filter("vlen-utf8"), value).dump());
    EXPECT_TRUE(array.ok()) << array.status().to_string();
    return text_of(array->fill);
  };
  EXPECT_EQ(fill("x\xc3\xa9"), "x\xc3\xa9");
  EXPECT_EQ(fill(""), "");
  EXPECT_EQ(fill(nullptr), "");
  EXPECT_EQ(fill(0), "");  // zarr-python 2 writes 0 by default, which numcodecs encodes as ""
  expect(parse_v2_array(v2(filter("vlen-utf8"), 5).dump()).status(), Code::kCorrupt, "fill_value");
}

TEST(VariableMetadata, V2FillOfBytesIsBase64) {
  const auto parse = [](const Json& value) { return parse_v2_array(v2(filter("vlen-bytes"), value).dump()); };
  EXPECT_EQ(text_of(parse("/wA=")->fill), std::string("\xff\0", 2));
  EXPECT_EQ(text_of(parse(nullptr)->fill), "");
  EXPECT_EQ(text_of(parse(0)->fill), "");
  expect(parse("/w").status(), Code::kCorrupt, "fill_value");
  expect(parse(Json::array({1, 2})).status(), Code::kCorrupt, "fill_value");
}

TEST(VariableMetadata, ChunksThatNoMemoryHoldsAreRefused) {
  Json document = v2(filter("vlen-utf8"));
  document["shape"] = {std::uint64_t{1} << 60};
  document["chunks"] = {std::uint64_t{1} << 60};
  expect(parse_v2_array(document.dump()).status(), Code::kCorrupt, "2^63");
}

}  // namespace
}  // namespace headrace::zarr

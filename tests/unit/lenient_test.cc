// Leniencies: each is refused by default, accepted by its name, and reported; the documented ones are the only ones.
#include "zarr/metadata/lenient.h"

#include <gtest/gtest.h>
#include <headrace/open_options.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/json.h"
#include "zarr/metadata/metadata.h"
#include "zarr/shard/chain_builder.h"

namespace headrace::zarr {
namespace {

using base::Json;

const char* const kV3 = R"({"zarr_format": 3, "node_type": "array", "shape": [20, 10], "data_type": "int16",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6, 5]}},
  "chunk_key_encoding": {"name": "default"}, "fill_value": 3,
  "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]})";
const char* const kV2 = R"({"zarr_format": 2, "shape": [20, 10], "chunks": [6, 5], "dtype": "<i2", "compressor": null,
  "fill_value": 3, "order": "C", "filters": null})";

std::string v3(const char* key, const char* value) {
  Json document = Json::parse(kV3);
  document[key] = Json::parse(value);
  return document.dump();
}
std::string v2(const char* key, const char* value) {
  Json document = Json::parse(kV2);
  if (value == nullptr) {
    document.erase(key);
  } else {
    document[key] = Json::parse(value);
  }
  return document.dump();
}

struct Case {
  int zarr_format;
  std::string text;
};

// Documents that only the named rule makes readable.
std::multimap<std::string, Case> cases() {
  const std::string sharded = R"([{"name": "sharding_indexed", "configuration": {"chunk_shape": [3, 5],
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "index_codecs": [{"name": "bytes"}, "crc32c"]}}])";
  std::string nan = v3("data_type", "\"float32\"");
  nan.replace(nan.find("\"fill_value\":3"), 14, "\"fill_value\":NaN");
  return {
      {"endian-codec", {3, v3("codecs", R"([{"name": "endian", "configuration": {"endian": "big"}}])")}},
      {"missing-endian", {3, v3("codecs", R"(["bytes"])")}},
      {"missing-endian", {3, v3("codecs", R"([{"name": "bytes", "configuration": {}}])")}},
      {"missing-endian", {3, v3("codecs", sharded.c_str())}},
      {"missing-bytes-codec", {3, v3("codecs", R"([{"name": "zstd", "configuration": {"level": 1}}])")}},
      {"missing-bytes-codec",
       {3, v3("codecs", R"([{"name": "transpose", "configuration": {"order": [1, 0]}}, "crc32c"])")}},
      {"skip-codec", {3, v3("codecs", R"([{"name": "bytes", "configuration": {"endian": "little"}},
                            {"name": "my-checksum", "must_understand": false}])")}},
      {"codec-as-string", {2, v2("compressor", "\"zlib\"")}},
      {"codec-as-string", {2, v2("filters", "[\"shuffle\"]")}},
      {"transpose-letter", {3, v3("codecs", R"([{"name": "transpose", "configuration": {"order": "F"}},
                            {"name": "bytes", "configuration": {"endian": "little"}}])")}},
      {"format-as-float", {3, v3("zarr_format", "3.0")}},
      {"format-as-float", {2, v2("zarr_format", "2.0")}},
      {"unknown-members", {3, v3("_nczarr_array", R"({"dimrefs": ["/x"]})")}},
      {"missing-members", {2, v2("filters", nullptr)}},
      {"missing-members", {2, v2("compressor", nullptr)}},
      {"missing-members", {2, v2("order", nullptr)}},
      {"null-fill-value", {3, v3("fill_value", "null")}},
      {"integer-fill-as-float", {3, v3("fill_value", "3.0")}},
      {"integer-fill-as-float", {2, v2("fill_value", "-3.0")}},
      {"missing-byte-order", {2, v2("dtype", "\"i2\"")}},
      {"missing-byte-order", {2, v2("dtype", "\"=i2\"")}},
      {"missing-byte-order", {2, v2("dtype", R"([["a", "|i4"], ["b", "<f4"]])")}},
      {"bare-non-finite", {3, nan}},
      {"byte-order-mark", {3, "\xEF\xBB\xBF" + std::string(kV3)}},
      {"byte-order-mark", {2, "\xEF\xBB\xBF" + std::string(kV2)}},
  };
}

// A struct can only have the fill value 0.
std::string fit(std::string text) {
  if (text.find("|i4") != std::string::npos) text.replace(text.find("\"fill_value\":3"), 14, "\"fill_value\":0");
  return text;
}

Result<ArrayMetadata> parse(const Case& c, Lenient* lenient) {
  const std::string text = fit(c.text);
  return c.zarr_format == 3 ? parse_v3_array(text, lenient) : parse_v2_array(text, lenient);
}

// Reads the metadata and makes the codecs, as opening an array does.
Status open(const Case& c, Lenient* lenient) {
  HEADRACE_TRY_ASSIGN(const ArrayMetadata array, parse(c, lenient));
  ChunkCodecs about;
  about.zarr_format = c.zarr_format;
  about.dtype = &array.dtype;
  about.fill = &array.fill;
  about.initial.axis_order = {0, 1};
  return build_chain(array.codecs, array.chunk_shape, about).status();
}

TEST(Lenient, EveryRuleHasACaseThatOnlyItAccepts) {
  std::map<std::string, int> seen = {{"reserved-names", 1}};  // not a property of a document; group_test covers it
  for (const auto& [name, c] : cases()) {
    ++seen[name];
    EXPECT_FALSE(open(c, nullptr).ok()) << name << c.text;
    std::string others;
    for (const LeniencyRow& row : leniencies()) {
      if (row.name != name) others += std::string(row.name) + ",";
    }
    Lenient without = Lenient::parse(others).value();
    EXPECT_FALSE(open(c, &without).ok()) << name << c.text;
    EXPECT_TRUE(without.uses.empty()) << without.uses.front();
    Lenient lenient = Lenient::parse(name).value();
    const Status accepted = open(c, &lenient);
    EXPECT_TRUE(accepted.ok()) << name << accepted.to_string();
    ASSERT_EQ(lenient.uses.size(), 1u) << name;
    EXPECT_EQ(lenient.uses[0].rfind(name + ": ", 0), 0u) << lenient.uses[0];
  }
  for (const LeniencyRow& row : leniencies()) EXPECT_GE(seen[row.name], 1) << row.name;
  EXPECT_EQ(seen.size(), leniencies().size());
}

TEST(Lenient, RepairsMeanWhatTheyShould) {
  const auto all = [](const std::string& text) {
    Lenient lenient = Lenient::parse("all").value();
    auto array =
        text.find("node_type") != std::string::npos ? parse_v3_array(text, &lenient) : parse_v2_array(text, &lenient);
    EXPECT_TRUE(array.ok()) << array.status().to_string();
    return std::move(*array);
  };
  auto array = all(v3("codecs", R"(["endian", {"name": "zstd", "configuration": {"level": 1}}])"));
  EXPECT_EQ(array.codecs[0].name, "bytes");
  EXPECT_EQ(array.codecs[0].config["endian"], "little");
  array = all(v3("codecs", R"([{"name": "transpose", "configuration": {"order": "F"}}, {"name": "zstd"}])"));
  ASSERT_EQ(array.codecs.size(), 3u);
  EXPECT_EQ(array.codecs[0].config["order"], Json::parse("[1, 0]"));
  array = all(v3("fill_value", "null"));
  EXPECT_EQ(array.fill, std::vector<std::byte>(2));
  EXPECT_EQ(array.fill_text, "null");
  array = all(v2("fill_value", "-3.0"));
  EXPECT_EQ(array.fill, (std::vector<std::byte>{std::byte{0xfd}, std::byte{0xff}}));
  array = all(v2("compressor", "\"zlib\""));
  EXPECT_EQ(array.codecs.at(0).name, "zlib");
  array = all(v2("dtype", "\"=i2\""));
  EXPECT_EQ(array.dtype.name, "int16");
  EXPECT_FALSE(array.v2_big_endian);
}

TEST(Lenient, ChangesNothingOfAValidDocument) {
  Lenient lenient = Lenient::parse("all").value();
  for (const char* text : {kV3, kV2}) {
    const bool is_v3 = text == kV3;
    auto strict = is_v3 ? parse_v3_array(text) : parse_v2_array(text);
    auto array = is_v3 ? parse_v3_array(text, &lenient) : parse_v2_array(text, &lenient);
    ASSERT_TRUE(array.ok());
    EXPECT_EQ(array->codecs.size(), strict->codecs.size());
    EXPECT_EQ(array->fill, strict->fill);
  }
  // One byte has no byte order.
  Json document = Json::parse(v3("data_type", "\"int8\""));
  document["codecs"] = Json::parse(R"(["bytes"])");
  EXPECT_TRUE(parse_v3_array(document.dump(), &lenient).ok());
  EXPECT_TRUE(lenient.uses.empty());
}

TEST(Lenient, DoesNotHelpWhatIsWrongOtherwise) {
  Lenient lenient = Lenient::parse("all").value();
  for (const auto& text :
       {v3("zarr_format", "3.5"), v3("zarr_format", "\"3\""), v3("fill_value", "3.5"), v3("shape", "[1.0, 2]"),
        v3("codecs", "[5]"), v3("chunk_grid", R"({"name": "x-grid", "must_understand": false})")}) {
    EXPECT_FALSE(parse_v3_array(text, &lenient).ok()) << text;
  }
  for (const char* configuration : {R"(["little"])", "\"little\"", "1", "true"}) {
    const std::string codecs = std::string(R"([{"name": "bytes", "configuration": )") + configuration + "}]";
    const auto array = parse_v3_array(v3("codecs", codecs.c_str()), &lenient);
    EXPECT_FALSE(array.ok()) << codecs;
  }
  for (const auto& text : {v2("zarr_format", "3"), v2("dtype", "\"q9\""), v2("shape", nullptr), v2("compressor", "5"),
                           v2("order", "\"A\"")}) {
    EXPECT_FALSE(parse_v2_array(text, &lenient).ok()) << text;
  }
}

TEST(Lenient, NamesAreChecked) {
  EXPECT_FALSE(Lenient::parse("")->any());
  EXPECT_TRUE(Lenient::parse("all")->allows(Leniency::kByteOrderMark));
  auto two = Lenient::parse(" endian-codec , skip-codec");
  ASSERT_TRUE(two.ok());
  EXPECT_TRUE(two->allows(Leniency::kEndianCodec) && two->allows(Leniency::kSkipCodec));
  EXPECT_FALSE(two->allows(Leniency::kMissingEndian));
  const Status status = Lenient::parse("endian-codec,nonsense").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("'nonsense'"), std::string::npos);
  EXPECT_NE(status.message().find("skip-codec"), std::string::npos);
}

TEST(Lenient, TheDocumentListsEveryRule) {
  const char* root = std::getenv("HEADRACE_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream file(std::string(root) + "/docs/design/zarr.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const LeniencyRow& row : leniencies()) {
    EXPECT_NE(text.str().find(std::string("| `") + row.name + "` |"), std::string::npos)
        << row.name << " is missing in docs/design/zarr.md";
  }
}

}  // namespace
}  // namespace headrace::zarr

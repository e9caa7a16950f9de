// Rules of the specifications that only show when an array is opened and read. docs/reference/zarr_rules.md lists where
// each of them is tested; the last test here checks that those tests exist.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/access.h"
#include "base/json.h"
#include "tests/support/raw_array.h"

namespace headrace {
namespace {

using base::Json;

class ZarrRules : public ::testing::Test {
 protected:
  ZarrRules() {
    context_.emplace(Context::create({}).value());
    static int number = 0;
    store_.emplace(Store::open(*context_, "memory://zarr_rules_" + std::to_string(++number)).value());
    device_.emplace(Device::open("host").value());
  }
  static Json v3(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& chunk) {
    Json document = Json::parse(R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8",
      "chunk_key_encoding": {"name": "default"}, "fill_value": 9, "codecs": ["bytes"]})");
    document["shape"] = shape;
    document["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", chunk}}}};
    return document;
  }
  void put(const std::string& key, const std::string& text) {
    ASSERT_TRUE(testing::put_text(*Access::impl(*store_), key, text).ok()) << key;
  }
  // The whole array, as bytes.
  Result<std::string> read(const Json& document, const char* key = "zarr.json") {
    put(key, document.dump());
    HEADRACE_TRY_ASSIGN(const Array array, Array::open(*store_));
    std::string bytes(array.info().decoded_bytes, '?');
    const TensorView tensor(std::as_writable_bytes(std::span(bytes)), array.info().dtype, array.info().shape);
    HEADRACE_TRY(array.read({}, tensor, *device_));
    return bytes;
  }
  static std::string text(const Result<std::string>& result) {
    return result.ok() ? *result : result.status().to_string();
  }

  std::optional<Context> context_;
  std::optional<Store> store_;
  std::optional<Device> device_;
};

TEST_F(ZarrRules, RanksFrom0To32) {
  for (std::size_t rank = 0; rank <= 32; ++rank) {
    std::vector<std::uint64_t> shape(rank, 1), chunk(rank, 1);
    if (rank > 0) shape.back() = 3;
    if (rank > 0) chunk.back() = 2;
    std::string first = "c", second = "c";
    for (std::size_t i = 0; i < rank; ++i) {
      first += "/0";
      second += i + 1 == rank ? "/1" : "/0";
    }
    put(first, rank == 0 ? "a" : "ab");
    if (rank > 0) put(second, "c_");
    EXPECT_EQ(text(read(v3(shape, chunk))), rank == 0 ? "a" : "abc") << rank;
    store_.emplace(Store::open(*context_, "memory://zarr_rules_rank_" + std::to_string(rank)).value());
  }
}

TEST_F(ZarrRules, EmptyExtentsReadNothing) {
  for (const auto& [shape, chunk] : std::vector<std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>>>{
           {{0}, {4}}, {{0}, {0}}, {{3, 0}, {2, 5}}, {{0, 0, 0}, {1, 0, 2}}}) {
    EXPECT_EQ(text(read(v3(shape, chunk))), "");
    const Array array = Array::open(*store_).value();
    EXPECT_EQ(array.info().chunk_count, 0u);
    EXPECT_EQ(array.info().decoded_bytes, 0u);
  }
}

TEST_F(ZarrRules, EveryChunkKeyEncoding) {
  struct Row {
    const char *encoding, *key, *scalar_key;
  };
  for (const Row& row :
       {Row{R"("default")", "c/1/0", "c"},
        Row{R"({"name": "default", "configuration": {"separator": "."}})", "c.1.0", "c"}, Row{R"("v2")", "1.0", "0"},
        Row{R"({"name": "v2", "configuration": {"separator": "/"}})", "1/0", "0"},
        Row{R"({"name": "v2", "configuration": {}})", "1.0", "0"}}) {
    for (const bool scalar : {false, true}) {
      store_.emplace(
          Store::open(*context_, std::string("memory://zarr_rules_") + row.encoding + (scalar ? "scalar" : ""))
              .value());
      Json document = scalar ? v3({}, {}) : v3({2, 2}, {1, 2});
      document["chunk_key_encoding"] = Json::parse(row.encoding);
      put(scalar ? row.scalar_key : row.key, scalar ? "x" : "yz");
      EXPECT_EQ(text(read(document)), scalar ? "x" : "\t\tyz") << row.encoding;
    }
  }
}

TEST_F(ZarrRules, BorderChunksAreStoredWhole) {
  put("c/1", "c_");
  EXPECT_EQ(text(read(v3({3}, {2}))), "\t\tc");
  put("c/1", "c");
  EXPECT_FALSE(read(v3({3}, {2})).ok());
}

TEST_F(ZarrRules, MissingChunksAreFillValueThroughEveryCodec) {
  Json document = v3({2}, {2});
  document["data_type"] = "int16";
  document["fill_value"] = -2;
  document["codecs"] = Json::parse(R"([{"name": "transpose", "configuration": {"order": [0]}},
    {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "zstd", "configuration": {"level": 1}}, "crc32c"])");
  EXPECT_EQ(text(read(document)), std::string("\xfe\xff\xfe\xff"));
}

TEST_F(ZarrRules, BigEndianOfEveryType) {
  struct Row {
    const char *v2, *v3, *fill;
    std::string stored, read;
  };
  using namespace std::string_literals;
  const std::string forward = "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10";
  const auto turned = [&](std::size_t bytes, std::size_t width) {
    std::string out = forward.substr(0, bytes);
    for (std::size_t i = 0; i < bytes; i += width) std::reverse(out.begin() + i, out.begin() + i + width);
    return out;
  };
  const char* const kDate = R"({"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 10}})";
  const char* const kStruct =
      R"({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "uint16"}]}})";
  const std::string record = std::string("\x04\x03\x02\x01\x06\x05");
  for (const Row& row : {
           Row{"\">i2\"", "\"int16\"", "0", forward.substr(0, 2), turned(2, 2)},
           Row{"\">i4\"", "\"int32\"", "0", forward.substr(0, 4), turned(4, 4)},
           Row{"\">i8\"", "\"int64\"", "0", forward.substr(0, 8), turned(8, 8)},
           Row{"\">u2\"", "\"uint16\"", "0", forward.substr(0, 2), turned(2, 2)},
           Row{"\">u4\"", "\"uint32\"", "0", forward.substr(0, 4), turned(4, 4)},
           Row{"\">u8\"", "\"uint64\"", "0", forward.substr(0, 8), turned(8, 8)},
           Row{"\">f2\"", "\"float16\"", "0", forward.substr(0, 2), turned(2, 2)},
           Row{"\">f4\"", "\"float32\"", "0", forward.substr(0, 4), turned(4, 4)},
           Row{"\">f8\"", "\"float64\"", "0", forward.substr(0, 8), turned(8, 8)},
           Row{nullptr, "\"bfloat16\"", "0", forward.substr(0, 2), turned(2, 2)},
           Row{"\">c8\"", "\"complex64\"", "[0, 0]", forward.substr(0, 8), turned(8, 4)},
           Row{"\">c16\"", "\"complex128\"", "[0, 0]", forward, turned(16, 8)},
           Row{nullptr, "\"complex_float16\"", "[0, 0]", forward.substr(0, 4), turned(4, 2)},
           Row{nullptr, "\"complex_bfloat16\"", "[0, 0]", forward.substr(0, 4), turned(4, 2)},
           Row{"\">M8[10ms]\"", kDate, "\"NaT\"", forward.substr(0, 8), turned(8, 8)},
           Row{"\">U2\"", R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}})", "\"\"",
               forward.substr(0, 8), turned(8, 4)},
           Row{R"([["a", ">i4"], ["b", ">u2"]])", kStruct, R"({"a": 0, "b": 0})", forward.substr(0, 6), record},
           Row{"\"|b1\"", "\"bool\"", "false", "\x01", "\x01"},
           Row{"\"|i1\"", "\"int8\"", "0", "\x80", "\x80"},
           Row{"\"|S3\"", R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}})", "\"\"", "ab\0"s,
               "ab\0"s},
           Row{"\"|V3\"", "\"r24\"", "[0, 0, 0]", "abc", "abc"},
           Row{nullptr, "\"float8_e4m3\"", "0", "\x7c", "\x7c"},
           Row{nullptr, "\"int4\"", "-8", "\xf8", "\xf8"},
       }) {
    Json document = v3({1}, {1});
    document["data_type"] = Json::parse(row.v3);
    document["fill_value"] = Json::parse(row.fill);
    document["codecs"] = Json::parse(R"([{"name": "bytes", "configuration": {"endian": "big"}}])");
    store_.emplace(Store::open(*context_, std::string("memory://zarr_rules_be_") + row.v3).value());
    put("c/0", row.stored);
    EXPECT_EQ(text(read(document)), row.read) << row.v3;
    if (row.v2 == nullptr) continue;
    store_.emplace(Store::open(*context_, std::string("memory://zarr_rules_be2_") + row.v3).value());
    put("0", row.stored);
    document = Json{{"zarr_format", 2}, {"shape", {1}},          {"chunks", {1}},      {"dtype", Json::parse(row.v2)},
                    {"order", "C"},     {"fill_value", nullptr}, {"filters", nullptr}, {"compressor", nullptr}};
    EXPECT_EQ(text(read(document, ".zarray")), row.read) << row.v2;
  }
}

TEST_F(ZarrRules, UnitsOfTimesAreKeptInBothFormats) {
  Json document = v3({1}, {1});
  document["codecs"] = Json::parse(R"([{"name": "bytes", "configuration": {"endian": "little"}}])");
  for (const char* kind : {"datetime64", "timedelta64"}) {
    for (const char* unit :
         {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "\u03bcs", "ns", "ps", "fs", "as", "generic"}) {
      const std::string kept = unit == std::string("\u03bcs") ? "us" : unit;
      document["data_type"] = {{"name", std::string("numpy.") + kind},
                               {"configuration", {{"unit", unit}, {"scale_factor", 25}}}};
      document["fill_value"] = "NaT";
      put("zarr.json", document.dump());
      auto array = Array::open(*store_);
      ASSERT_TRUE(array.ok()) << array.status().to_string();
      EXPECT_EQ(array->info().dtype.unit, "25" + kept);
      EXPECT_EQ(array->info().dtype.kind, kind[0] == 'd' ? TypeKind::kDatetime : TypeKind::kTimedelta);
      const std::string v2 = std::string(kind[0] == 'd' ? "<M8[25" : "<m8[25") + unit + "]";
      put("v2/.zarray", Json{{"zarr_format", 2},
                             {"shape", {1}},
                             {"chunks", {1}},
                             {"dtype", v2},
                             {"order", "C"},
                             {"fill_value", nullptr},
                             {"filters", nullptr},
                             {"compressor", nullptr}}
                            .dump());
      auto second = Array::open(*store_, "v2");
      ASSERT_TRUE(second.ok()) << second.status().to_string();
      EXPECT_EQ(second->info().dtype.unit, "25" + kept);
    }
  }
}

TEST_F(ZarrRules, StructsNeedEndianAndTheLegacyNameDoesNot) {
  Json document = v3({1}, {1});
  document["data_type"] =
      Json::parse(R"({"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", "uint8"]]}})");
  document["fill_value"] = "AAAAAAA=";
  put("c/0", "\x01\x02\x03\x04\x05");
  EXPECT_EQ(text(read(document)), "\x01\x02\x03\x04\x05");
  document["data_type"] = Json::parse(
      R"({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "uint8"}]}})");
  document["fill_value"] = {{"a", 0}, {"b", 0}};
  auto refused = read(document);
  EXPECT_EQ(refused.status().code(), Code::kCorrupt) << text(refused);
  EXPECT_NE(refused.status().message().find("endian"), std::string::npos);
}

TEST_F(ZarrRules, UnknownCodecsAreRefusedWhateverTheySay) {
  Json document = v3({2}, {2});
  for (const char* codec : {R"("my-codec")", R"({"name": "my-codec", "must_understand": false})",
                            R"({"name": "https://example.org/codec"})"}) {
    document["codecs"] = Json::array({"bytes", Json::parse(codec)});
    auto refused = read(document);
    EXPECT_EQ(refused.status().code(), Code::kUnsupported) << text(refused);
    EXPECT_NE(refused.status().to_string().find("codec"), std::string::npos);
  }
}

TEST_F(ZarrRules, CodecsAreInTheOrderOfKinds) {
  Json document = v3({2}, {2});
  for (const char* codecs :
       {R"([])", R"(["crc32c"])", R"(["bytes", "bytes"])", R"(["crc32c", "bytes"])",
        R"(["bytes", {"name": "transpose", "configuration": {"order": [0]}}])",
        R"(["bytes", "crc32c", {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": ["bytes"],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}])"}) {
    document["codecs"] = Json::parse(codecs);
    auto refused = read(document);
    EXPECT_EQ(refused.status().code(), Code::kCorrupt) << codecs << text(refused);
  }
}

TEST_F(ZarrRules, EveryRuleNamesTestsThatExist) {
  const char* root = std::getenv("HEADRACE_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  const auto slurp = [](const std::filesystem::path& path) {
    std::stringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  };
  std::set<std::string> tests;
  for (const char* folder : {"/tests", "/codecs", "/backends", "/src"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(root) + folder)) {
      if (entry.path().extension() != ".cc") continue;
      const std::string source = slurp(entry.path());
      for (const char* macro : {"TEST(", "TEST_F(", "TEST_P("}) {
        for (std::size_t at = source.find(macro); at != std::string::npos; at = source.find(macro, at + 1)) {
          const std::size_t open = source.find('(', at), comma = source.find(',', at), close = source.find(')', at);
          if (comma == std::string::npos || close == std::string::npos || comma > close) continue;
          tests.insert(source.substr(open + 1, comma - open - 1) + "." + source.substr(comma + 2, close - comma - 2));
        }
      }
    }
  }
  const std::string document = slurp(std::string(root) + "/docs/reference/zarr_rules.md");
  int named = 0, rules = 0;
  for (std::size_t line = 0, end = 0; line < document.size(); line = end + 1) {
    end = std::min(document.find('\n', line), document.size());
    const std::string row = document.substr(line, end - line);
    if (row.rfind("| ", 0) != 0 || row.rfind("| rule", 0) == 0) continue;
    ++rules;
    int here = 0;
    for (std::size_t tick = row.find('`'); tick != std::string::npos;) {
      const std::size_t stop = row.find('`', tick + 1);
      if (stop == std::string::npos) break;
      const std::string name = row.substr(tick + 1, stop - tick - 1);
      const std::size_t dot = name.find('.');
      if (dot != std::string::npos && dot > 0 && name[0] >= 'A' && name[0] <= 'Z') {
        ++here;
        EXPECT_TRUE(tests.count(name) == 1) << name << " is no test";
      }
      tick = row.find('`', stop + 1);
    }
    EXPECT_GE(here, 1) << row;
    named += here;
  }
  EXPECT_GE(rules, 24);
  EXPECT_GE(named, 60);
}

}  // namespace
}  // namespace headrace

// Property: Array::stored_chunks lists exactly the chunks that have an object, whatever their keys look like and
// whatever else is next to them.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

struct Keys {
  const char* name;
  std::string document;  // for an array of [12, 25, 3] in chunks of [1, 2, 3]
  std::string prefix, separator;
};

std::string v3(const std::string& encoding, const std::string& separator) {
  return R"({"zarr_format":3,"node_type":"array","shape":[12,25,3],"data_type":"uint8","fill_value":0,
    "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1,2,3]}},"codecs":["bytes"],
    "chunk_key_encoding":{"name":")" +
         encoding + R"(","configuration":{"separator":")" + separator + "\"}}}";
}
std::string v2(const std::string& separator) {
  return R"({"zarr_format":2,"shape":[12,25,3],"chunks":[1,2,3],"dtype":"|u1","compressor":null,"filters":null,
    "fill_value":0,"order":"C","dimension_separator":")" +
         separator + "\"}";
}

class StoredChunksTest : public ::testing::TestWithParam<Keys> {
 protected:
  void put(const std::string& key, const std::string& text = "x") {
    const std::filesystem::path file = directory_ / key;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Array open(const std::string& path = "") {
    return Array::open(Store::open(context_, directory_.path()).value(), path).value();
  }
  std::string key(int i, int j) const {
    const Keys& keys = GetParam();
    return keys.prefix + std::to_string(i) + keys.separator + std::to_string(j) + keys.separator + "0";
  }
  Context context_ = Context::create({}).value();
  support::TempDir directory_;
};

TEST_P(StoredChunksTest, AreThoseWithAnObject) {
  const std::string document = GetParam().document;
  const std::string name = document.find("\"zarr_format\":2") != std::string::npos ? ".zarray" : "zarr.json";
  put("g/a/" + name, document);
  EXPECT_EQ(open("g/a").stored_chunks()->count, 0u);
  for (const auto& [i, j] : {std::pair{10, 0}, {9, 12}, {0, 2}, {0, 10}, {11, 12}}) put("g/a/" + key(i, j));
  // Beyond the grid, or not written like keys.
  for (const auto& [i, j] : {std::pair{12, 0}, {0, 13}}) put("g/a/" + key(i, j));
  const std::string& between = GetParam().separator;
  for (const std::string& other :
       {"00" + between + "1" + between + "0", "1" + between + "1" + between + "00", "1" + between + "x" + between + "0",
        "-1" + between + "1" + between + "0", "99999999999999999999" + between + "1" + between + "0",
        "1" + between + "+1" + between + "0", std::string("notes.txt")}) {
    put("g/a/" + GetParam().prefix + other);
  }
  put("g/a/1" + std::string(between == "." ? ".1" : "x"));
  const auto stored = open("g/a").stored_chunks();
  ASSERT_TRUE(stored.ok()) << stored.status().to_string();
  EXPECT_EQ(stored->count, 5u);
  EXPECT_EQ(stored->indices, (std::vector<std::uint64_t>{0, 2, 0, 0, 10, 0, 9, 12, 0, 10, 0, 0, 11, 12, 0}));
}

INSTANTIATE_TEST_SUITE_P(All, StoredChunksTest,
                         ::testing::Values(Keys{"v2_dot", v2("."), "", "."}, Keys{"v2_slash", v2("/"), "", "/"},
                                           Keys{"default_slash", v3("default", "/"), "c/", "/"},
                                           Keys{"default_dot", v3("default", "."), "c.", "."},
                                           Keys{"v3_v2_dot", v3("v2", "."), "", "."},
                                           Keys{"v3_v2_slash", v3("v2", "/"), "", "/"}),
                         [](const auto& row) { return std::string(row.param.name); });

class OddStoredChunks : public StoredChunksTest {};

TEST_P(OddStoredChunks, WithoutDimensions) {
  const bool is_v3 = GetParam().prefix == "c";
  put(is_v3 ? "zarr.json" : ".zarray",
      is_v3 ? R"({"zarr_format":3,"node_type":"array","shape":[],"data_type":"uint8","fill_value":0,
                 "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[]}},"codecs":["bytes"],
                 "chunk_key_encoding":{"name":"default"}})"
            : R"({"zarr_format":2,"shape":[],"chunks":[],"dtype":"|u1","compressor":null,"filters":null,"fill_value":0,
                 "order":"C"})");
  EXPECT_EQ(open().stored_chunks()->count, 0u);
  put(GetParam().prefix);
  const auto stored = open().stored_chunks();
  ASSERT_TRUE(stored.ok()) << stored.status().to_string();
  EXPECT_EQ(stored->count, 1u);
  EXPECT_TRUE(stored->indices.empty());
}

// A chunk whose lookup would fail is not treated as absent.
TEST_P(OddStoredChunks, LinksThatLeadNowhere) {
  put("zarr.json", v3("default", "/"));
  std::filesystem::create_directories(directory_ / "c/1/1");
  std::filesystem::create_symlink("nothing", directory_ / "c/1/1/0");
  EXPECT_EQ(open().stored_chunks()->count, 1u);
  std::filesystem::create_symlink("nothing", directory_ / "c/2");
  EXPECT_EQ(open().stored_chunks().status().code(), Code::kUnsupported);
}

TEST_P(OddStoredChunks, TheListHasABudget) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  ContextOptions options;
  options.stored_budget_bytes = std::size_t{1} << 20;
  context_ = Context::create(options).value();
  std::string document = v2(".");
  document.replace(document.find("[12,25,3]"), 9, "[9999,25,3]");
  put(".zarray", document);
  for (int i = 0; i < 9000; ++i) put(std::to_string(i) + ".0.0", "");
  const auto stored = open().stored_chunks();
  EXPECT_EQ(stored.status().code(), Code::kResourceExhausted);
  EXPECT_NE(stored.status().message().find("stored_budget_bytes"), std::string::npos) << stored.status().to_string();
}

INSTANTIATE_TEST_SUITE_P(All, OddStoredChunks, ::testing::Values(Keys{"v2", "", "0", ""}, Keys{"v3", "", "c", ""}),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace headrace

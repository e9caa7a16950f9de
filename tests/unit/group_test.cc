// Groups and listings, with and without consolidated metadata, and the requests that a listing makes to the store.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/group.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/access.h"
#include "base/json.h"
#include "tests/support/counting_store.h"
#include "tests/support/raw_array.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"
#include "transfer/context/context_impl.h"

namespace headrace {
namespace {

using base::Json;

const char* const kV3Array =
    R"({"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "int16",
     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
     "chunk_key_encoding": {"name": "default"}, "fill_value": 7,
     "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "attributes": {"units": "K"}})";
const char* const kV3Group = R"({"zarr_format": 3, "node_type": "group", "attributes": {"title": "inner"}})";
const char* const kV2Array =
    R"({"zarr_format": 2, "shape": [5], "chunks": [2], "dtype": ">f4", "compressor": null, "fill_value": 0,
     "order": "C", "filters": null})";

class GroupTest : public ::testing::Test {
 protected:
  GroupTest() {
    context_.emplace(Context::create({}).value());
    static int number = 0;
    auto opened = Store::open(*context_, "memory://group_test_" + std::to_string(++number));
    counting_ = std::make_shared<testing::CountingStore>(Access::impl(*opened));
    store_ = Access::make<Store>(*context_, counting_);
  }
  void put(const std::string& key, const std::string& text) {
    ASSERT_TRUE(testing::put_text(*Access::impl(*store_), key, text).ok()) << key;
  }
  // Writes a root whose consolidated metadata are `nodes`.
  void put_v3(const Json& nodes) {
    put("zarr.json",
        Json{{"zarr_format", 3},
             {"node_type", "group"},
             {"attributes", {{"title", "root"}}},
             {"consolidated_metadata", {{"kind", "inline"}, {"must_understand", false}, {"metadata", nodes}}}}
            .dump());
  }
  void put_v2(const Json& entries) {
    put(".zmetadata", Json{{"zarr_consolidated_format", 1}, {"metadata", entries}}.dump());
  }
  static void expect(const Status& status, Code code, const std::string& part) {
    EXPECT_EQ(code_name(status.code()), code_name(code)) << status.to_string();
    EXPECT_NE(status.to_string().find(part), std::string::npos) << status.to_string();
  }
  static std::string names(const Result<std::vector<Member>>& members) {
    if (!members.ok()) return members.status().to_string();
    std::string out;
    for (const Member& member : *members) out += (out.empty() ? "" : " ") + member.path + (member.is_array ? "" : "/");
    return out;
  }

  std::optional<Context> context_;
  std::shared_ptr<testing::CountingStore> counting_;
  std::optional<Store> store_;
};

TEST_F(GroupTest, ListsTheStoreWhereNothingIsConsolidated) {
  put("zarr.json", kV3Group);
  put("b/zarr.json", kV3Group);
  put("b/x/zarr.json", kV3Array);
  put("a/zarr.json", kV3Array);
  put("a/c/0/0", "chunk");
  put("folder/inside/zarr.json", kV3Array);  // v3 has no implicit groups: the folder is not a node, the array is
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_FALSE(group->info().consolidated);
  EXPECT_EQ(group->info().zarr_format, 3);
  EXPECT_EQ(Json::parse(group->info().attributes_json)["title"], "inner");
  EXPECT_EQ(names(group->members()), "a b/ b/x folder/inside");
  EXPECT_EQ(names(group->children()), "a b/");
  const auto members = group->members();
  EXPECT_EQ(members->front().shape, (std::vector<std::uint64_t>{4, 6}));
  EXPECT_EQ(members->front().dtype.name, "int16");
  EXPECT_EQ(Group::open(*store_, "folder").status().code(), Code::kNotFound);
  EXPECT_EQ(names(Group::open(*store_, "b")->members()), "b/x");
  auto array = group->array("b/x");
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(array->info().fill_text, "7");
  expect(group->array("b").status(), Code::kInvalidArgument, "group");
  expect(group->group("a").status(), Code::kInvalidArgument, "array");
}

TEST_F(GroupTest, OpenReturnsTheKindOfNode) {
  put_v3({{"a", Json::parse(kV3Array)}});
  put("a/zarr.json", kV3Array);
  put("v2/.zarray", kV2Array);
  put("implied/x/.zarray", kV2Array);
  put("bad/zarr.json", R"({"zarr_format": 3, "node_type": "array", "shape": "none"})");
  const auto root = open(*store_);
  ASSERT_TRUE(root.ok()) << root.status().to_string();
  ASSERT_TRUE(std::holds_alternative<Group>(*root));
  EXPECT_TRUE(std::get<Group>(*root).info().consolidated);
  OpenOptions plain;
  plain.consolidated = false;
  EXPECT_FALSE(std::get<Group>(open(*store_, "/", plain).value()).info().consolidated);
  EXPECT_TRUE(std::get<Group>(open(*store_, "implied").value()).info().implicit);
  EXPECT_EQ(std::get<Array>(open(*store_, "v2").value()).info().shape, std::vector<std::uint64_t>{5});
  // Reads the array's document once, and nothing else.
  const auto before = counting_->all();
  const auto array = open(*store_, "/a/");
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(std::get<Array>(*array).info().attributes_json, R"({"units":"K"})");
  EXPECT_EQ(counting_->all(), before + 1);
  expect(open(*store_, "none").status(), Code::kNotFound, "none");
  expect(open(*store_, "bad").status(), Code::kCorrupt, "bad/zarr.json");
  expect(open(*store_, "..").status(), Code::kInvalidArgument, "");
}

TEST_F(GroupTest, ConsolidatedV3IsReadOnceAndNeverTheStore) {
  put_v3({{"a", Json::parse(kV3Array)}, {"g", Json::parse(kV3Group)}, {"g/x", Json::parse(kV3Array)}});
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_EQ(counting_->all(), 1);
  EXPECT_TRUE(group->info().consolidated);
  EXPECT_EQ(Json::parse(group->info().attributes_json)["title"], "root");
  EXPECT_EQ(names(group->members()), "a g/ g/x");
  EXPECT_EQ(names(group->children()), "a g/");
  auto inner = group->group("g");
  ASSERT_TRUE(inner.ok()) << inner.status().to_string();
  EXPECT_EQ(Json::parse(inner->info().attributes_json)["title"], "inner");
  EXPECT_EQ(inner->info().path, "g");
  EXPECT_EQ(names(inner->members()), "g/x");
  for (const auto& array : {group->array("g/x"), inner->array("x"), group->array("/g//x/")}) {
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    EXPECT_EQ(array->info().shape, (std::vector<std::uint64_t>{4, 6}));
    EXPECT_EQ(array->info().attributes_json, R"({"units":"K"})");
  }
  auto nodes = list_nodes(*store_);
  ASSERT_TRUE(nodes.ok());
  EXPECT_EQ(nodes->size(), 4u);
  EXPECT_TRUE((*nodes)[3].array.has_value());
  EXPECT_EQ(counting_->all(), 2);  // list_nodes reads the root's document again
  EXPECT_EQ(counting_->lists, 0);
}

TEST_F(GroupTest, ConsolidatedV2IsReadOnceAndNeverTheStore) {
  put_v2({{".zgroup", {{"zarr_format", 2}}},
          {".zattrs", {{"title", "root"}}},
          {"a/.zarray", Json::parse(kV2Array)},
          {"a/.zattrs", {{"_ARRAY_DIMENSIONS", {"time"}}}},
          {"implied/x/.zarray", Json::parse(kV2Array)},
          {"no_node/.zattrs", {{"k", 1}}},
          {"a/.unknown", "ignored"}});
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_EQ(counting_->all(), 3);  // zarr.json, .zarray, .zmetadata
  EXPECT_TRUE(group->info().consolidated);
  EXPECT_EQ(Json::parse(group->info().attributes_json)["title"], "root");
  EXPECT_EQ(names(group->members()), "a implied/ implied/x");
  EXPECT_EQ(names(group->children()), "a implied/");
  auto array = group->array("a");
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(array->info().dimension_names.at(0), "time");
  auto implied = group->group("implied");
  ASSERT_TRUE(implied.ok()) << implied.status().to_string();
  EXPECT_TRUE(implied->info().implicit);
  EXPECT_EQ(names(implied->members()), "implied/x");
  EXPECT_EQ(group->group("no_node").status().code(), Code::kNotFound);
  EXPECT_EQ(counting_->all(), 3);
}

TEST_F(GroupTest, V2GroupsMayBeImplied) {
  put("a/.zarray", kV2Array);
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_TRUE(group->info().implicit);
  EXPECT_EQ(group->info().zarr_format, 2);
  EXPECT_EQ(names(group->members()), "a");
  auto nodes = list_nodes(*store_);
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  EXPECT_EQ(nodes->size(), 2u);
}

TEST_F(GroupTest, V3GroupsAreNeverImplied) {
  put("a/zarr.json", kV3Array);
  expect(Group::open(*store_).status(), Code::kNotFound, "no Zarr node here");
  EXPECT_TRUE(Array::open(*store_, "a").ok());
  // A folder with nodes below it is listed although it is no group.
  const auto nodes = list_nodes(*store_);
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  ASSERT_EQ(nodes->size(), 2u);
  EXPECT_TRUE(!nodes->front().is_array && nodes->front().zarr_format == 0 && nodes->front().status.ok());
  EXPECT_EQ(nodes->back().path, "a");
  expect(list_nodes(*store_, "a/c").status(), Code::kNotFound, "no Zarr node here");
}

TEST_F(GroupTest, StaleConsolidatedMetadataIsIgnoredOnRequest) {
  Json old = Json::parse(kV3Array);
  old["shape"] = {2, 6};
  put_v3({{"a", old}, {"gone", Json::parse(kV3Array)}});
  put("a/zarr.json", kV3Array);
  put("new/zarr.json", kV3Array);
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(names(group->members()), "a gone");
  EXPECT_EQ(group->array("a")->info().shape[0], 2u);
  expect(group->array("new").status(), Code::kNotFound, "OpenOptions::consolidated = false");
  auto fresh = Group::open(*store_, "", {.lenient = "", .consolidated = false});
  ASSERT_TRUE(fresh.ok());
  EXPECT_FALSE(fresh->info().consolidated);
  EXPECT_EQ(names(fresh->members()), "a new");
  EXPECT_EQ(fresh->array("a")->info().shape[0], 4u);
  EXPECT_EQ(list_nodes(*store_)->size(), 3u);
  EXPECT_EQ(list_nodes(*store_, "", {.lenient = "", .consolidated = false})->size(), 3u);
  // An array opened by its path always comes from the store.
  EXPECT_EQ(Array::open(*store_, "a")->info().shape[0], 4u);
  EXPECT_EQ(Array::open(*store_, "gone").status().code(), Code::kNotFound);
}

TEST_F(GroupTest, MalformedConsolidatedMetadataIsAnError) {
  for (const char* value : {"5", "{}", R"({"kind": "inline", "must_understand": false, "metadata": []})",
                            R"({"kind": "inline", "must_understand": true, "metadata": {}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": {"a": 5}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": {"../a": {}}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": {"": {}}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": {"/a": {}}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": {"a//b": {}}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": {"__a": {}}})",
                            R"({"kind": "inline", "must_understand": false, "metadata": {"a": {}, "a": {}}})"}) {
    put("zarr.json",
        std::string(R"({"zarr_format": 3, "node_type": "group", "consolidated_metadata": )") + value + "}");
    expect(Group::open(*store_).status(), Code::kCorrupt, "");
  }
  for (const char* text : {"5", "{}", R"({"zarr_consolidated_format": 2, "metadata": {}})", R"({"metadata": {}})",
                           R"({"zarr_consolidated_format": 1})", R"({"zarr_consolidated_format": 1, "metadata": []})",
                           R"({"zarr_consolidated_format": 1, "metadata": {"a/.zarray": []}})",
                           R"({"zarr_consolidated_format": 1, "metadata": {"a/../b/.zarray": {}}})",
                           R"({"zarr_consolidated_format": 1, "metadata": {"/.zarray": {}}})", "{\"metadata\": {"}) {
    put("v2/.zgroup", R"({"zarr_format": 2})");
    put("v2/.zmetadata", text);
    expect(Group::open(*store_, "v2").status(), Code::kCorrupt, "");
    EXPECT_TRUE(Group::open(*store_, "v2", {.lenient = "", .consolidated = false}).ok()) << text;
  }
}

TEST_F(GroupTest, OneBadNodeLeavesTheOthersReadable) {
  Json no_type = Json::parse(kV3Array), bad_shape = no_type, bad_codecs = no_type;
  no_type.erase("data_type");
  bad_shape["shape"] = {-1, 6};
  bad_codecs["codecs"] = Json::array();
  put_v3({{"a", Json::parse(kV3Array)}, {"b", no_type}, {"c", bad_shape}, {"d", bad_codecs}});
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  const auto members = group->members();
  ASSERT_EQ(members->size(), 4u);
  EXPECT_TRUE((*members)[0].status.ok());
  expect((*members)[1].status, Code::kCorrupt, "data type");
  expect((*members)[2].status, Code::kCorrupt, "shape[0]");
  EXPECT_TRUE((*members)[3].status.ok());  // shape and type are valid
  expect(group->array("d").status(), Code::kCorrupt, "codecs");
  const auto nodes = list_nodes(*store_);
  ASSERT_EQ(nodes->size(), 5u);
  EXPECT_TRUE((*nodes)[1].array.has_value());
  for (int i : {2, 3, 4}) EXPECT_EQ((*nodes)[i].status.code(), Code::kCorrupt);
}

// Sparse files of zeros: the size of a document is checked before it is read.
TEST_F(GroupTest, DocumentsAreBoundedInSize) {
  const support::TempDir directory;
  const auto make = [&](const std::string& key, std::uint64_t bytes) {
    const std::filesystem::path path = std::filesystem::path(directory.path()) / key;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path).close();
    std::filesystem::resize_file(path, bytes);
  };
  constexpr std::uint64_t kMiB = 1 << 20;
  make("v3/zarr.json", 64 * kMiB + 1);
  make("large/zarr.json", 256 * kMiB + 1);
  make("v2/.zarray", 64 * kMiB + 1);
  make("attributes/.zattrs", 64 * kMiB + 1);
  std::ofstream(std::filesystem::path(directory.path()) / "attributes/.zarray") << kV2Array;
  make("consolidated/.zmetadata", 256 * kMiB + 1);
  auto store = Store::open(*context_, directory.path());
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  struct Row {
    const char *path, *key, *size, *limit;
  };
  for (const Row& row : {Row{"v3", "v3/zarr.json", " 67108865 bytes", "limit of 67108864"},
                         Row{"large", "large/zarr.json", " 268435457 bytes", "limit of 268435456"},
                         Row{"v2", "v2/.zarray", " 67108865 bytes", "limit of 67108864"},
                         Row{"attributes", "attributes/.zattrs", " 67108865 bytes", "limit of 67108864"}}) {
    const Status status = Array::open(*store, row.path).status();
    expect(status, Code::kResourceExhausted, row.limit);
    expect(status, Code::kResourceExhausted, row.size);
    expect(status, Code::kResourceExhausted, row.key);
  }
  const Status group = Group::open(*store, "consolidated").status();
  expect(group, Code::kResourceExhausted, "limit of 268435456");
  expect(group, Code::kResourceExhausted, "consolidated/.zmetadata");
}

// Only the requested nodes of consolidated metadata are built, so the limit is larger.
TEST_F(GroupTest, ConsolidatedMetadataMayBeLarger) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  std::string text =
      Json{{"zarr_format", 3},
           {"node_type", "group"},
           {"consolidated_metadata",
            {{"kind", "inline"}, {"must_understand", false}, {"metadata", {{"a", Json::parse(kV3Array)}}}}}}
          .dump();
  text.insert(1, std::string(65 << 20, ' '));
  put("zarr.json", text);
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_EQ(names(group->members()), "a");
  // One node in it is limited like a document.
  text.insert(text.find("\"units\""), std::string(65 << 20, ' '));
  put("zarr.json", text);
  group = Group::open(*store_);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  expect(group->array("a").status(), Code::kResourceExhausted, "limit of 67108864");
}

TEST_F(GroupTest, NodeNamesFollowTheRules) {
  for (const char* path : {"a/../b", ".", "..", "a/./b", "x/..", "nul\0x"}) {
    expect(Array::open(*store_, path).status(), path[0] == 'n' ? Code::kNotFound : Code::kInvalidArgument, "");
    EXPECT_FALSE(Group::open(*store_, path).ok());
  }
  for (const char* name : {"__reserved", "..."}) {
    put(std::string(name) + "/zarr.json", kV3Array);
    put(std::string(name) + "/v2/.zarray", kV2Array);
    expect(Array::open(*store_, name).status(), Code::kInvalidArgument, "invalid Zarr v3 node name");
    EXPECT_TRUE(Array::open(*store_, std::string(name) + "/v2").ok());  // v2 has no such rule
  }
  put("zarr.json", kV3Group);
  EXPECT_EQ(names(Group::open(*store_)->members()), ".../v2 __reserved/v2");
  put("dir/.zgroup", R"({"zarr_format": 2})");
  put("dir/b/.zarray", kV2Array);
  // "v2", logical paths: leading, trailing and repeated slashes are removed, and a backslash is a slash.
  for (const char* path : {"dir/b", "/dir/b", "dir/b/", "//dir//b//", "dir\\b"}) {
    EXPECT_TRUE(Array::open(*store_, path).ok()) << path;
  }
  EXPECT_TRUE(Group::open(*store_, "/").ok());
}

TEST_F(GroupTest, ReservedNamesPassWithLeniency) {
  OpenOptions lenient;
  lenient.lenient = "reserved-names";
  put("zarr.json", kV3Group);
  put("__xarray_dataarray_variable__/zarr.json", kV3Array);
  EXPECT_EQ(names(Group::open(*store_)->members()), "");
  EXPECT_EQ(names(Group::open(*store_, "", lenient)->members()), "__xarray_dataarray_variable__");
  auto array = Array::open(*store_, "__xarray_dataarray_variable__", lenient);
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  ASSERT_EQ(array->info().lenient_uses.size(), 1u);
  EXPECT_EQ(array->info().lenient_uses[0], "reserved-names: '__xarray_dataarray_variable__'");
  EXPECT_TRUE(Group::open(*store_, "", lenient)->array("__xarray_dataarray_variable__").ok());
  put(".../zarr.json", kV3Array);  // a path of periods is refused even then
  expect(Array::open(*store_, "...", lenient).status(), Code::kInvalidArgument, "only periods");
  // The same in consolidated metadata, which is otherwise refused as a whole.
  Json nodes = Json::object();
  nodes["__a"] = Json::parse(kV3Array);
  put_v3(nodes);
  expect(Group::open(*store_).status(), Code::kCorrupt, "__a");
  auto group = Group::open(*store_, "", lenient);
  ASSERT_TRUE(group.ok()) << group.status().to_string();
  EXPECT_EQ(names(group->members()), "__a");
  EXPECT_TRUE(group->array("__a").ok());
}

TEST_F(GroupTest, TenThousandArraysAreListedFromOneRead) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  Json nodes = Json::object();
  for (int i = 0; i < 10000; ++i) {
    Json array = Json::parse(kV3Array);
    array["shape"][0] = i;
    nodes["array_" + std::to_string(i)] = std::move(array);
  }
  put_v3(nodes);
  auto group = Group::open(*store_);
  ASSERT_TRUE(group.ok());
  const auto members = group->members();
  ASSERT_EQ(members->size(), 10000u);
  for (const Member& member : *members) {
    EXPECT_EQ(std::to_string(member.shape.at(0)), member.path.substr(6));
    EXPECT_EQ(member.dtype.name, "int16");
  }
  EXPECT_EQ(counting_->all(), 1);
}

TEST_F(GroupTest, OpeningAnArrayReadsItsDocumentAndListsNothing) {
  Json array = Json::parse(kV3Array);
  array["shape"] = {1000000, 1000000};  // 10^12 elements, 1.7 * 10^11 chunks
  put("huge/zarr.json", array.dump());
  auto opened = Array::open(*store_, "huge");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->info().decoded_bytes, 2000000000000u);
  EXPECT_EQ(counting_->all(), 1);
  auto device = Device::open("host").value();
  std::int16_t values[4] = {};
  const auto selection = parse_selection("-2:, 999998:").value();
  ASSERT_TRUE(opened->read(selection, {values, {2, 2}}, device).ok());
  for (std::int16_t value : values) EXPECT_EQ(value, 7);
  EXPECT_EQ(counting_->lists, 0);
  EXPECT_LE(counting_->all(), 3);  // the four elements are in one or two chunks, since 999999 and 1000000 may share one
}

// Directories with links between them, in a store that counts requests.
class LinkedGroupTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const char* document) {
    std::filesystem::create_directories(directory_ / path);
    std::ofstream(directory_ / (path + "/zarr.json")) << document;
  }
  void link(const std::string& target, const std::string& path) {
    std::filesystem::create_symlink(target, directory_ / path);
  }
  // Paths of the nodes below the root; list_nodes and members must agree.
  std::string walk() {
    const Context context = Context::create({}).value();
    counting_ = std::make_shared<testing::CountingStore>(Access::impl(*Store::open(context, directory_.path())));
    const Store store = Access::make<Store>(context, counting_);
    const auto nodes = list_nodes(store);
    asked_ = counting_->all();
    const auto members = Group::open(store)->members();
    if (!nodes.ok() || !members.ok()) return nodes.status().to_string() + members.status().to_string();
    std::string out, again;
    for (const Node& node : *nodes) {
      if (!node.path.empty()) out += (out.empty() ? "" : " ") + node.path + (node.status.ok() ? "" : "!");
      told_ += node.status.message();
    }
    for (const Member& member : *members) {
      again += (again.empty() ? "" : " ") + member.path + (member.status.ok() ? "" : "!");
    }
    EXPECT_EQ(out, again);
    return out;
  }
  support::TempDir directory_;
  std::shared_ptr<testing::CountingStore> counting_;
  int asked_ = 0;
  std::string told_;
};

TEST_F(LinkedGroupTest, LinksThatLeadBackUpAreWalkedOnce) {
  put("", kV3Group);
  put("g", kV3Group);
  put("g/x", kV3Array);
  link(".", "a");
  link(".", "b");
  link("..", "g/up");
  link("../g", "g/self");
  EXPECT_EQ(walk(), "a b g g/self g/up g/x");
  EXPECT_LE(asked_, 30);
}

// Each level has two links to the next: 2^40 paths, but 40 directories.
TEST_F(LinkedGroupTest, DirectoriesAreVisitedOnceHoweverManyPathsLeadThere) {
  put("", kV3Group);
  for (int i = 0; i < 40; ++i) {
    const std::string at = "d" + std::to_string(i);
    put(at, kV3Group);
    for (const char* name : {"/l", "/m"}) link("../d" + std::to_string(i + 1), at + name);
  }
  put("d40", kV3Group);
  const std::string paths = walk();
  EXPECT_EQ(std::count(paths.begin(), paths.end(), ' ') + 1, 41 + 2 * 40);
  EXPECT_LE(asked_, 1000);
}

// The content of a directory is listed under the directory's own path, whatever the links are called.
TEST_F(LinkedGroupTest, AliasesAreNodesWithNothingBelow) {
  put("", kV3Group);
  put("v3", kV3Group);
  put("v3/x", kV3Array);
  link("v3", "latest");
  link("v3/x", "shortcut");
  EXPECT_EQ(walk(), "latest shortcut v3 v3/x");
  // If the directory itself is not below the group, the link is its path.
  put("other", kV3Group);
  link("../v3", "other/linked");
  const Context context = Context::create({}).value();
  const auto nodes = list_nodes(Store::open(context, directory_.path()).value(), "other");
  ASSERT_TRUE(nodes.ok());
  ASSERT_EQ(nodes->size(), 3u);
  EXPECT_EQ((*nodes)[2].path, "other/linked/x");
}

TEST_F(LinkedGroupTest, FoldersNestedTooDeepAreReported) {
  put("", kV3Group);
  std::string at = "g";
  for (int i = 0; i < 70; ++i, at += "/g") put(at, kV3Group);
  const std::string paths = walk();
  EXPECT_EQ(std::count(paths.begin(), paths.end(), '!'), 1);
  EXPECT_NE(told_.find("64 folders"), std::string::npos) << told_;
}

class StoredBudgetTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBudget = std::size_t{16} << 20;
  StoredBudgetTest() {
    ContextOptions options;
    options.stored_budget_bytes = kBudget;
    context_.emplace(Context::create(options).value());
    static int number = 0;
    store_.emplace(Store::open(*context_, "memory://stored_budget_" + std::to_string(++number)).value());
  }
  void put(const std::string& key, const std::string& text) {
    ASSERT_TRUE(testing::put_text(*Access::impl(*store_), key, text).ok()) << key;
  }
  static void expect_refused(const Status& status, const std::string& what) {
    EXPECT_EQ(code_name(status.code()), code_name(Code::kResourceExhausted)) << status.to_string();
    EXPECT_NE(status.message().find("stored_budget_bytes"), std::string::npos) << status.to_string();
    EXPECT_NE(status.message().find(what), std::string::npos) << status.to_string();
  }
  std::uint64_t used() const { return Access::impl(*context_)->resources->stored_memory()->used_bytes(); }
  std::optional<Context> context_;
  std::optional<Store> store_;
};

// Implicit groups become members: few stored bytes, but many long paths.
TEST_F(StoredBudgetTest, ImpliedMembersAreCountedAsTheyAreMade) {
  Json entries = Json::object();
  for (int i = 0; i < 100; ++i) {
    std::string path = std::to_string(i);
    for (int depth = 0; depth < 1500; ++depth) path += "/a";
    entries[path + "/.zgroup"] = {{"zarr_format", 2}};
  }
  put(".zmetadata", Json{{"zarr_consolidated_format", 1}, {"metadata", entries}}.dump());
  {
    auto group = Group::open(*store_);
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    expect_refused(group->members().status(), "a list of members");
    EXPECT_EQ(group->children()->size(), 100u);
    EXPECT_GT(used(), 0u) << "the document is kept";
  }
  EXPECT_EQ(used(), 0u);
}

TEST_F(StoredBudgetTest, MetadataAreMeasuredBeforeTheyAreReadAndParsed) {
  put("large/zarr.json", std::string(kBudget + 1, ' '));
  expect_refused(Array::open(*store_, "large").status(), "an object");
  put("many/.zmetadata", std::string(kBudget / 2, ' '));  // read, but too large to be parsed
  put("many/.zattrs", std::string(kBudget / 4, ' '));
  put("many/.zgroup", R"({"zarr_format": 2})");
  expect_refused(Group::open(*store_, "many", {.lenient = "", .consolidated = false}).status(), "parsing");
  Json array = Json::parse(kV3Array);
  array["attributes"]["list"] = std::vector<int>(100'000, 1);
  put("a/zarr.json", array.dump());
  {
    const auto opened = Array::open(*store_, "a");
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    EXPECT_GE(used(), 200'000u) << "its attributes are kept";
    EXPECT_LE(used(), 300'000u) << "and the parser's memory is released";
  }
  EXPECT_EQ(used(), 0u);
}

TEST_F(StoredBudgetTest, ListsOfNodesAreCounted) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  Json nodes = Json::object();
  for (int i = 0; i < 4000; ++i) nodes["a" + std::to_string(i)] = Json::parse(kV3Array);
  put("zarr.json",
      Json{{"zarr_format", 3},
           {"node_type", "group"},
           {"consolidated_metadata", {{"kind", "inline"}, {"must_understand", false}, {"metadata", nodes}}}}
          .dump());
  expect_refused(list_nodes(*store_).status(), "a list of nodes");
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(Group::open(*store_)->members()->size(), 4000u);
}

TEST_F(StoredBudgetTest, OptionsAreChecked) {
  ContextOptions options;
  options.stored_budget_bytes = 1000;
  EXPECT_EQ(Context::create(options).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace headrace

// References are followed only to local files beneath the root, and invalid reference files are rejected.
#include "reference_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include "support/temp_dir.h"

namespace headrace::store {
namespace {

using support::pattern;

// With and without openat2.
class ReferenceStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir_ / "root/refs/sub");
    std::filesystem::create_directory(dir_ / "outside");
    ASSERT_TRUE(support::write_file(dir_ / "secret", pattern(100, 9)));
    ASSERT_TRUE(support::write_file(dir_ / "outside/secret", pattern(100, 9)));
    ASSERT_TRUE(support::write_file(dir_ / "root/above.bin", pattern(1000, 2)));
    ASSERT_TRUE(support::write_file(dir_ / "root/refs/a.bin", pattern(1000, 1)));
    ASSERT_TRUE(support::write_file(dir_ / "root/refs/sub/b.bin", pattern(50, 3)));
  }
  Result<std::shared_ptr<Store>> open(const std::string& text, const std::string& root = "") {
    return open_references(text, {"reference://test", dir_ / "root/refs", "", root, GetParam()});
  }
  std::shared_ptr<Store> store(const std::string& text, const std::string& root = "") {
    auto opened = open(text, root);
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    return opened.ok() ? *opened : nullptr;
  }
  // Opens the one object of {"k": value}, checks that its file lies beneath the root, and returns the status.
  Status follow(const std::string& value, const std::string& root = "") {
    auto opened = open("{\"k\":" + value + "}", root);
    if (!opened.ok()) return opened.status();
    ByteSource object;
    Status status = (*opened)->open("k", object);
    EXPECT_EQ(status.ok(), object.is_open());
    if (object.file().fd >= 0) {
      char target[PATH_MAX] = {};
      const auto n =
          ::readlink(("/proc/self/fd/" + std::to_string(object.file().fd)).c_str(), target, sizeof target - 1);
      EXPECT_GT(n, 0);
      const std::string top = std::filesystem::canonical(root.empty() ? dir_ / "root/refs" : root).string() + "/";
      EXPECT_EQ(std::string(target).substr(0, top.size()), top);
    }
    return status;
  }
  static void expect(const Status& status, Code code, const char* words) {
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
  }
  static Bytes part(const Bytes& bytes, std::size_t from, std::size_t count) {
    return {bytes.begin() + static_cast<std::ptrdiff_t>(from),
            bytes.begin() + static_cast<std::ptrdiff_t>(from + count)};
  }
  support::TempDir dir_;
};

TEST_P(ReferenceStoreTest, KindsOfValues) {
  const auto text = [](std::string_view t) {
    const auto bytes = std::as_bytes(std::span(t));
    return Bytes(bytes.begin(), bytes.end());
  };
  for (const bool version_1 : {false, true}) {
    const std::string refs =
        R"({".zgroup":"{\"zarr_format\":2}", "doc":{"a":[1,2]}, "b64":"base64:AAEC/w==", "b0":"base64:",
      "b1":"base64:QUI=", "b2":"base64:QUJD", "empty":"", "range":["a.bin",10,20], "whole":["sub/b.bin"],
      "file":["file://)" +
        dir_.path() + R"(/root/refs/a.bin",990,10], "local":["local://)" + dir_.path() +
        R"(/root/refs/a.bin",0,0], "abs":[")" + dir_.path() + R"(/root/refs/a.bin",1,1],
      "dot":["./sub/../a.bin",5,5]})";
    auto opened = store(version_1 ? R"({"version":1,"refs":)" + refs + "}" : refs);
    ASSERT_NE(opened, nullptr);
    const Bytes a = pattern(1000, 1);
    EXPECT_EQ(*opened->get(".zgroup", 100), text(R"({"zarr_format":2})"));
    EXPECT_EQ(*opened->get("doc", 100), text(R"({"a":[1,2]})"));
    EXPECT_EQ(*opened->get("b64", 100), text(std::string_view("\0\1\2\xff", 4)));
    EXPECT_EQ(*opened->get("b0", 100), Bytes());
    EXPECT_EQ(*opened->get("b1", 100), text("AB"));
    EXPECT_EQ(*opened->get("b2", 100), text("ABC"));
    EXPECT_EQ(*opened->get("empty", 100), Bytes());
    EXPECT_EQ(*opened->get("range", 100), part(a, 10, 20));
    EXPECT_EQ(*opened->get("whole", 100), pattern(50, 3));
    EXPECT_EQ(*opened->get("file", 100), part(a, 990, 10));
    EXPECT_EQ(*opened->get("local", 100), Bytes());
    EXPECT_EQ(*opened->get("abs", 100), part(a, 1, 1));
    EXPECT_EQ(*opened->get("dot", 100), part(a, 5, 5));
    EXPECT_EQ(opened->get("none", 100).status().code(), Code::kNotFound);
  }
}

TEST_P(ReferenceStoreTest, TemplatesAndGenerators) {
  auto opened = store(R"({"version":1, "templates":{"u":"sub/b","s":"bin"},
    "refs":{"k":["{{u}}.{{ s }}",1,2], "text":"{{u}} stays"},
    "gen":[{"key":"g/{{i}}.{{j}}","url":"{{u}}.bin","offset":"{{(i + 1) * 10 - j//2 % 3}}","length":"{{j}}",
            "dimensions":{"i":{"stop":3},"j":[1,5]}},
           {"key":"w{{n}}","url":"a.bin","dimensions":{"n":{"start":4,"stop":0,"step":-2}}}]})");
  ASSERT_NE(opened, nullptr);
  const Bytes b = pattern(50, 3);
  EXPECT_EQ(*opened->get("k", 10), part(b, 1, 2));
  EXPECT_EQ(opened->get("text", 20)->size(), 11u);
  EXPECT_EQ(*opened->get("g/0.1", 10), part(b, 10, 1));
  EXPECT_EQ(*opened->get("g/2.5", 10), part(b, 28, 5));
  EXPECT_EQ(opened->list("g")->size(), 6u);
  EXPECT_EQ(*opened->get("w4", 1000), pattern(1000, 1));
  EXPECT_EQ(*opened->get("w2", 1000), pattern(1000, 1));
  EXPECT_EQ(opened->get("w0", 1000).status().code(), Code::kNotFound);
}

TEST_P(ReferenceStoreTest, UnsupportedFeaturesAreNamed) {
  for (const char* scheme : {"http", "https", "s3", "gs", "az", "memory", "simplecache::s3", "zip"}) {
    const Status status = follow(std::string("[\"") + scheme + "://host/x.nc\",0,1]");
    expect(status, Code::kUnsupported, scheme);
    EXPECT_EQ(status.key(), "k");
  }
  expect(follow("[\"file://host/x\",0,1]"), Code::kUnsupported, "file:///path");
  expect(follow("[null,0,1]"), Code::kUnsupported, "without a file");
  expect(open(R"({"version":2,"refs":{}})").status(), Code::kUnsupported, "version 2");
  expect(open(R"({"version":1,"refs":{},"other":{}})").status(), Code::kUnsupported, "other");
  expect(open(R"({"version":1,"templates":{"f":"{{c}}"},"refs":{}})").status(), Code::kUnsupported, "with parameters");
  expect(open(R"({"version":1,"templates":{"f":"x"},"refs":{"k":["{{f(c='x')}}"]}})").status(), Code::kUnsupported,
         "f(c='x')");
  expect(open(R"({"version":1,"refs":{"k":["{{2**3}}"]}})").status(), Code::kUnsupported, "2**3");
  expect(open(R"({"version":1,"gen":[{"key":"a","url":"b","dimensions":{"i":[1.5]}}]})").status(), Code::kUnsupported,
         "whole numbers");
}

TEST_P(ReferenceStoreTest, OtherFilesAreRefused) {
  for (
      const char* text :
      {"",
       "{",
       "[]",
       "1",
       "\"x\"",
       R"({"k":1})",
       R"({"k":null})",
       R"({"k":[]})",
       R"({"k":["a",1]})",
       R"({"k":["a",1,2,3]})",
       R"({"k":[1,2,3]})",
       R"({"k":["a",-1,2]})",
       R"({"k":["a",1,-2]})",
       R"({"k":["a",1.5,2]})",
       R"({"k":["a","1",2]})",
       R"({"k":["",0,1]})",
       R"({"k":["a\u0000b",0,1]})",
       R"({"k":["a",9223372036854775807,1]})",
       R"({"k":["a",18446744073709551615,1]})",
       R"({"k":["a",1,18446744073709551615]})",
       R"({"k":["a",1,18446744073709551614]})",
       R"({"k":"base64:A"})",
       R"({"k":"base64:AA=A"})",
       R"({"k":"base64:AAE*"})",
       R"({"k":"base64:===="})",
       R"({"k":"base64:AB=="})",
       R"({"k":["a"],"k":["b"]})",
       R"({"version":1,"refs":[]})",
       R"({"version":1,"templates":[]})",
       R"({"version":1,"templates":{"a":1}})",
       R"({"version":1,"refs":{"k":["{{a}}"]}})",
       R"({"version":1,"refs":{"k":["{{a"]}})",
       R"({"version":1,"gen":{}})",
       R"({"version":1,"gen":[{"key":"a","url":"b"}]})",
       R"({"version":1,"gen":[{"key":"a","url":"b","offset":"1","dimensions":{"i":[1]}}]})",
       R"({"version":1,"gen":[{"key":"a","url":"b","dimensions":{"i":{"stop":2,"step":0}}}]})",
       R"({"version":1,"gen":[{"key":"a","url":"b","offset":"{{1//(i-1)}}","length":"1","dimensions":{"i":[1]}}]})",
       R"({"version":1,"gen":[{"key":"a","url":"b","offset":"{{i-2}}","length":"1","dimensions":{"i":[1]}}]})",
       R"({"version":1,"gen":[{"key":"a","url":"b","offset":"{{i*i}}","length":"1","dimensions":{"i":[9000000000]}}]})"}) {
    auto opened = open(text);
    EXPECT_EQ(opened.status().code(), Code::kCorrupt) << text << ": " << opened.status().to_string();
  }
}

TEST_P(ReferenceStoreTest, Bombs) {
  const auto gen = [](const std::string& dimensions) {
    return R"({"version":1,"gen":[{"key":"{{i}}","url":"b","dimensions":)" + dimensions + "}]}";
  };
  for (const char* dimensions :
       {R"({"i":{"stop":9223372036854775807}})", R"({"i":{"start":-9223372036854775808,"stop":9223372036854775807}})",
        R"({"i":{"stop":100000},"j":{"stop":100000},"k":{"stop":100000}})", R"({"i":{"stop":16000000},"j":[1,2]})"}) {
    EXPECT_EQ(open(gen(dimensions)).status().code(), Code::kResourceExhausted) << dimensions;
  }
  std::string deep = "{{";
  for (int i = 0; i < 10'000; ++i) deep += "(";
  EXPECT_EQ(open(R"({"version":1,"refs":{"k":[")" + deep + R"(1}}"]}})").status().code(), Code::kUnsupported);
}

// A reference file's memory is computed before it is used, and charged to a budget.
TEST_P(ReferenceStoreTest, ChargesItsMemoryToTheBudget) {
  constexpr std::uint64_t kLimit = std::uint64_t{8} << 20;
  const auto budget = std::make_shared<base::MemoryBudget>(kLimit, "the_option");
  const auto open_within = [&](const std::string& text) {
    return open_references(text, {"reference://test", dir_ / "root/refs", "", "", GetParam(), budget});
  };
  // A dimension without values: no references, however long the others are.
  std::string dimensions = R"({"a":{"stop":0})";
  for (int i = 0; i < 100; ++i) dimensions += ",\"d" + std::to_string(i) + R"(":{"stop":4194304})";
  auto none = open_within(R"({"version":1,"gen":[{"key":"a{{a}}","url":"b","dimensions":)" + dimensions + "}}]}");
  ASSERT_TRUE(none.ok()) << none.status().to_string();
  EXPECT_EQ((*none)->list("")->size(), 0u);
  EXPECT_EQ(budget->used_bytes(), 0u);
  // Templates are expanded only up to the maximum length of a file name.
  std::string uses;
  for (int i = 0; i < 6000; ++i) uses += "{{u}}";
  const std::string large = R"({"version":1,"templates":{"u":")" + std::string(1 << 20, 'x') + R"("},)";
  expect(open_within(large + R"("refs":{"a":[")" + uses + R"("]}})").status(), Code::kCorrupt, "neither a path");
  expect(open_within(large + R"("gen":[{"key":"{{i}}","url":")" + uses + R"(","dimensions":{"i":[1]}}]})").status(),
         Code::kCorrupt, "neither a path");
  // More references than the budget allows, then as many as it allows.
  const auto many = [](int count) {
    return R"({"version":1,"gen":[{"key":"{{i}}","url":"a.bin","dimensions":{"i":{"stop":)" + std::to_string(count) +
           "}}}]}";
  };
  expect(open_within(many(1'000'000)).status(), Code::kResourceExhausted, "the_option");
  EXPECT_EQ(budget->used_bytes(), 0u);
  {
    auto some = open_within(many(10'000));
    ASSERT_TRUE(some.ok()) << some.status().to_string();
    EXPECT_GT(budget->used_bytes(), 240'000u);
    EXPECT_EQ((*some)->get("9999", 1000)->size(), 1000u);
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
  // Few references whose texts would take hours to process.
  const std::string long_key = R"({"version":1,"gen":[{"key":")" + std::string(100'000, 'k') +
                               R"({{i}}","url":"b","dimensions":{"i":{"stop":1000000}}}]})";
  expect(open_within(long_key).status(), Code::kResourceExhausted, "too many");
}

// Ranges and lists give the values of Python's range() and of the list itself.
TEST_P(ReferenceStoreTest, DimensionsMatchPythonRanges) {
  const auto names = [&](const std::string& dimension) {
    auto opened = store(R"({"version":1,"gen":[{"key":"v{{i}}","url":"b","dimensions":{"i":)" + dimension + "}}]}");
    std::string out;
    if (opened == nullptr) return out;
    const auto entries = opened->list("");
    for (const Entry& entry : *entries) out += entry.name + " ";
    return out;
  };
  EXPECT_EQ(names(R"({"stop":3})"), "v0 v1 v2 ");
  EXPECT_EQ(names(R"({"start":5,"stop":-2,"step":-3})"), "v-1 v2 v5 ");
  EXPECT_EQ(names(R"({"start":2,"stop":9,"step":7})"), "v2 ");
  EXPECT_EQ(names(R"({"start":2,"stop":10,"step":7})"), "v2 v9 ");
  EXPECT_EQ(names(R"({"start":3,"stop":3})"), "");
  EXPECT_EQ(names(R"({"start":9223372036854775806,"stop":9223372036854775807,"step":9223372036854775807})"),
            "v9223372036854775806 ");
  EXPECT_EQ(names(R"({"start":-9223372036854775808,"stop":9223372036854775807,"step":9223372036854775807})"),
            "v-1 v-9223372036854775808 v9223372036854775806 ");
  EXPECT_EQ(names(R"({"start":5,"stop":0,"step":-9223372036854775808})"), "v5 ");
  EXPECT_EQ(names("[4,-1,4]"), "v-1 v4 ");
}

TEST_P(ReferenceStoreTest, NothingOutsideTheRootIsOpened) {
  const std::string top = dir_.path(), root = dir_ / "root", refs = dir_ / "root/refs";
  for (const std::string& path :
       {std::string("../above.bin"), std::string("../../secret"), std::string("sub/../../above.bin"),
        root + "/above.bin", "file://" + root + "/above.bin", refs + "/../above.bin",
        "file://" + refs + "/../../secret", top + "/secret", std::string("/etc/passwd"),
        std::string("file:///etc/passwd"), std::string("//etc/passwd"), std::string("/"),
        std::string("/proc/self/environ"), refs + "x", refs, root, std::string("/proc/self/fd/0")}) {
    const Status status = follow("[\"" + path + "\",0,1]");
    EXPECT_EQ(status.code(), Code::kPermission) << path << ": " << status.to_string();
    EXPECT_EQ(follow("[\"" + path + "\"]").code(), Code::kPermission) << path;
  }
  // Names that only look as if they led outside.
  for (const char* path : {"..\\\\above.bin", "%2e%2e/above.bin", "~/x", "$HOME"}) {
    EXPECT_EQ(follow(std::string("[\"") + path + "\",0,1]").code(), Code::kIo) << path << " is missing";
  }
  // Links.
  for (const auto& [target, name] : {std::pair{std::string("../above.bin"), "up"},
                                     {top + "/secret", "absolute"},
                                     {std::string("../../outside"), "dir"},
                                     {std::string("up"), "twice"},
                                     {refs + "/a.bin", "absolute_inside"},
                                     {std::string("/proc/self/fd/0"), "magic"}}) {
    ASSERT_EQ(::symlink(target.c_str(), (refs + "/" + name).c_str()), 0);
  }
  for (const char* path : {"up", "absolute", "dir/secret", "twice", "absolute_inside", "magic"}) {
    EXPECT_EQ(follow(std::string("[\"") + path + "\",0,1]").code(), Code::kPermission) << path;
  }
  ASSERT_EQ(::symlink("sub/../a.bin", (refs + "/inside").c_str()), 0);
  EXPECT_TRUE(follow(R"(["inside",0,1])").ok());
}

TEST_P(ReferenceStoreTest, AWiderRootHasToBeAskedFor) {
  const std::string root = dir_ / "root";
  EXPECT_TRUE(follow(R"(["../above.bin",0,1])", root).ok());
  EXPECT_TRUE(follow("[\"" + root + "/above.bin\",0,1]", root).ok());
  EXPECT_TRUE(follow(R"(["a.bin",0,1])", root).ok());
  EXPECT_EQ(follow(R"(["../../secret",0,1])", root).code(), Code::kPermission);
  // The root does not contain the reference file, so relative references lead outside.
  EXPECT_EQ(follow(R"(["a.bin",0,1])", dir_ / "outside").code(), Code::kPermission);
  EXPECT_TRUE(follow("[\"" + (dir_ / "outside/secret") + "\",0,1]", dir_ / "outside").ok());
  // The root is named by a link.
  ASSERT_EQ(::symlink("root", (dir_ / "alias").c_str()), 0);
  EXPECT_TRUE(follow("[\"" + (dir_ / "alias/above.bin") + "\",0,1]", dir_ / "alias").ok());
  EXPECT_TRUE(follow("[\"" + root + "/above.bin\",0,1]", dir_ / "alias").ok());
  EXPECT_EQ(open("{}", dir_ / "none").status().code(), Code::kNotFound);

  const std::string json = R"({"k":["../above.bin",0,1000]})";
  ASSERT_TRUE(support::write_file(dir_ / "root/refs/r.json", std::as_bytes(std::span(json))));
  const std::string url = "reference://" + (dir_ / "root/refs/r.json");
  EXPECT_EQ((*open_store(url))->get("k", 1000).status().code(), Code::kPermission);
  auto wide = open_store(url + "?root=" + root);
  ASSERT_TRUE(wide.ok()) << wide.status().to_string();
  EXPECT_EQ(*(*wide)->get("k", 1000), pattern(1000, 2));
  EXPECT_EQ(open_store(url + "/k").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(open_store(url + "/g?root=" + root).status().code(), Code::kNotFound);
  const std::string nested = R"({"g/h/k":["a.bin",1,2], "gg/k":"x"})";
  ASSERT_TRUE(support::write_file(dir_ / "root/refs/n.json", std::as_bytes(std::span(nested))));
  auto inside = open_store("reference://" + (dir_ / "root/refs/n.json/g/h/?root=") + root);
  ASSERT_TRUE(inside.ok()) << inside.status().to_string();
  EXPECT_EQ(*(*inside)->get("k", 2), part(pattern(1000, 1), 1, 2));
  EXPECT_EQ((*inside)->list("")->size(), 1u);
  EXPECT_EQ(open_store(url + "?root=").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(open_store("reference://" + (dir_ / "none.json")).status().code(), Code::kNotFound);
  EXPECT_EQ(open_store("reference://" + root).status().code(), Code::kInvalidArgument);
  // A plain path is not opened as a reference file, which would lead to other files; the scheme must say so.
  expect(open_store(dir_ / "root/refs/r.json").status(), Code::kInvalidArgument, "reference://");
}

TEST_P(ReferenceStoreTest, AMissingFileIsNoMissingChunk) {
  expect(follow(R"(["none.bin",0,1])"), Code::kIo, "missing");
  expect(follow(R"(["none/at/all"])"), Code::kIo, "missing");
  expect(follow(R"(["a.bin/below"])"), Code::kIo, "missing");
  expect(follow(R"(["sub"])"), Code::kIo, "a directory");
  ASSERT_EQ(::mkfifo((dir_ / "root/refs/fifo").c_str(), 0644), 0);
  expect(follow(R"(["fifo",0,1])"), Code::kIo, "a FIFO");
  expect(follow(R"(["a.bin",0,1001])"), Code::kShort, "which has 1000");
  expect(follow(R"(["a.bin",1001,0])"), Code::kShort, "which has 1000");
  expect(follow(R"(["a.bin",9223372036854775806,1])"), Code::kShort, "which has 1000");
  EXPECT_TRUE(follow(R"(["a.bin",1000,0])").ok());
  // A file that was truncated after it was first opened.
  auto opened = store(R"({"k":["a.bin",900,100],"all":["a.bin"]})");
  EXPECT_TRUE(opened->get("k", 100).ok());
  ASSERT_EQ(::truncate((dir_ / "root/refs/a.bin").c_str(), 950), 0);
  EXPECT_EQ(opened->get("k", 100).status().code(), Code::kShort);
  EXPECT_EQ(opened->get("all", 1000)->size(), 950u);
}

TEST_P(ReferenceStoreTest, AFileThatChangesIsReadWhereTheReferencesSay) {
  auto opened = store(R"({"k":["a.bin",100,50]})");
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->get("k", 1000).value(), part(pattern(1000, 1), 100, 50));
  ASSERT_TRUE(support::write_file(dir_ / "root/refs/a.bin", pattern(1000, 5)));
  EXPECT_EQ(opened->get("k", 1000).value(), part(pattern(1000, 5), 100, 50));
  ASSERT_TRUE(support::write_file(dir_ / "root/refs/other", pattern(1000, 6)));
  std::filesystem::rename(dir_ / "root/refs/other", dir_ / "root/refs/a.bin");
  EXPECT_EQ(opened->get("k", 1000).value(), part(pattern(1000, 5), 100, 50));
  opened = store(R"({"k":["a.bin",100,50]})");
  EXPECT_EQ(opened->get("k", 1000).value(), part(pattern(1000, 6), 100, 50));
  std::filesystem::resize_file(dir_ / "root/refs/a.bin", 120);
  EXPECT_EQ(opened->get("k", 1000).status().code(), Code::kShort);
}

TEST_P(ReferenceStoreTest, ManyFilesTakeABoundedNumberOfDescriptors) {
  std::string refs = "{";
  for (int i = 0; i < 600; ++i) {
    const std::string name = std::to_string(i) + ".bin";
    ASSERT_TRUE(support::write_file(dir_ / "root/refs/" + name, pattern(10, static_cast<std::size_t>(i))));
    refs += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":[\"" + name + "\",2,8]";
  }
  const std::size_t before = support::open_descriptors();
  {
    auto opened = store(refs + "}");
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 600; ++i) {
        ASSERT_EQ(*opened->get(std::to_string(i), 10), part(pattern(10, static_cast<std::size_t>(i)), 2, 8));
      }
    }
    EXPECT_LE(support::open_descriptors(), before + 257);
  }
  EXPECT_EQ(support::open_descriptors(), before);
}

INSTANTIATE_TEST_SUITE_P(Resolver, ReferenceStoreTest, ::testing::Bool(),
                         [](const auto& row) { return row.param ? "Kernel" : "Walk"; });

}  // namespace
}  // namespace headrace::store

// Every store keeps what was put, says "not found" only of what is not there, and opens nothing for a hostile key.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <thread>

#include "store/store.h"
#include "support/temp_dir.h"

namespace headrace::store {
namespace {

using support::pattern;

class Conformance : public ::testing::TestWithParam<StoreRow> {
 protected:
  void SetUp() override {
    static int count = 0;
    location_ = std::string(GetParam().scheme) == "file" ? dir_.path() : "conformance-" + std::to_string(count++);
    auto store = open_store(std::string(GetParam().scheme) + "://" + location_);
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    store_ = *store;
  }
  Bytes read(const Object& object) {
    Bytes bytes(object.size_bytes);
    if (object.memory != nullptr) {
      std::copy_n(object.memory, bytes.size(), bytes.begin());
    } else {
      EXPECT_EQ(::pread(object.fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    return bytes;
  }
  support::TempDir dir_;
  std::string location_;
  std::shared_ptr<Store> store_;
};

TEST_P(Conformance, KeepsWhatWasPut) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{3'000'001}}) {
    const std::string key = "a/b/c" + std::to_string(size);
    const auto bytes = pattern(size, size);
    ASSERT_TRUE(store_->put(key, bytes).ok());
    auto got = store_->get(key, size);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(*got, bytes);
    Object object;
    ASSERT_TRUE(store_->open(key, object).ok());
    EXPECT_TRUE(object.is_open());
    EXPECT_NE(object.fd >= 0, object.memory != nullptr) << "exactly one of the two";
    EXPECT_EQ(object.size_bytes, size);
    EXPECT_EQ(read(object), bytes);
  }
}

TEST_P(Conformance, PutReplacesAndAnOpenObjectKeepsItsBytes) {
  ASSERT_TRUE(store_->put("x", pattern(1000, 1)).ok());
  Object object;
  ASSERT_TRUE(store_->open("x", object).ok());
  ASSERT_TRUE(store_->put("x", pattern(2000, 2)).ok());
  EXPECT_EQ(read(object), pattern(1000, 1));
  ASSERT_TRUE(store_->open("x", object).ok());
  EXPECT_EQ(read(object), pattern(2000, 2));
}

TEST_P(Conformance, SaysNotFoundOfWhatIsNotThere) {
  ASSERT_TRUE(store_->put("dir/file", pattern(10)).ok());
  for (const std::string key : {"nothing", "dir/nothing", "no/such/dir", "dir/file/below"}) {
    Object object;
    EXPECT_EQ(store_->open(key, object).code(), Code::kNotFound) << key;
    EXPECT_FALSE(object.is_open());
    const auto got = store_->get(key, 100);
    EXPECT_EQ(got.status().code(), Code::kNotFound) << key;
    EXPECT_EQ(got.status().key(), key);
    EXPECT_EQ(store_->list(key).status().code(), Code::kNotFound) << key;
  }
}

TEST_P(Conformance, RefusesObjectsAboveTheLimit) {
  ASSERT_TRUE(store_->put("x", pattern(1000)).ok());
  EXPECT_TRUE(store_->get("x", 1000).ok());
  const auto got = store_->get("x", 999);
  EXPECT_EQ(got.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(got.status().key(), "x");
}

TEST_P(Conformance, ListsDirectChildrenSorted) {
  for (const char* key : {"g/b/1", "g/b/2", "g/a", "g/c/x/y", "top", "g/b.c", "g/b-"})
    ASSERT_TRUE(store_->put(key, {}).ok());
  auto entries = store_->list("g");
  ASSERT_TRUE(entries.ok()) << entries.status().to_string();
  std::string text;
  for (const Entry& entry : *entries) text += entry.name + (entry.is_directory ? "/ " : " ");
  EXPECT_EQ(text, "a b/ b- b.c c/ ");
  entries = store_->list("");
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "g");
  EXPECT_EQ((*entries)[1].name, "top");
  EXPECT_EQ(store_->list("top").status().code(), Code::kNotFound);
}

TEST_P(Conformance, ANameIsAnObjectOrADirectory) {
  ASSERT_TRUE(store_->put("a", {}).ok());
  const Status below = store_->put("a/b", {});
  EXPECT_FALSE(below.ok());
  EXPECT_NE(below.code(), Code::kNotFound);
  ASSERT_TRUE(store_->put("d/e", {}).ok());
  EXPECT_FALSE(store_->put("d", {}).ok());
  EXPECT_TRUE(store_->get("a", 10).ok());
  EXPECT_TRUE(store_->get("d/e", 10).ok());
}

std::vector<std::string> hostile_keys() {
  std::vector<std::string> keys = {"",
                                   "/",
                                   "//",
                                   "/etc/passwd",
                                   "//etc/passwd",
                                   ".",
                                   "..",
                                   "./x",
                                   "../x",
                                   "x/..",
                                   "x/.",
                                   "x/../y",
                                   "x/./y",
                                   "x//y",
                                   "x/",
                                   "/x",
                                   "x/../../etc/passwd",
                                   "../../../../etc/passwd",
                                   "a/b/../../../c",
                                   "\\",
                                   "..\\x",
                                   "a\\b",
                                   "a\\..\\b",
                                   "C:\\x",
                                   "\\\\server\\share",
                                   std::string("a\0b", 3),
                                   std::string("\0", 1),
                                   std::string("a/\0", 3),
                                   std::string("..\0", 3),
                                   std::string(256, 'a'),
                                   std::string(300, 'a') + "/b",
                                   "b/" + std::string(256, 'x'),
                                   std::string(5000, 'a'),
                                   "a/" + std::string(5000, '/')};
  std::string deep = "d";
  while (deep.size() <= 4096) deep += "/d";
  keys.push_back(deep);
  for (const char* part : {"..", ".", ""}) {
    for (const char* pattern : {"a/%s/b", "%s/a/b", "a/b/%s", "a/%s/%s/b", "%s/%s"}) {
      char text[64];
      std::snprintf(text, sizeof text, pattern, part, part);
      keys.emplace_back(text);
    }
  }
  for (int i = 1; i < 20; ++i) {
    std::string up;
    for (int k = 0; k < i; ++k) up += "../";
    keys.push_back(up + "etc/passwd");
  }
  return keys;
}

TEST_P(Conformance, RefusesHostileKeys) {
  const auto keys = hostile_keys();
  ASSERT_GE(keys.size(), 60u);
  for (const std::string& key : keys) {
    Object object;
    EXPECT_EQ(store_->open(key, object).code(), Code::kInvalidArgument) << key;
    EXPECT_FALSE(object.is_open());
    EXPECT_EQ(store_->get(key, 1000).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store_->put(key, {}).code(), Code::kInvalidArgument) << key;
    if (!key.empty()) {
      EXPECT_EQ(store_->list(key).status().code(), Code::kInvalidArgument) << key;
    }
  }
  EXPECT_TRUE(store_->list("")->empty());
}

TEST_P(Conformance, OddButValidKeysAreJustNames) {
  // Nothing is decoded or expanded on the way.
  for (const std::string key : {"%2e%2e",
                                "%2e/x%2fy",
                                "...",
                                "..a",
                                "a..",
                                " ",
                                "~",
                                "$HOME",
                                "a b",
                                "*",
                                "-rf",
                                "a:b",
                                "\xc3\xa9t\xc3\xa9",
                                "e\xcc\x81",
                                "\xff\xfe",
                                "a\nb",
                                ".zarray",
                                ".hidden/.x",
                                "con",
                                "NUL"}) {
    ASSERT_TRUE(store_->put(key, pattern(10, key.size())).ok()) << key;
    const auto got = store_->get(key, 10);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(*got, pattern(10, key.size()));
  }
  const std::string longest(255, 'n');
  EXPECT_TRUE(store_->put(longest + "/" + longest, {}).ok());
}

TEST_P(Conformance, ManyThreadsPutAndGet) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string key = "k/" + std::to_string(i % 10);
        const auto size = static_cast<std::size_t>(100 + (i * 7 + t) % 50);
        ASSERT_TRUE(store_->put(key, pattern(size, size)).ok());
        const auto got = store_->get(key, 1000);
        ASSERT_TRUE(got.ok()) << got.status().to_string();
        ASSERT_EQ(*got, pattern(got->size(), got->size())) << "neither the old object nor the new one";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Store, Conformance, ::testing::ValuesIn(stores().begin(), stores().end()),
                         [](const auto& row) { return std::string(row.param.scheme); });

}  // namespace

void PrintTo(const StoreRow& row, std::ostream* out) { *out << row.scheme; }

}  // namespace headrace::store

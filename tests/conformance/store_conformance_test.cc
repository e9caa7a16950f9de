// Every store returns what it was filled with, reports "not found" only for missing objects, and opens nothing for a
// hostile key. Writable stores keep what is put.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "store/file_offers.h"
#include "store/store.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace::store {
namespace {

using support::pattern;
using testing::Objects;
using testing::StoreUnderTest;

class StoreConformance : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  // Replaces store_ by a store filled with these objects.
  void fill(const Objects& objects) {
    store_.reset();
    directory_ = std::make_unique<support::TempDir>();
    const std::string url = GetParam().fill(directory_->path(), objects);
    ASSERT_FALSE(url.empty());
    auto store = testing::open_filled(url);
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    store_ = *store;
  }
  Bytes read(const ByteSource& object) {
    Bytes bytes(object.size_bytes());
    if (object.offers(store::Offer::kWhole)) {
      os::PageBuffer scratch;
      EXPECT_TRUE(store_->unpack(object, bytes, scratch).ok());
    } else if (object.offers(store::Offer::kRanges)) {
      EXPECT_TRUE(object.read(0, bytes).ok());
    } else if (object.offers(store::Offer::kMemory)) {
      std::copy_n(object.memory(), bytes.size(), bytes.begin());
    } else {
      EXPECT_EQ(::pread(object.file().fd, bytes.data(), bytes.size(), static_cast<off_t>(object.file().begin)),
                static_cast<ssize_t>(bytes.size()));
      EXPECT_TRUE(object.check_whole(bytes).ok());
    }
    return bytes;
  }
  // Opens an object and measures it.
  Status open(std::string_view key, ByteSource& object) {
    HEADRACE_TRY(store_->open(key, object));
    if (!object.offers(Offer::kRanges)) return {};
    EXPECT_EQ(object.size_bytes(), ByteSource::kUnknown);
    Status status = object.measure();
    if (!status.ok()) object.close();
    return status;
  }
  std::unique_ptr<support::TempDir> directory_;
  std::shared_ptr<Store> store_;
};

class Writing : public StoreConformance {};

TEST_P(StoreConformance, ReturnsStoredObjects) {
  Objects objects;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{3'000'001}}) {
    objects["a/b/c" + std::to_string(size)] = pattern(size, size);
  }
  objects["a/zeros"] = Bytes(100'000);
  fill(objects);
  for (const auto& [key, bytes] : objects) {
    SCOPED_TRACE(key);
    auto got = store_->get(key, bytes.size());
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(*got, bytes);
    ByteSource object;
    ASSERT_TRUE(open(key, object).ok());
    EXPECT_TRUE(object.is_open());
    EXPECT_EQ(object.file().fd >= 0, object.offers(Offer::kFile));
    EXPECT_EQ(object.memory() != nullptr, object.offers(Offer::kMemory)) << "not null for an empty one either";
    EXPECT_EQ(object.size_bytes(), bytes.size());
    EXPECT_EQ(read(object), bytes);
    const ByteSource moved = std::move(object);
    EXPECT_FALSE(object.is_open());
    EXPECT_EQ(read(moved), bytes);
  }
  if (GetParam().lists) {
    EXPECT_EQ(testing::objects_of(*store_), objects);
  }
}

TEST_P(StoreConformance, ReadsRanges) {
  fill({{"x", pattern(10'000, 1)}});
  ByteSource object;
  ASSERT_TRUE(open("x", object).ok());
  if (object.offers(store::Offer::kWhole)) return;
  const Bytes whole = pattern(10'000, 1);
  for (const auto& [offset, length] : {std::pair{0, 10'000}, {1, 1}, {4096, 5904}, {10'000, 0}, {9'999, 1}}) {
    Bytes part(static_cast<std::size_t>(length));
    ASSERT_TRUE(object.read(static_cast<std::uint64_t>(offset), part).ok());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + offset));
  }
  Bytes one(1), two(2);
  EXPECT_EQ(object.read(10'000, one).code(), Code::kShort);
  EXPECT_EQ(object.read(9'999, two).code(), Code::kShort);
  EXPECT_EQ(object.read(~std::uint64_t{0}, two).code(), Code::kShort);
}

// Reopening by path and opening with O_DIRECT give the same file that is open.
TEST_P(StoreConformance, ReopeningGivesTheSameFile) {
  fill({{"a/x", pattern(10'000, 1)}, {"y", pattern(20'000, 2)}});
  FileOffers* const files = store_->files();
  for (const std::string key : {"a/x", "y"}) {
    SCOPED_TRACE(key);
    ByteSource object;
    ASSERT_TRUE(open(key, object).ok());
    if (!object.offers(Offer::kFile)) {
      EXPECT_TRUE(files == nullptr || files->open_direct(key, object).status().code() == Code::kUnsupported);
      continue;
    }
    ASSERT_NE(files, nullptr);
    struct stat opened {
    }, found{};
    ASSERT_EQ(::fstat(object.file().fd, &opened), 0);
    const auto is_that = [&] { return found.st_dev == opened.st_dev && found.st_ino == opened.st_ino; };
    std::string path;
    ASSERT_TRUE(files->local_path(key, path));
    EXPECT_TRUE(::stat(path.c_str(), &found) == 0 && is_that()) << path;
    if (const auto direct = files->open_direct(key, object); direct.ok()) {
      EXPECT_TRUE(::fstat(*direct, &found) == 0 && is_that());
      EXPECT_NE(::fcntl(*direct, F_GETFL) & O_DIRECT, 0);
      ::close(*direct);
    } else {
      EXPECT_EQ(direct.status().code(), Code::kUnsupported) << direct.status().to_string();
    }
  }
}

TEST_P(StoreConformance, ReportsMissingObjectsAsNotFound) {
  fill({{"dir/file", pattern(10)}});
  for (const std::string key : {"nothing", "dir/nothing", "no/such/dir", "dir/file/below"}) {
    ByteSource object;
    EXPECT_EQ(open(key, object).code(), Code::kNotFound) << key;
    EXPECT_FALSE(object.is_open());
    const auto got = store_->get(key, 100);
    EXPECT_EQ(got.status().code(), Code::kNotFound) << key;
    EXPECT_EQ(got.status().key(), key);
    EXPECT_EQ(store_->list(key).status().code(), GetParam().lists ? Code::kNotFound : Code::kUnsupported) << key;
  }
}

TEST_P(StoreConformance, RefusesObjectsAboveTheLimit) {
  fill({{"x", pattern(1000)}});
  EXPECT_TRUE(store_->get("x", 1000).ok());
  const auto got = store_->get("x", 999);
  EXPECT_EQ(got.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(got.status().key(), "x");
}

TEST_P(StoreConformance, ListsDirectChildrenSorted) {
  Objects objects;
  for (const char* key : {"g/b/1", "g/b/2", "g/a", "g/c/x/y", "top", "g/b.c", "g/b-"}) objects[key] = {};
  fill(objects);
  auto entries = store_->list("g");
  if (!GetParam().lists) {
    EXPECT_EQ(entries.status().code(), Code::kUnsupported);
    return;
  }
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

TEST_P(Writing, ReplacesAndAnOpenObjectKeepsItsBytes) {
  fill({});
  ASSERT_TRUE(store_->put("x", pattern(1000, 1)).ok());
  ByteSource object;
  ASSERT_TRUE(open("x", object).ok());
  ASSERT_TRUE(store_->put("x", pattern(2000, 2)).ok());
  EXPECT_EQ(read(object), pattern(1000, 1));
  ASSERT_TRUE(open("x", object).ok());
  EXPECT_EQ(read(object), pattern(2000, 2));
}

TEST_P(Writing, ANameIsAnObjectOrADirectory) {
  fill({});
  ASSERT_TRUE(store_->put("a", {}).ok());
  const Status below = store_->put("a/b", {});
  EXPECT_FALSE(below.ok());
  EXPECT_NE(below.code(), Code::kNotFound);
  ASSERT_TRUE(store_->put("d/e", {}).ok());
  EXPECT_FALSE(store_->put("d", {}).ok());
  EXPECT_TRUE(store_->get("a", 10).ok());
  EXPECT_TRUE(store_->get("d/e", 10).ok());
}

TEST_P(StoreConformance, PutsOrReportsReadOnly) {
  fill({{"x", pattern(10)}});
  const Status status = store_->put("y", pattern(10));
  if (GetParam().writable) {
    EXPECT_TRUE(status.ok()) << status.to_string();
  } else {
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_EQ(status.key(), "y");
    EXPECT_EQ(store_->get("y", 10).status().code(), Code::kNotFound);
  }
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

TEST_P(StoreConformance, RefusesHostileKeys) {
  const auto keys = hostile_keys();
  ASSERT_GE(keys.size(), 60u);
  Objects objects;
  if (!GetParam().writable) {
    // The store is a file written by an untrusted party: it may contain objects of these very names.
    for (const std::string& key : keys) {
      if (!key.empty()) objects[key] = pattern(10);
    }
  }
  fill(objects);
  for (const std::string& key : keys) {
    ByteSource object;
    EXPECT_EQ(open(key, object).code(), Code::kInvalidArgument) << key;
    EXPECT_FALSE(object.is_open());
    EXPECT_EQ(store_->get(key, 1000).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store_->put(key, {}).code(), Code::kInvalidArgument) << key;
    if (!key.empty()) {
      EXPECT_EQ(store_->list(key).status().code(), Code::kInvalidArgument) << key;
    }
  }
  if (!GetParam().lists) return;
  const auto entries = store_->list("");
  ASSERT_TRUE(entries.ok());
  for (const Entry& entry : *entries) {
    // ZIP entries "x/" and "a/b/" are folders.
    EXPECT_TRUE(entry.is_directory && (entry.name == "x" || entry.name == "a")) << entry.name;
  }
}

TEST_P(StoreConformance, OddButValidKeysAreJustNames) {
  // The store neither decodes, expands nor normalises keys.
  Objects objects;
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
                                "\xc3\xa9",
                                "\xff\xfe",
                                "a\nb",
                                ".zarray",
                                ".hidden/.x",
                                "con",
                                "NUL",
                                "{{x}}",
                                "?root=x",
                                "a\tb",
                                "\xe2\x80\xae"}) {
    if (key == "\xff\xfe" && !GetParam().any_bytes) continue;
    objects[key] = pattern(10, key.size());
  }
  const std::string longest(255, 'n');
  objects[longest + "/" + longest] = {};
  fill(objects);
  for (const auto& [key, bytes] : objects) {
    const auto got = store_->get(key, 10);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(*got, bytes);
  }
  if (!GetParam().lists) return;
  EXPECT_EQ(testing::objects_of(*store_), objects);
}

TEST_P(StoreConformance, ManyThreadsGet) {
  Objects objects;
  for (int i = 0; i < 50; ++i) objects["k/" + std::to_string(i)] = pattern(static_cast<std::size_t>(100 + i * 37), 5);
  fill(objects);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, &objects, t] {
      int turn = t;
      for (const auto& [key, bytes] : objects) {
        const auto got = store_->get(key, 10'000);
        ASSERT_TRUE(got.ok()) << got.status().to_string();
        ASSERT_EQ(*got, bytes);
        if (GetParam().lists && ++turn % 4 == 0) {
          ASSERT_EQ(store_->list("k")->size(), objects.size());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Writing, ManyThreadsPutAndGet) {
  fill({});
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

const auto kName = [](const auto& row) { return std::string(row.param.name); };

std::vector<StoreUnderTest> writable_stores() {
  std::vector<StoreUnderTest> rows;
  for (const StoreUnderTest& row : testing::stores_under_test()) {
    if (row.writable) rows.push_back(row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Store, StoreConformance, ::testing::ValuesIn(testing::all_stores_under_test()), kName);
INSTANTIATE_TEST_SUITE_P(Store, Writing, ::testing::ValuesIn(writable_stores()), kName);

TEST(Stores, EveryOneInTheTableIsTested) {
  std::set<std::string> tested;
  for (const StoreUnderTest& row : testing::all_stores_under_test()) {
    const std::string name = row.name;
    tested.insert(name.substr(0, name.find('_')));
  }
  const bool without_http = testing::remote_stores_under_test().empty();
  const std::set<std::string> remote = {"http", "https", "s3", "gs", "gcs", "az", "abfs", "abfss"};
  for (const StoreRow& row : stores()) {
    const std::string scheme = row.scheme;
    if (without_http && remote.contains(scheme)) continue;
    EXPECT_TRUE(tested.contains(scheme)) << scheme;
  }
}

}  // namespace
}  // namespace headrace::store

// ZIP files written by other tools are read; malformed and malicious ones are rejected with a specific error.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "store/file_offers.h"
#include "store/store.h"
#include "support/http_server.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"

namespace headrace::store {
namespace {

using support::pattern;
using testing::ZipEnd;
using testing::ZipRecord;
using testing::ZipWriter;

// The parameter: whether archives are on a server.
class ZipArchive : public ::testing::TestWithParam<bool> {
 protected:
  ~ZipArchive() override {
    if (fd_ >= 0) ::close(fd_);
  }
  void SetUp() override {
    if (GetParam() && testing::remote_stores_under_test().empty()) GTEST_SKIP() << "this build has no libcurl";
  }
  Result<std::shared_ptr<Store>> open(const Bytes& archive) {
    if (GetParam())
      return open_store(testing::serve_objects("zip", {{"x.zip", archive}}, testing::ObjectStyle::kPlain) + "/x.zip");
    // In memory, since some tests write thousands of archives.
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::memfd_create("archive", MFD_CLOEXEC);
    EXPECT_EQ(::write(fd_, archive.data(), archive.size()), static_cast<ssize_t>(archive.size()));
    return open_store("zip:///proc/self/fd/" + std::to_string(fd_));
  }
  // Writes an entry "x" altered by `options` and returns the status of get().
  Status get_changed(const ZipWriter::Options& options, const Bytes& bytes = pattern(5000, 1)) {
    ZipWriter writer;
    writer.add("before", pattern(100));
    writer.add("x", bytes, options);
    writer.pad(10);
    writer.add("z", pattern(100));
    auto store = open(writer.finish());
    if (!store.ok()) return store.status();
    EXPECT_TRUE((*store)->get("before", 100).ok());
    const auto got = (*store)->get("x", 1 << 20);
    if (!got.ok()) {
      ByteSource object;
      // Opening an object of a server makes no request.
      EXPECT_TRUE(got.status().code() == Code::kCorrupt || !(*store)->open("x", object).ok() ||
                  object.offers(Offer::kRanges));
      EXPECT_EQ(got.status().key(), "x");
    } else {
      EXPECT_EQ(*got, bytes);
    }
    return got.status();
  }
  static void expect(const Status& status, Code code, const char* words) {
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
  }
  support::TempDir dir_;
  int fd_ = -1;
};
INSTANTIATE_TEST_SUITE_P(All, ZipArchive, ::testing::Bool(),
                         [](const auto& remote) { return remote.param ? "remote" : "local"; });

class ZipStoreTest : public ::testing::Test {
 protected:
  support::TempDir dir_;
};

TEST_P(ZipArchive, FormsThatWritersUse) {
  for (const bool deflate : {false, true}) {
    for (const bool descriptor : {false, true}) {
      for (const bool zip64 : {false, true}) {
        for (const std::size_t size : {0, 1, 100, 100'000}) {
          EXPECT_TRUE(get_changed({deflate, descriptor, zip64, "a comment"}, pattern(size, 3)).ok());
        }
      }
    }
  }
  // ZIP64 in only one of the two headers; padding after extra fields, as zipalign writes it; unknown extra fields.
  EXPECT_TRUE(get_changed({.change = [](ZipRecord& r) { r.zip64 = true; }}).ok());
  EXPECT_TRUE(get_changed({.change = [](ZipRecord& r) { r.local_zip64 = true; }}).ok());
  EXPECT_TRUE(get_changed({.change = [](ZipRecord& r) { r.local_extra = std::string(3, '\0'); }}).ok());
  EXPECT_TRUE(get_changed({.change = [](ZipRecord& r) { r.extra = std::string("UT\5\0\1\2\3\4\5", 9); }}).ok());
  // Descriptor bit set although the sizes are known.
  EXPECT_TRUE(get_changed({.descriptor = true,
                           .change =
                               [](ZipRecord& r) {
                                 r.local_size = r.size;
                                 r.local_packed = r.packed;
                                 r.local_crc32 = r.crc32;
                               }})
                  .ok());
}

TEST_P(ZipArchive, EndRecords) {
  for (const bool zip64 : {false, true}) {
    ZipWriter writer;
    writer.add("x", pattern(10));
    auto store = open(writer.finish([&](ZipEnd& end) {
      end.zip64 = zip64;
      // A comment that looks like an end record.
      end.comment = std::string("PK\5\6", 4) + std::string(18, '\0') + "more";
    }));
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    EXPECT_TRUE((*store)->get("x", 10).ok());
  }
  auto empty = open(ZipWriter().finish());
  ASSERT_TRUE(empty.ok()) << empty.status().to_string();
  EXPECT_TRUE((*empty)->list("")->empty());
  EXPECT_EQ((*empty)->get("x", 1).status().code(), Code::kNotFound);
}

TEST_P(ZipArchive, OfEqualNamesTheLastCounts) {
  ZipWriter writer;
  writer.add("x", pattern(10, 1));
  writer.add("y", pattern(10, 2));
  writer.add("x", pattern(20, 3), {.deflate = true});
  writer.add("x", pattern(30, 4));
  // The order of the directory counts, not that of the data.
  std::swap(writer.records()[2], writer.records()[3]);
  auto store = open(writer.finish()).value();
  EXPECT_EQ(*store->get("x", 100), pattern(20, 3));
  EXPECT_EQ(*store->get("y", 100), pattern(10, 2));
  EXPECT_EQ(store->list("")->size(), 2u);
}

TEST_F(ZipStoreTest, FoldersAndPathsThatGoOnInside) {
  ZipWriter writer;
  writer.add_text("empty/", "");
  writer.add_text("data.zarr/", "");
  writer.add("data.zarr/g/a", pattern(10, 1));
  writer.add("data.zarr/g/b/c", pattern(10, 2), {.deflate = true});
  writer.add("data.zarrx/g", pattern(10, 3));
  const Bytes archive = writer.finish();
  ASSERT_TRUE(support::write_file(dir_ / "a.zip", archive));
  for (const std::string prefix : {"", "file://", "zip://"}) {
    auto root = open_store(prefix + (dir_ / "a.zip"));
    ASSERT_TRUE(root.ok()) << root.status().to_string();
    EXPECT_EQ((*root)->url(), "zip://" + (dir_ / "a.zip"));
    EXPECT_EQ(*(*root)->get("data.zarr/g/a", 10), pattern(10, 1));
    EXPECT_EQ((*root)->list("")->size(), 3u);
    EXPECT_TRUE((*root)->list("empty")->empty());
    auto inside = open_store(prefix + (dir_ / "a.zip/data.zarr/"));
    ASSERT_TRUE(inside.ok()) << inside.status().to_string();
    EXPECT_EQ((*inside)->url(), "zip://" + (dir_ / "a.zip/data.zarr"));
    EXPECT_EQ(*(*inside)->get("g/b/c", 10), pattern(10, 2));
    EXPECT_EQ((*inside)->list("")->size(), 1u);
    EXPECT_EQ(*(*open_store(prefix + (dir_ / "a.zip/data.zarr/g/b")))->get("c", 10), pattern(10, 2));
    EXPECT_TRUE(open_store(prefix + (dir_ / "a.zip/empty")).ok());
    EXPECT_EQ(open_store(prefix + (dir_ / "a.zip/none")).status().code(), Code::kNotFound);
    EXPECT_EQ(open_store(prefix + (dir_ / "a.zip/data")).status().code(), Code::kNotFound);
    EXPECT_EQ(open_store(prefix + (dir_ / "a.zip/data.zarr/g/a")).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(open_store(prefix + (dir_ / "a.zip/../a.zip")).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(open_store(prefix + (dir_ / "no.zip/g")).status().code(), Code::kNotFound);
  }
  EXPECT_EQ(open_store("zip://" + dir_.path()).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0644), 0);
  EXPECT_EQ(open_store("zip://" + (dir_ / "fifo")).status().code(), Code::kInvalidArgument);
}

TEST_P(ZipArchive, WhatCannotBeReadIsNamed) {
  const auto both = [](std::uint16_t flags, std::uint16_t method) {
    return ZipWriter::Options{.change = [=](ZipRecord& r) {
      r.flags = r.local_flags = static_cast<std::uint16_t>(r.flags | flags);
      r.method = r.local_method = method;
    }};
  };
  expect(get_changed(both(1, 0)), Code::kUnsupported, "encrypted");
  expect(get_changed(both(1, 8)), Code::kUnsupported, "encrypted");
  expect(get_changed(both(0, 99)), Code::kUnsupported, "encrypted");
  expect(get_changed(both(1 << 6, 0)), Code::kUnsupported, "encrypted");
  expect(get_changed(both(1 << 13, 0)), Code::kUnsupported, "encrypted");
  expect(get_changed(both(1 << 5, 0)), Code::kUnsupported, "patched");
  expect(get_changed(both(0, 9)), Code::kUnsupported, "Deflate64");
  expect(get_changed(both(0, 12)), Code::kUnsupported, "bzip2");
  expect(get_changed(both(0, 14)), Code::kUnsupported, "LZMA");
  expect(get_changed(both(0, 93)), Code::kUnsupported, "Zstandard");
  expect(get_changed(both(0, 77)), Code::kUnsupported, "method 77");
  expect(get_changed({.change = [](ZipRecord& r) { r.disk = 1; }}), Code::kUnsupported, "several files");
  ZipWriter writer;
  expect(open(writer.finish([](ZipEnd& end) { end.disk = 1; })).status(), Code::kUnsupported, "several files");
}

TEST_P(ZipArchive, HeadersThatContradictTheDirectory) {
  expect(get_changed({.change = [](ZipRecord& r) { r.local_name = "y"; }}), Code::kCorrupt,
         "the name in the local header differs");
  expect(get_changed({.change = [](ZipRecord& r) { r.local_name = "xx"; }}), Code::kCorrupt,
         "the name in the local header differs");
  expect(get_changed({.change = [](ZipRecord& r) { r.local_flags |= 1; }}), Code::kCorrupt,
         "the set of flags in the local header differs");
  expect(get_changed({.change = [](ZipRecord& r) { r.local_method = 8; }}), Code::kCorrupt,
         "the method in the local header differs");
  expect(get_changed({.change = [](ZipRecord& r) { ++r.local_size; }}), Code::kCorrupt,
         "the size in the local header differs");
  expect(get_changed({.change = [](ZipRecord& r) { ++r.local_packed; }}), Code::kCorrupt,
         "the packed size in the local header differs");
  expect(get_changed({.change = [](ZipRecord& r) { ++r.local_crc32; }}), Code::kCorrupt,
         "the CRC-32 in the local header differs");
  expect(get_changed({.change = [](ZipRecord& r) { r.header_at += 1; }}), Code::kCorrupt, "no local header");
  // The extra field of the last entry reaches into the directory.
  ZipWriter writer;
  writer.add("x", {}, {.change = [](ZipRecord& r) { r.local_extra = std::string(4, '\0'); }});
  Bytes archive = writer.finish();
  archive[28] = std::byte{200};
  auto store = open(archive);
  ASSERT_TRUE(store.ok());
  expect((*store)->get("x", 10).status(), Code::kCorrupt, "runs into the central directory");
}

TEST_P(ZipArchive, LyingSizesAndChecksums) {
  for (const bool deflate : {false, true}) {
    const auto both = [&](auto change) { return ZipWriter::Options{.deflate = deflate, .change = change}; };
    expect(get_changed(both([](ZipRecord& r) { r.crc32 ^= 1, r.local_crc32 ^= 1; })), Code::kCorrupt, "CRC-32");
    for (const int by : {-1, 1}) {
      const Status status = get_changed(both([by](ZipRecord& r) {
        r.size += static_cast<std::uint64_t>(by);
        r.local_size = r.size;
      }));
      expect(status, Code::kCorrupt, deflate ? "unpacks to" : "two sizes");
    }
  }
  const auto lie = [](std::uint64_t packed, std::uint64_t size) {
    return ZipWriter::Options{.deflate = true, .zip64 = true, .change = [=](ZipRecord& r) {
                                if (packed != 0) r.packed = r.local_packed = packed;
                                r.size = r.local_size = size;
                              }};
  };
  expect(get_changed(lie(0, std::uint64_t{1} << 40)), Code::kCorrupt, "cannot hold");
  expect(get_changed(lie(0, ~std::uint64_t{0})), Code::kCorrupt, "cannot hold");
  expect(get_changed(lie(std::uint64_t{1} << 62, 10)), Code::kCorrupt, "does not lie before");
  expect(get_changed(lie(~std::uint64_t{0}, 10)), Code::kCorrupt, "does not lie before");
  // Megabytes of zeros: rejected by the limit, before memory is allocated.
  const Bytes zeros(64 << 20);
  ZipWriter writer;
  writer.add("x", zeros, {.deflate = true});
  auto store = open(writer.finish()).value();
  EXPECT_EQ(store->get("x", 4000).status().code(), Code::kResourceExhausted);
  ByteSource object;
  ASSERT_TRUE(store->open("x", object).ok());
  EXPECT_EQ(object.size_bytes(), zeros.size()) << "known before anything is unpacked";
  // Far more packed bytes than any compressor writes.
  const Status fat =
      get_changed({.deflate = true, .change = [](ZipRecord& r) { r.size = r.local_size = 100; }}, pattern(400'000));
  expect(fat, Code::kUnsupported, "much more than its size");
}

TEST_P(ZipArchive, RangesThatCannotBe) {
  const auto moved = [](std::uint64_t to) {
    return ZipWriter::Options{.zip64 = true, .change = [=](ZipRecord& r) { r.header_at = to; }};
  };
  expect(get_changed(moved(1 << 20)), Code::kCorrupt, "does not lie before");
  expect(get_changed(moved(~std::uint64_t{0})), Code::kCorrupt, "does not lie before");
  expect(get_changed(moved(~std::uint64_t{0} - 10)), Code::kCorrupt, "does not lie before");
  expect(get_changed(moved(0)), Code::kCorrupt, "overlap");
  expect(get_changed(moved(20)), Code::kCorrupt, "overlap");
}

TEST_P(ZipArchive, Bombs) {
  // More entries than the old end record can count, all sharing one stream.
  ZipWriter writer;
  writer.add("1000000", pattern(10));
  for (int i = 0; i < 100'000; ++i) {
    writer.records().push_back(writer.records()[0]);
    writer.records().back().name = std::to_string(2'000'000 + i);
  }
  expect(open(writer.finish()).status(), Code::kCorrupt, "overlap");
  // Impossible entry counts, in both kinds of end record.
  for (const bool zip64 : {false, true}) {
    ZipWriter few;
    few.add("x", pattern(10));
    expect(open(few.finish([&](ZipEnd& end) {
             end.zip64 = zip64;
             end.entries = zip64 ? std::uint64_t{1} << 60 : 60'000;
           })).status(),
           Code::kCorrupt, "cannot hold");
    ZipWriter fewer;
    fewer.add("x", pattern(10));
    fewer.add("y", pattern(10));
    expect(open(fewer.finish([&](ZipEnd& end) {
             end.zip64 = zip64;
             end.entries = 1;
           })).status(),
           Code::kCorrupt, "after its 1 entries");
  }
  // A sparse file that claims to be almost all directory.
  ZipWriter none;
  const std::uint64_t hole = std::uint64_t{1} << 40;
  const Bytes end = none.finish([&](ZipEnd& e) {
    e.zip64 = true;
    e.directory_at = 0;
    e.directory_bytes = hole;
    e.entries = hole / 46;
  });
  const int fd = ::open((dir_ / "sparse.zip").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  ASSERT_GE(fd, 0);
  Bytes placed = end;  // the ZIP64 record follows the hole
  std::memcpy(placed.data() + 56 + 8, &hole, 8);
  if (::ftruncate(fd, static_cast<off_t>(hole)) == 0) {
    ASSERT_EQ(::pwrite(fd, placed.data(), placed.size(), static_cast<off_t>(hole)),
              static_cast<ssize_t>(placed.size()));
    expect(open_store("zip://" + (dir_ / "sparse.zip")).status(), Code::kCorrupt, "no entry");
  }
  ::close(fd);
}

TEST_P(ZipArchive, EveryTruncationAndEveryChangedByte) {
  ZipWriter writer;
  writer.add("x", pattern(60, 1));
  writer.add("g/y", pattern(300, 2), {.deflate = true, .descriptor = true, .zip64 = true});
  writer.add("g/z", pattern(20, 3), {.zip64 = true});
  const Bytes archive = writer.finish([](ZipEnd& end) { end.zip64 = true; });
  for (std::size_t length = 0; length < archive.size(); ++length) {
    const Status status = open(Bytes(archive.begin(), archive.begin() + static_cast<std::ptrdiff_t>(length))).status();
    ASSERT_EQ(status.code(), Code::kCorrupt) << length;
  }
  std::size_t refused = 0;
  for (std::size_t at = 0; at < archive.size(); ++at) {
    for (const int bit : {1, 0x80, 0xff}) {
      Bytes changed = archive;
      changed[at] ^= static_cast<std::byte>(bit);
      auto store = open(changed);
      if (!store.ok()) {
        EXPECT_TRUE(store.status().code() == Code::kCorrupt || store.status().code() == Code::kUnsupported);
        ++refused;
        continue;
      }
      // Whatever is returned is correct: whole objects are verified.
      for (const auto& [key, bytes] :
           {std::pair{"x", pattern(60, 1)}, {"g/y", pattern(300, 2)}, {"g/z", pattern(20, 3)}}) {
        const auto got = (*store)->get(key, 1000);
        if (got.ok()) {
          EXPECT_EQ(*got, bytes) << "byte " << at;
        } else {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 1000u);
}

TEST_P(ZipArchive, SomethingBeforeOrBehindTheArchive) {
  ZipWriter writer;
  writer.add("x", pattern(60, 1));
  const Bytes archive = writer.finish();
  Bytes behind = archive, before(10);
  behind.push_back(std::byte{0});
  before.insert(before.end(), archive.begin(), archive.end());
  expect(open(behind).status(), Code::kCorrupt, "follows the archive");
  expect(open(before).status(), Code::kCorrupt, "before or into the archive");
}

TEST_P(ZipArchive, HundredThousandEntries) {
  ZipWriter writer;
  for (int i = 0; i < 100'000; ++i)
    writer.add("c/" + std::to_string(i / 300) + "/" + std::to_string(i % 300), pattern(4, 1));
  auto store = open(writer.finish()).value();
  EXPECT_EQ(*store->get("c/333/99", 4), pattern(4, 1));
  EXPECT_EQ(store->get("c/333/100", 4).status().code(), Code::kNotFound);
  EXPECT_EQ(store->list("c")->size(), 334u);
  EXPECT_EQ(store->list("c/7")->size(), 300u);
}

TEST_F(ZipStoreTest, DirectDescriptorsAreOfTheSameFile) {
  ZipWriter writer;
  writer.pad(777);
  writer.add("x", pattern(10'000, 1));
  writer.add("d", pattern(10'000, 1), {.deflate = true});
  ASSERT_TRUE(support::write_file(dir_ / "a.zip", writer.finish()));
  auto store = open_store("zip://" + (dir_ / "a.zip")).value();
  ByteSource object;
  ASSERT_TRUE(store->open("x", object).ok());
  EXPECT_EQ(object.file().begin, 777u + 30 + 1);
  const std::size_t before = support::open_descriptors();
  auto direct = store->files()->open_direct("x", object);
  if (direct.ok()) {
    struct stat a {
    }, b{};
    EXPECT_EQ(::fstat(object.file().fd, &a), 0);
    EXPECT_EQ(::fstat(*direct, &b), 0);
    EXPECT_EQ(a.st_ino, b.st_ino);
    EXPECT_NE(::fcntl(*direct, F_GETFL) & O_DIRECT, 0);
    object.replace_descriptor(*direct);
    EXPECT_EQ(object.size_bytes(), 10'000u);
    object.close();
    EXPECT_EQ(support::open_descriptors(), before + 1) << "the store keeps one";
  } else {
    EXPECT_EQ(direct.status().code(), Code::kUnsupported);
  }
  ASSERT_TRUE(store->open("d", object).ok());
  EXPECT_EQ(store->files()->open_direct("d", object).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace headrace::store

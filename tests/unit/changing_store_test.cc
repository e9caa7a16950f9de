// Property: while a store changes, a reader gets the old elements, the new ones, or an error, and never others. Covers
// the promises of docs/reference/changing_stores.md for each cache of the library, row by row.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/file.h>
#include <headrace/group.h>
#include <headrace/variable.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include "base/fault.h"
#include "os/file_handle.h"
#include "support/file_stamps.h"
#include "support/held_write.h"
#include "support/rewritten_file.h"
#include "support/temp_dir.h"
#include "support/writer_times.h"
#include "support/zip_writer.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Numbers = std::vector<std::uint32_t>;
using support::fstat_calls;
using support::overwrite;
using support::replace;
using support::slept_ns;
using support::stamp_ns;
using support::truncate_and_rewrite;
using support::whole_seconds;
using support::write_text;

constexpr const char* kArray =
    R"({"zarr_format":3,"node_type":"array","shape":[8],"data_type":"uint32","fill_value":0,
  "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8]}},"chunk_key_encoding":{"name":"default"},
  "codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[4],
    "codecs":[{"name":"bytes","configuration":{"endian":"little"}}],
    "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}]})";

void append(std::string& out, std::uint64_t word) { out.append(reinterpret_cast<const char*>(&word), sizeof word); }

// Two chunks of four elements. All elements differ between versions, and odd versions store the chunks in the other
// order.
Numbers elements(std::uint32_t version) {
  Numbers out;
  for (std::uint32_t i = 0; i < 8; ++i) out.push_back(100 * version + 1 + i / 4);
  return out;
}

std::string shard(std::uint32_t version) {
  const Numbers values = elements(version);
  const std::string all(reinterpret_cast<const char*>(values.data()), 32);
  const bool swapped = version % 2 != 0;
  std::string out = swapped ? all.substr(16) + all.substr(0, 16) : all;
  for (const std::uint64_t at : {swapped ? 16u : 0u, swapped ? 0u : 16u}) {
    append(out, at);
    append(out, 16);
  }
  return out;
}

class ChangingStore : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { device = std::make_unique<Device>(Device::open(GetParam()).value()); }
  void TearDown() override {
    whole_seconds = false;
    stamp_ns = 0;
    base::arm_delay("transfer.read", std::chrono::microseconds(0));
    base::arm_delay("transfer.decode", std::chrono::microseconds(0));
  }
  Array open(bool revalidate) {
    OpenOptions options;
    options.revalidate = revalidate;
    return Array::open(Store::open(context, directory.path()).value(), "", options).value();
  }
  void write(std::uint32_t version) {
    write_text(directory / "zarr.json", kArray);
    write_text(path, shard(version));
  }
  Status read(const Array& array, Numbers& out) {
    auto buffer = Buffer::allocate(*device, 32).value();
    Status status = array.read({}, {buffer, array.info().dtype, {8}}, *device);
    out.assign(8, 0x55555555);
    EXPECT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.data()), 32).ok());
    return status;
  }
  void expect(const Array& array, std::uint32_t version) {
    Numbers out;
    const Status status = read(array, out);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out, elements(version));
  }
  // Starts a read and calls `change` when it has the shard's index but not yet the chunks.
  Status read_while(const Array& array, const std::function<void()>& change, Numbers& out,
                    const ReadOptions& options = {}) {
    auto buffer = Buffer::allocate(*device, 32).value();
    base::arm_delay("transfer.read", milliseconds(300));
    auto reading = array.read_async({}, {buffer, array.info().dtype, {8}}, *device, options).value();
    while (base::delays_begun() == 0 && !reading.done()) std::this_thread::sleep_for(milliseconds(1));
    change();
    Status status = reading.wait();
    base::arm_delay("transfer.read", std::chrono::microseconds(0));
    out.assign(8, 0x55555555);
    EXPECT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.data()), 32).ok());
    return status;
  }

  // Writes version 0 as a writer would whose bytes are still to come: the stamps are of its beginning, and stay.
  struct DelayedWriter {
    explicit DelayedWriter(ChangingStore& test) {
      stamp_ns = 0;
      test.write(0);
      stamp_ns = now_ns();
      std::this_thread::sleep_for(milliseconds(20));  // past the clocks' granularity
    }
    static std::int64_t now_ns() {
      return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    }
    // Whether a reader that looks now takes the stamps for settled.
    bool settled() const { return now_ns() - stamp_ns >= 100'000'000; }
  };
  static constexpr int kAttempts = 50;

  support::TempDir directory;
  const std::string path = directory / "c/0";
  Context context = Context::create().value();
  std::unique_ptr<Device> device;
};

TEST_P(ChangingStore, ShardRewrittenInPlaceIsSeenByTheNextRead) {
  for (const bool revalidate : {false, true}) {
    SCOPED_TRACE(revalidate);
    write(0);
    const Array array = open(revalidate);
    expect(array, 0);
    for (std::uint32_t version = 1; version < 20; ++version) {
      overwrite(path, shard(version));
      // Right after the change, and when it is no longer recent.
      if (version % 6 == 0) std::this_thread::sleep_for(milliseconds(150));
      expect(array, version);
    }
    truncate_and_rewrite(path, shard(21));
    expect(array, 21);
  }
}

TEST_P(ChangingStore, ReplacedShardIsSeenWithRevalidation) {
  write(0);
  const Array looks = open(true), trusts = open(false);
  expect(looks, 0);
  expect(trusts, 0);
  replace(path, shard(1));
  expect(looks, 1);
  Numbers out;
  ASSERT_TRUE(read(trusts, out).ok());
  EXPECT_TRUE(out == elements(0) || out == elements(1));
  fs::remove(path);
  ASSERT_TRUE(read(looks, out).ok());
  EXPECT_EQ(out, Numbers(8, 0));
}

TEST_P(ChangingStore, ShardRewrittenWhileItIsReadIsAnError) {
  const std::function<void()> changes[] = {[&] { overwrite(path, shard(1)); },
                                           [&] { truncate_and_rewrite(path, shard(1)); }};
  for (const auto& change : changes) {
    write(0);
    const Array array = open(true);
    Numbers out;
    const Status status = read_while(array, change, out);
    EXPECT_EQ(status.code(), Code::kAgainExhausted) << status.to_string();
    EXPECT_EQ(status.key(), "c/0");
    expect(array, 1);
    overwrite(path, shard(0));
    ReadOptions options;
    options.collect_errors = true;
    EXPECT_EQ(read_while(array, change, out, options).code(), Code::kAgainExhausted);
  }
}

// Writers that replace files do not affect a running read; nor do hard links or changes of permissions.
TEST_P(ChangingStore, ShardReplacedWhileItIsReadGivesTheOldOne) {
  const std::function<void()> changes[] = {[&] { replace(path, shard(1)); }, [&] { fs::remove(path); },
                                           [&] { ::chmod(path.c_str(), 0600); },
                                           [&] { fs::create_hard_link(path, path + ".link"); }};
  for (const auto& change : changes) {
    write(0);
    Numbers out;
    const Status status = read_while(open(false), change, out);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out, elements(0));
  }
}

// If the modification time was set back, an unchanged index proves nothing, but a changed index proves a change.
TEST_P(ChangingStore, ShardRewrittenWithItsOldTimeOfModificationIsAnError) {
  write(0);
  struct stat before;
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  Numbers out;
  const Status status = read_while(
      open(false),
      [&] {
        overwrite(path, shard(1));
        const timespec times[] = {before.st_atim, before.st_mtim};
        ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
      },
      out);
  EXPECT_EQ(status.code(), Code::kAgainExhausted) << status.to_string();
}

TEST_P(ChangingStore, ShardRewrittenWithinOneSecondOfAFileSystemThatKeepsSeconds) {
  whole_seconds = true;
  support::wait_for_second();
  write(0);
  const Array array = open(false);
  expect(array, 0);
  overwrite(path, shard(1));
  expect(array, 1);
}

// 1,000 shards written just now, on a file system whose stamps are as coarse as its clock (overlayfs is assumed to be
// no better), or have whole seconds: the reader waits for one tick for all of them, not one each.
TEST_P(ChangingStore, ManyYoungShardsAreWaitedForOnce) {
  constexpr std::size_t kShards = 1000;
  std::string document = kArray;
  document.replace(document.find("[8]"), 3, "[" + std::to_string(8 * kShards) + "]");
  for (const bool seconds : {false, true}) {
    SCOPED_TRACE(seconds);
    write_text(directory / "zarr.json", document);
    whole_seconds = seconds;
    const Array array = open(false);
    for (std::size_t i = 0; i < kShards; ++i)
      write_text(directory / ("c/" + std::to_string((i + 1) * 7 % kShards)), shard(0));
    Numbers out(8 * kShards);
    auto buffer = Buffer::allocate(*device, 4 * out.size()).value();
    base::arm_fault({.point = "base.filesystem_type", .error = -0x794c7630, .forever = true});
    slept_ns = 0;
    const Status status = array.read({}, {buffer, array.info().dtype, {out.size()}}, *device);
    const std::int64_t slept = slept_ns;
    base::disarm_faults();
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.data()), 4 * out.size()).ok());
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], elements(0)[i % 8]);
    EXPECT_LE(slept, seconds ? 3'100'000'000 : 100'000'000);
    RecordProperty(seconds ? "slept_us_seconds" : "slept_us", static_cast<int>(slept / 1000));
  }
}

// As with a server whose clock is ahead: nothing is cached, and the reader does not wait.
TEST_P(ChangingStore, ShardWithTimeStampsInTheFuture) {
  write(0);
  const timespec future[] = {{::time(nullptr) + 86400, 1}, {::time(nullptr) + 86400, 1}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), future, 0), 0);
  const Array array = open(false);
  expect(array, 0);
  for (std::uint32_t version = 1; version < 5; ++version) {
    overwrite(path, shard(version));
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), future, 0), 0);
    expect(array, version);
  }
}

// Linux stamps a file when a write call begins. The bytes may arrive later, after the index was read. Stamps settle
// within a tenth of a second: where the machine takes longer to read the index, the attempt proves nothing and is
// repeated.
TEST_P(ChangingStore, ShardOfADelayedWriterIsSeenByTheNextRead) {
  for (int attempt = 0;; ++attempt) {
    ASSERT_LT(attempt, kAttempts) << "this machine never read a shard within a tenth of a second";
    const DelayedWriter writer(*this);
    const Array array = open(false);
    expect(array, 0);
    if (writer.settled()) continue;
    overwrite(path, shard(1));
    expect(array, 1);
    std::this_thread::sleep_for(milliseconds(150));
    expect(array, 1);
    return;
  }
}

TEST_P(ChangingStore, ShardOfADelayedWriterDuringAReadIsAnError) {
  for (int attempt = 0;; ++attempt) {
    ASSERT_LT(attempt, kAttempts) << "this machine never read a shard's index within a tenth of a second";
    const DelayedWriter writer(*this);
    bool settled = false;
    Numbers out;
    const auto change = [&] {
      settled = writer.settled();
      overwrite(path, shard(1));
    };
    const Status status = read_while(open(false), change, out);
    if (settled) continue;
    EXPECT_EQ(status.code(), Code::kAgainExhausted) << status.to_string();
    return;
  }
}

// If a write call takes longer than stamps take to settle, only an array that is opened afterwards sees its end.
TEST_P(ChangingStore, ShardOfAWriterDelayedWithinOneCallIsSeenWhenOpenedAgain) {
  write(0);
  std::this_thread::sleep_for(milliseconds(150));
  expect(open(false), 0);
  support::HeldWrite writing(path, shard(1));
  if (!writing.ok()) GTEST_SKIP() << "page faults cannot be held up here";
  std::this_thread::sleep_for(milliseconds(250));
  expect(open(false), 0);
  ASSERT_EQ(writing.finish(), static_cast<ssize_t>(shard(1).size()));
  expect(open(false), 1);
}

TEST_P(ChangingStore, WriterInALoopNeverMixesChunks) {
  write(0);
  const Array arrays[] = {open(false), open(true)};
  std::atomic<bool> stop{false};
  support::WriterTimes times;
  std::thread writer([&] {
    for (std::uint32_t version = 1; !stop; ++version) {
      times.begin();
      (version % 5 == 0 ? replace : version % 3 == 0 ? truncate_and_rewrite : overwrite)(path, shard(version));
      times.end();
      std::this_thread::sleep_for(std::chrono::microseconds(version % 7 * 3000));
    }
  });
  std::size_t right = 0, refused = 0, misplaced = 0, not_judged = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    Numbers out;
    const std::int64_t started = support::WriterTimes::now();
    if (!read(arrays[(right + refused) % 2], out).ok()) {
      ++refused;
      continue;
    }
    ++right;
    bool in_place = true;
    for (std::size_t i = 0; i < 8; ++i) in_place = in_place && out[i] % 100 == 1 + i / 4;
    if (!in_place) ++(times.held_up_since(started) ? not_judged : misplaced);
  }
  stop = true;
  writer.join();
  EXPECT_GT(right, 0u);
  EXPECT_EQ(misplaced, 0u);
  ::testing::Test::RecordProperty("refused", static_cast<int>(refused));
  ::testing::Test::RecordProperty("not_judged", static_cast<int>(not_judged));
}

// The cost of revalidation: system calls per shard and read, not per chunk.
TEST_P(ChangingStore, RevalidationCostsTwoSystemCallsPerShard) {
  write(0);
  support::wait_until_unchanged();
  const Array array = open(false);
  expect(array, 0);
  Numbers out;
  const std::uint64_t before = fstat_calls;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(read(array, out).ok());
  // host-staged adds one per group for the mapping, and a few of the thread that makes it, however many are read.
  const std::uint64_t most = std::string_view(GetParam()) == "host" ? 10 * 2 : 10 * 4 + 8;
  EXPECT_LE(fstat_calls - before, most);
}

INSTANTIATE_TEST_SUITE_P(Devices, ChangingStore, ::testing::Values("host", "host-staged"),
                         [](const auto& each) { return std::string(each.param) == "host" ? "host" : "staged"; });

TEST(FileIdentityTest, StampsThatEndInZerosAreAsCoarse) {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t second = std::int64_t{now.tv_sec} * 1'000'000'000;
  const auto unsettled = [](std::int64_t modified, std::int64_t changed) {
    return os::unsettled_ns(-1, {.modified_ns = modified, .changed_ns = changed}) > 0;
  };
  EXPECT_TRUE(unsettled(second, second));
  EXPECT_TRUE(unsettled(second - 1'000'000'000, second - 1'000'000'000));  // FAT keeps even seconds only
  EXPECT_FALSE(unsettled(second - 2'000'000'000, second - 2'000'000'000));
  EXPECT_FALSE(unsettled(second - 999'999'999, second - 999'999'999));
  EXPECT_TRUE(unsettled(second + 3'000'000'001, second - 5'000'000'001));
  EXPECT_FALSE(unsettled(second - 9'000'000'000, second - 5'000'000'001));  // tar and cp -p set whole seconds
}

constexpr const char* kPlainArray =
    R"({"zarr_format":3,"node_type":"array","shape":[8],"data_type":"uint32","fill_value":0,
  "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8]}},"chunk_key_encoding":{"name":"default"},
  "codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})";

class StoreCaches : public ::testing::Test {
 protected:
  Numbers read(const Array& array) {
    Numbers out(static_cast<std::size_t>(array.info().shape[0]));
    last = array.read({}, {out, {out.size()}}, device);
    return out;
  }
  static std::string plain(std::uint32_t version) {
    const Numbers values = elements(version);
    return {reinterpret_cast<const char*>(values.data()), 32};
  }
  support::TempDir directory;
  Context context = Context::create().value();
  Device device = Device::open("host").value();
  Status last;
};

// Any change of a chunk file is seen by the next read, even if the file was unchanged for long and its descriptor is
// kept open.
TEST_F(StoreCaches, ChunkFilesAreCheckedAtEachRead) {
  write_text(directory / "zarr.json", kPlainArray);
  const Array array = Array::open(Store::open(context, directory.path()).value(), "").value();
  const std::string chunk = directory / "c/0";
  for (const bool settles : {false, true}) {
    const auto settle = [&] {
      if (settles) support::wait_until_unchanged();
    };
    const auto expect = [&](const Numbers& wanted) {
      settle();
      for (int time = 0; time < 3; ++time) EXPECT_EQ(read(array), wanted);
    };
    EXPECT_EQ(read(array), Numbers(8, 0));
    write_text(chunk, plain(0));
    expect(elements(0));
    overwrite(chunk, plain(1));
    expect(elements(1));
    replace(chunk, plain(2));
    expect(elements(2));
    truncate_and_rewrite(chunk, plain(3));
    expect(elements(3));
    fs::rename(directory / "c", directory / "old");
    write_text(chunk, plain(4));
    expect(elements(4));
    fs::resize_file(chunk, 16);
    settle();
    for (int time = 0; time < 2; ++time) {
      (void)read(array);
      EXPECT_FALSE(last.ok());
    }
    fs::resize_file(chunk, 40);
    (void)read(array);
    EXPECT_FALSE(last.ok());
    fs::remove(chunk);
    EXPECT_EQ(read(array), Numbers(8, 0));
    write_text(chunk, plain(5));
    expect(elements(5));
    fs::remove_all(directory / "c");
    EXPECT_EQ(read(array), Numbers(8, 0));
    fs::remove_all(directory / "old");
  }
}

TEST_F(StoreCaches, ArraysKeepTheirMetadata) {
  write_text(directory / "zarr.json", kPlainArray);
  const Store store = Store::open(context, directory.path()).value();
  const Array array = Array::open(store, "").value();
  write_text(directory / "c/0", plain(0));
  std::string longer = kPlainArray;
  longer.replace(longer.find("[8]"), 3, "[9]");
  write_text(directory / "zarr.json", longer);
  EXPECT_EQ(read(array), elements(0));
  EXPECT_EQ(Array::open(store, "").value().info().shape[0], 9u);
}

TEST_F(StoreCaches, ListingsAreNotCached) {
  write_text(directory / "zarr.json", R"({"zarr_format":3,"node_type":"group"})");
  const Store store = Store::open(context, directory.path()).value();
  const Group group = Group::open(store, "").value();
  EXPECT_EQ(group.members().value().size(), 0u);
  write_text(directory / "a/zarr.json", kPlainArray);
  EXPECT_EQ(group.members().value().size(), 1u);
  fs::remove_all(directory / "a");
  EXPECT_EQ(group.members().value().size(), 0u);
}

// A store stays with its directory, and a File with its file, even if something else is put under their names.
TEST_F(StoreCaches, OpenDescriptorsIgnoreReplacedNames) {
  const std::string place = directory / "store";
  write_text(place + "/zarr.json", kPlainArray);
  write_text(place + "/c/0", plain(0));
  const Array array = Array::open(Store::open(context, place).value(), "").value();
  const File file = File::open(place + "/c/0").value();
  fs::rename(place, place + ".old");
  write_text(place + "/zarr.json", kPlainArray);
  write_text(place + "/c/0", plain(1));
  EXPECT_EQ(read(array), elements(0));
  auto queue = FileQueue::create(context, device).value();
  Numbers out(8);
  const FileRange range{0, reinterpret_cast<std::byte*>(out.data()), 32};
  ASSERT_TRUE(queue.read(file, std::span(&range, 1), 0).ok());
  FileCompletion done;
  ASSERT_EQ(queue.wait({&done, 1}), 1u);
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(out, elements(0));
}

std::string zip_of(std::uint32_t version, bool swapped) {
  testing::ZipWriter writer;
  const auto bytes = [](const std::string& text) {
    return std::vector<std::byte>(reinterpret_cast<const std::byte*>(text.data()),
                                  reinterpret_cast<const std::byte*>(text.data()) + text.size());
  };
  std::string document = kPlainArray;
  const std::string_view shape = R"("shape":[8])";
  document.replace(document.find(shape), shape.size(), R"("shape":[16])");
  writer.add("zarr.json", bytes(document), {});
  for (const char* name : {swapped ? "c/1" : "c/0", swapped ? "c/0" : "c/1"}) {
    Numbers values(8);
    for (std::uint32_t i = 0; i < 8; ++i) values[i] = 100 * version + static_cast<std::uint32_t>(name[2] - '0');
    writer.add(name, std::as_bytes(std::span(values)), {});
  }
  const auto archive = writer.finish();
  return {reinterpret_cast<const char*>(archive.data()), archive.size()};
}

// Parts of chunks have no checksum, so their place must come from the right directory: a rewritten archive yields
// nothing, a replaced one the old content.
TEST_F(StoreCaches, ZipDirectoriesAreOfOneVersion) {
  const std::string place = directory / "a.zip";
  write_text(place, zip_of(0, false));
  const auto opened = [&] { return Array::open(Store::open(context, place).value(), "").value(); };
  const auto parts = [&](const Array& array) {
    Numbers out(12);
    last = array.read(parse_selection("2:14").value(), {out, {12}}, device);
    return out;
  };
  const Numbers old{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  const Array first = opened();
  EXPECT_EQ(parts(first), old);
  replace(place, zip_of(3, true));
  EXPECT_EQ(parts(first), old);
  EXPECT_TRUE(last.ok()) << last.to_string();
  const Array second = opened();
  (void)parts(second);
  EXPECT_TRUE(last.ok());
  overwrite(place, zip_of(4, false));
  (void)parts(second);
  EXPECT_EQ(last.code(), Code::kAgainExhausted) << last.to_string();
  (void)parts(opened());
  EXPECT_TRUE(last.ok());
}

}  // namespace
}  // namespace headrace

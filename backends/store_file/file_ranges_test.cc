// Files behind a disk cache: cached ranges are not read from the files again, and a replaced file is not mixed with its
// cached ranges.
#include "file_ranges.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

#include "os/signals_blocked.h"
#include "support/byte_store_testing.h"
#include "support/cached_store.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
using testing::read_range;

namespace fs = std::filesystem;

class FileRangesTest : public testing::ByteStoreTest {
 protected:
  std::string files() const { return directory_ / "files"; }
  std::string cache() const { return directory_ / "cache"; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(files());
    std::ofstream(files() + "/" + name) << text;
  }
  // Makes the file old enough that a change would show.
  void age(const std::string& name) const {
    fs::last_write_time(files() + "/" + name, fs::file_time_type::clock::now() - std::chrono::hours(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(120));  // so that its ctime is old too
  }
  std::shared_ptr<ByteStore> ranges() const {
    return store::make_file_ranges(store::open_store("file://" + files()).value());
  }
  support::TempDir directory_;
};

TEST_F(FileRangesTest, RangesMatchTheFile) {
  write("a", "0123456789");
  age("a");
  const auto store = ranges();
  const auto text = [&](std::uint64_t offset, std::size_t size, const std::string& version = "",
                        bool from_end = false) {
    const auto got = read_range(*store, "a", offset, size, version, from_end);
    return got.status.ok() ? std::string(reinterpret_cast<const char*>(got.bytes.data()), got.bytes.size())
                           : std::string(code_name(got.status.code()));
  };
  EXPECT_EQ(text(0, 10), "0123456789");
  EXPECT_EQ(text(2, 3), "234");
  EXPECT_EQ(text(7, 30), "789");
  EXPECT_EQ(text(10, 1), "");
  EXPECT_EQ(text(0, 4, "", true), "6789");
  EXPECT_EQ(text(0, 40, "", true), "0123456789");
  EXPECT_EQ(text(11, 1), code_name(Code::kShort));
  const std::string version = read_range(*store, "a", 0, 1).version;
  EXPECT_NE(version, "");
  EXPECT_EQ(text(2, 3, version), "234");
  EXPECT_EQ(text(2, 3, version + "0"), code_name(Code::kAgainExhausted));
  EXPECT_EQ(read_range(*store, "b", 0, 1).status.code(), Code::kNotFound);
  EXPECT_EQ(read_range(*store, "../cache", 0, 1).status.code(), Code::kInvalidArgument);
  fs::create_directory(files() + "/d");
  EXPECT_EQ(read_range(*store, "d", 0, 1).status.code(), Code::kIo);
  // A file that has just changed could change again without showing.
  const auto written = std::chrono::steady_clock::now();
  write("a", "abcdefghij");
  const std::string soon = read_range(*store, "a", 0, 10).version;
  const bool late = std::chrono::steady_clock::now() - written > std::chrono::milliseconds(90);  // a busy machine
  EXPECT_TRUE(soon.empty() || late) << soon;
  EXPECT_EQ(text(2, 3, version), code_name(Code::kAgainExhausted));
}

TEST_F(FileRangesTest, ManyAtATimeAndCancelled) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) {
    names.push_back("f" + std::to_string(i));
    write(names.back(), std::string(1000, static_cast<char>('a' + i % 26)));
  }
  const auto store = ranges();
  struct Ended final : RangeListener {
    void done(std::span<RangeRead* const> reads) noexcept override { count += reads.size(); }
    std::atomic<std::size_t> count{0};
  } ended;
  std::vector<std::array<std::byte, 1000>> bytes(200);
  std::vector<RangeRead> reads(200);
  std::vector<RangeRead*> all;
  for (std::size_t i = 0; i < 200; ++i) {
    reads[i].key = names[i];
    reads[i].out = bytes[i];
    reads[i].listener = &ended;
    all.push_back(&reads[i]);
  }
  ASSERT_TRUE(store->start(all).ok());
  store->cancel(std::span(all).subspan(100));
  store->cancel(all);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ended.count < 200 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_EQ(ended.count, 200u);
  for (std::size_t i = 0; i < 200; ++i) {
    if (reads[i].status.ok()) {
      EXPECT_EQ(static_cast<char>(bytes[i][999]), static_cast<char>('a' + i % 26));
    } else {
      EXPECT_EQ(reads[i].status.code(), Code::kCancelled);
    }
  }
}

TEST_F(FileRangesTest, ASecondEpochReadsNoFile) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedRaw}) {
    const FlatArray content{.layout = layout, .chunks = 40, .chunk_elements = 1000, .shard_chunks = 8};
    fs::remove_all(files());
    fs::create_directories(files());
    ASSERT_TRUE(testing::write_flat_array(*store::open_store("file://" + files()).value(), "", content).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    const std::vector<StorageOption> storage = {{"cache_dir", cache()}, {"cache_bytes", "64M"}};
    for (int session = 0; session < 2; ++session) {
      const Array array = Array::open(Store::open(context_, files(), storage).value()).value();
      for (int epoch = 0; epoch < 2; ++epoch) {
        const auto got = read(array, content);
        ASSERT_TRUE(got.status.ok()) << got.status.to_string();
        EXPECT_TRUE(got.elements == content.expected());
        if (session == 0 && epoch == 0) {
          EXPECT_EQ(got.stats.store_bytes, got.stats.read_bytes);
          cache::CacheOptions options;
          options.directory = cache();
          options.most_bytes = std::uint64_t{64} << 20;
          cache::DiskCache::open(options).value()->flush();
        } else {
          EXPECT_EQ(got.stats.store_bytes, 0u);
          EXPECT_GT(got.stats.cache_hits, 0u);
        }
      }
    }
    // The next session notices that a file was replaced.
    FlatArray other = content;
    other.seed = 2;
    ASSERT_TRUE(testing::write_flat_array(*store::open_store("file://" + files()).value(), "", other).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    const Array array = Array::open(Store::open(context_, files(), storage).value()).value();
    const auto got = read(array, other);
    ASSERT_TRUE(got.status.ok()) << got.status.to_string();
    EXPECT_TRUE(got.elements == other.expected());
  }
}

TEST_F(FileRangesTest, RejectsOptionsOfOtherStores) {
  write("a", "x");
  const auto opened = [&](const std::vector<StorageOption>& storage) {
    return Store::open(context_, files(), storage).status();
  };
  EXPECT_TRUE(opened({{"cache_dir", cache()}}).ok());
  EXPECT_TRUE(opened({{"cache_dir", "off"}}).ok());
  EXPECT_TRUE(opened({{"cache_bytes", "1G"}}).ok());  // without a cache
  EXPECT_EQ(opened({{"anon", "true"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(opened({{"cache_dir", cache()}, {"region", "x"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(opened({{"cache_dir", cache()}, {"cache_bytes", "much"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(opened({{"cache_dir", "s3://bucket"}}).code(), Code::kInvalidArgument);
}

TEST(SignalsBlocked, UntilTheScopeEndsHoweverItEnds) {
  const auto blocked = [] {
    sigset_t now;
    EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
    return ::sigismember(&now, SIGUSR1) == 1;
  };
  ASSERT_FALSE(blocked());
  bool inherited = false;
  try {
    const os::SignalsBlocked signals;
    std::thread([&] { inherited = blocked(); }).join();
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
  }
  EXPECT_TRUE(inherited);
  EXPECT_FALSE(blocked());
}

TEST_F(FileRangesTest, AForkedChildGetsAnError) {
  write("a", "x");
  const auto store = ranges();
  EXPECT_TRUE(read_range(*store, "a", 0, 1).status.ok());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(read_range(*store, "a", 0, 1).status.code() == Code::kForked ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace headrace

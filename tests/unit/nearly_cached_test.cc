// Files of which the kernel has dropped a few pages are read through the page cache, which is complete afterwards.
// Files of which it has dropped many are read with O_DIRECT the first time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "base/access.h"
#include "os/filesystem.h"
#include "os/page_cache.h"
#include "support/raw_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

constexpr std::uint64_t kChunkElements = std::uint64_t{1} << 19;  // 2 MiB
constexpr std::uint64_t kChunks = 8;

class NearlyCached : public ::testing::Test {
 protected:
  void SetUp() override {
    open(false);
    ASSERT_TRUE(testing::write_raw_array(*Access::impl(*store_), "", array_).ok());
    out_.resize(static_cast<std::size_t>(array_.elements()));
    const int fd = ::open(path(0).c_str(), O_RDONLY | O_CLOEXEC);
    const bool in_memory = os::filesystem_kind(fd).is_memory;
    const bool told = os::page_cache_share(fd, 0, 4096).witness == os::CacheWitness::kCachestat;
    ::close(fd);
    if (in_memory) GTEST_SKIP() << "temporary files are kept in memory here: nothing can be evicted";
    if (!told) GTEST_SKIP() << "the kernel has no cachestat";
  }

  void open(bool cache_reread) {
    ContextOptions options;
    options.cache_reread = cache_reread;
    store_ = Store::open(Context::create(options).value(), directory_.path()).value();
  }

  std::string path(std::uint64_t chunk) const { return directory_ / std::to_string(chunk); }

  // Puts every chunk into the page cache, except every `step`-th page.
  void cache_but(std::uint64_t step) {
    for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
      const int fd = ::open(path(chunk).c_str(), O_RDWR | O_CLOEXEC);
      std::vector<std::byte> all(kChunkElements * 4);
      ASSERT_EQ(::fsync(fd), 0);
      ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
      // Reads single pages, since a kernel that caches larger units could not drop one page.
      ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
      for (std::uint64_t page = 0; page < all.size() / 4096; ++page) {
        if (page % step == step - 1) continue;
        ASSERT_EQ(::pread(fd, all.data(), 4096, static_cast<off_t>(page * 4096)), 4096);
      }
      ::close(fd);
    }
  }

  std::uint64_t resident() const {
    std::uint64_t pages = 0;
    for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
      const int fd = ::open(path(chunk).c_str(), O_RDONLY | O_CLOEXEC);
      pages += os::page_cache_share(fd, 0, kChunkElements * 4).resident_pages;
      ::close(fd);
    }
    return pages;
  }

  Stats read() {
    auto opened = Array::open(*store_).value();
    auto device = Device::open("host").value();
    Stats stats;
    const Status status = opened.read({}, {out_, {array_.elements()}}, device, {}, &stats);
    EXPECT_TRUE(status.ok()) << status.to_string();
    for (std::uint64_t i = 0; i < out_.size(); i += 997) {
      EXPECT_EQ(out_[static_cast<std::size_t>(i)], testing::element_value(i, array_.seed));
    }
    return stats;
  }

  static constexpr std::uint64_t kPages = kChunks * kChunkElements * 4 / 4096;
  support::TempDir directory_;
  const testing::RawArray array_{
      .shape = {kChunkElements * kChunks}, .chunk = {kChunkElements}, .inner = {}, .v2 = true};
  std::optional<Store> store_;
  std::vector<std::uint32_t> out_;
};

// The kernel also drops pages on its own, even between a check and a read, so one undisturbed attempt is enough.
constexpr int kAttempts = 50;

TEST_F(NearlyCached, AFewMissingPagesAreReadIntoTheCache) {
  bool whole = false;
  for (int attempt = 0; attempt < kAttempts && !whole; ++attempt) {
    ASSERT_NO_FATAL_FAILURE(cache_but(128));
    if (resident() != kPages - kPages / 128) continue;
    whole = read().direct_bytes == 0 && resident() == kPages;
    if (!whole) continue;
    const Stats again = read();
    whole = again.direct_bytes + again.engine_bytes == 0;
  }
  EXPECT_TRUE(whole);
}

TEST_F(NearlyCached, FilesWithManyHolesAreReadPastIt) {
  bool past = false;
  for (int attempt = 0; attempt < kAttempts && !past; ++attempt) {
    ASSERT_NO_FATAL_FAILURE(cache_but(4));
    past = read().direct_bytes == kChunks * kChunkElements * 4;
  }
  EXPECT_TRUE(past);
}

TEST_F(NearlyCached, ASecondColdReadIsCachedForTheThird) {
  constexpr std::uint64_t kAll = kChunks * kChunkElements * 4;
  bool kept = false;
  for (int attempt = 0; attempt < kAttempts && !kept; ++attempt) {
    open(true);
    ASSERT_NO_FATAL_FAILURE(cache_but(4));
    const Stats first = read();
    const Stats second = read();
    const Stats third = read();
    kept = first.direct_bytes == kAll && second.direct_bytes == 0 && second.engine_bytes == kAll &&
           third.buffered_bytes == kAll;
  }
  EXPECT_TRUE(kept);
  open(false);
  ASSERT_NO_FATAL_FAILURE(cache_but(4));
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(read().direct_bytes, kAll) << pass;
}

}  // namespace
}  // namespace headrace

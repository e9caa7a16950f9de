// Router: repeated reads, files that reject direct reads, and pages that are missing after all, for each kind of user.
#include "transfer/pagecache/router.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_dir.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kGranule = ReuseTracker::kGranuleBytes;

std::atomic<std::uint64_t> g_spare{0};
std::uint64_t spare() { return g_spare; }

class RouterTest : public ::testing::Test {
 protected:
  void SetUp() override { g_spare = 100 * kGranule; }
  void TearDown() override {
    for (const int fd : open_) ::close(fd);
  }
  int file(std::uint64_t bytes) {
    const std::string path = directory_ / std::to_string(open_.size());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    open_.push_back(fd);
    return fd;
  }
  Router router(const RoutePolicy& policy) { return {policy, nullptr, mapped_, reuse_}; }

  support::TempDir directory_;
  std::vector<int> open_;
  ReuseTracker reuse_{&spare};
  MappedCache mapped_{MappedBudget{.bytes = kGranule}};
};

TEST_F(RouterTest, ASecondColdReadOfAnObjectGoesThroughTheCache) {
  Router router = this->router({});
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{5000}, kGranule, 3 * kGranule + 5}) {
    const int fd = file(bytes);
    EXPECT_TRUE(router.goes_direct(fd, 0, bytes)) << bytes;
    EXPECT_FALSE(router.goes_direct(fd, 0, bytes)) << bytes;
    EXPECT_FALSE(router.goes_direct(fd, 0, bytes)) << bytes;
  }
  // One whole granule was read, and a little of the next.
  const int fd = file(2 * kGranule);
  EXPECT_TRUE(router.goes_direct(fd, 0, kGranule + 1));
  EXPECT_TRUE(router.goes_direct(fd, 0, kGranule + 1)) << "most of it was not read before";
}

TEST_F(RouterTest, KeepsReadingDirectlyWhenConfiguredOrWithoutSpareMemory) {
  Router off = this->router({.cache_reread = false}), engine = this->router({.path = Path::kDirect});
  const int fd = file(kGranule);
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_TRUE(off.goes_direct(fd, 0, kGranule));
    EXPECT_TRUE(engine.goes_direct(fd, 0, kGranule));
  }
  g_spare = 2 * kGranule - 2;  // half of it is for kept granules
  Router full = this->router({});
  for (int pass = 0; pass < 3; ++pass) EXPECT_TRUE(full.goes_direct(fd, 0, kGranule));
}

TEST_F(RouterTest, FilesThatCannotBeIdentifiedHaveNoState) {
  Router router = this->router({});
  router.refuse_direct(-1);
  EXPECT_TRUE(router.goes_direct(-1, 0, kGranule));
  std::vector<std::shared_ptr<MappedWindow>> windows(1);
  EXPECT_EQ(router.find_windows(-1, nullptr, 0, 1, windows), nullptr);
  EXPECT_TRUE(windows.empty());
}

TEST_F(RouterTest, OnlyTheFileThatRefusesDirectReadsGivesUp) {
  Router router = this->router({.cache_reread = false});
  const int refuses = file(kGranule), other = file(kGranule);
  EXPECT_TRUE(router.goes_direct(refuses, 0, 1));
  router.refuse_direct(refuses);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(router.goes_direct(refuses, 0, 1));
    EXPECT_TRUE(router.goes_direct(other, 0, 1));
  }
  // With many such files, a forgotten one is tried, and refused, again.
  for (int i = 0; i < 300; ++i) {
    const int fd = file(1);
    router.refuse_direct(fd);
    EXPECT_FALSE(router.goes_direct(fd, 0, 1));
  }
}

TEST_F(RouterTest, MissingPagesAreCachedForObjectsAndReadDirectlyForFiles) {
  Router objects = this->router({.when_missing = Way::kPageCache}), files = this->router({});
  EXPECT_EQ(objects.was_not_cached(), Way::kPageCache);
  EXPECT_EQ(files.was_not_cached(), Way::kDirect);
  RoutedFile routed;
  bool prefetch = false;
  EXPECT_EQ(files.was_not_cached(routed, 0, 1, prefetch), Way::kDirect) << "of unknown identity";
  EXPECT_FALSE(prefetch);
  routed.handle = std::make_shared<os::FileHandle>();
  ASSERT_TRUE(os::FileHandle::adopt(file(kGranule), *routed.handle).ok());
  os::FileIdentity identity;
  int error = 0;
  ASSERT_TRUE(os::identify(routed.handle->fd(), identity, error));
  routed.mapped = mapped_.file(nullptr, identity);
  EXPECT_EQ(files.was_not_cached(routed, 0, kGranule, prefetch), Way::kDirect);
  EXPECT_EQ(files.was_not_cached(routed, 0, kGranule, prefetch), Way::kPageCache);
  EXPECT_TRUE(prefetch);
  EXPECT_EQ(files.was_not_cached(routed, 0, kGranule, prefetch), Way::kPageCache);
  EXPECT_FALSE(prefetch);
}

TEST_F(RouterTest, SkipsResidencyQueriesAfterACachedStreak) {
  Router router = this->router({.when_missing = Way::kPageCache});
  for (int i = 0; i < 4; ++i) router.was_cached();
  EXPECT_EQ(router.choose(-1, 0, 1), Way::kPageCache) << "no descriptor could be asked";
  for (int i = 0; i < 4; ++i) (void)router.was_not_cached();
  int tried = 0;
  for (int i = 0; i < 64; ++i) tried += router.choose(-1, 0, 1) == Way::kPageCache ? 1 : 0;
  EXPECT_EQ(tried, 8) << "where the kernel does not answer, now and again";
  Router engine = this->router({.path = Path::kDirect});
  for (int i = 0; i < 8; ++i) engine.was_cached();
  EXPECT_EQ(engine.choose(-1, 0, 1), Way::kDirect);
}

TEST_F(RouterTest, NoWindowsWithoutARegisteredOneForAllOfTheRange) {
  Router router = this->router({});
  std::vector<std::shared_ptr<MappedWindow>> windows(3);
  const int fd = file(5000);
  for (const std::uint64_t end : {std::uint64_t{1}, std::uint64_t{5000}, std::uint64_t{5001}, ~std::uint64_t{0}}) {
    const auto mapped = router.find_windows(fd, nullptr, 0, end, windows);
    ASSERT_NE(mapped, nullptr);
    EXPECT_TRUE(windows.empty()) << end;
    EXPECT_EQ(mapped->identity.size_bytes, 5000u);
  }
}

TEST_F(RouterTest, ThreadsMayQueryObjectsConcurrently) {
  Router router = this->router({});
  const int a = file(64 * kGranule), b = file(kGranule);
  std::atomic<int> direct{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 64; ++i) {
        if (router.goes_direct(a, i * kGranule, kGranule)) ++direct;
        if (t == 0) router.refuse_direct(b);
        (void)router.choose(a, 0, 1);
        (void)router.was_not_cached();
        router.was_cached();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(direct, 64) << "once each at least";
  EXPECT_FALSE(router.goes_direct(b, 0, 1));
}

}  // namespace
}  // namespace headrace::transfer

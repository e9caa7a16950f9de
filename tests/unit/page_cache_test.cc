// The content of the page cache is counted correctly, for any user and through any file system.
#include "os/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "os/filesystem.h"
#include "support/temp_dir.h"

namespace headrace::os {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

// Leaves only the first half of the file in the page cache. Needs a disk file system.
bool make_half_cached(const std::string& path) {
  if (!support::write_file(path, support::pattern(kBytes))) return false;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  std::vector<std::byte> half(kBytes / 2);
  const bool done = ::fsync(fd) == 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
                    ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0 &&
                    ::pread(fd, half.data(), half.size(), 0) == static_cast<ssize_t>(half.size());
  ::close(fd);
  return done;
}

// Runs `body` in a child, since it changes the process's user or mounts; exit code 0: as expected.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(PageCache, CountsResidentPages) {
  support::TempDir dir;
  ASSERT_TRUE(make_half_cached(dir / "f"));
  const int fd = ::open((dir / "f").c_str(), O_RDONLY | O_CLOEXEC);
  if (filesystem_kind(fd).is_memory) {
    ::close(fd);
    GTEST_SKIP() << "temporary files are kept in memory here: nothing can be evicted";
  }
  const PageCacheShare all = page_cache_share(fd, 0, kBytes), tail = page_cache_share(fd, kBytes - 8192, 8192);
  const PageCacheShare odd = page_cache_share(fd, 4095, 2);
  ::close(fd);
  EXPECT_NE(all.witness, CacheWitness::kNone);
  EXPECT_NEAR(all.share(), 0.5, 0.05);
  EXPECT_EQ(tail.resident_pages, 0u);
  EXPECT_EQ(odd.pages, 2u);
  EXPECT_EQ(odd.resident_pages, 2u);
}

TEST(PageCache, EmptyRangesHaveNoResidency) {
  EXPECT_EQ(page_cache_share(-1, 0, 4096).witness, CacheWitness::kNone);
  const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(page_cache_share(fd, 0, 0).witness, CacheWitness::kNone);
  ::close(fd);
  EXPECT_FALSE(cachestat_answers(-1));
}

// For files of other users, the kernel's mincore reports "all present".
TEST(PageCache, FilesOfOtherUsersAreNotMisreported) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  support::TempDir dir;
  ASSERT_TRUE(make_half_cached(dir / "f"));
  ASSERT_EQ(::chmod((dir / "f").c_str(), 0644), 0);
  const int fd = ::open((dir / "f").c_str(), O_RDONLY | O_CLOEXEC);
  const bool memory = filesystem_kind(fd).is_memory;
  const int result = in_child([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 1;
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    const PageCacheShare share = page_cache_share(fd, 0, kBytes);
    if (share.witness == CacheWitness::kMincore) return 2;
    if (cachestat_answers(fd)) return 3;
    if (memory) return 0;
    return share.witness == CacheWitness::kSampled && share.pages == 16 && share.resident_pages == 8 ? 0 : 4;
  });
  ::close(fd);
  EXPECT_EQ(result, 0);
}

// On an overlay, cachestat returns 0 whatever is cached.
TEST(PageCache, ThroughAnOverlay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount an overlay";
  support::TempDir dir;
  for (const char* name : {"low", "up", "work", "all"}) ASSERT_EQ(::mkdir((dir / name).c_str(), 0755), 0);
  ASSERT_TRUE(make_half_cached(dir / "low/f"));
  const int low = ::open((dir / "low/f").c_str(), O_RDONLY | O_CLOEXEC);
  const bool memory = filesystem_kind(low).is_memory;
  ::close(low);
  constexpr int kNoMount = 77;
  const int result = in_child([&] {
    const std::string options =
        "lowerdir=" + (dir / "low") + ",upperdir=" + (dir / "up") + ",workdir=" + (dir / "work");
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("overlay", (dir / "all").c_str(), "overlay", 0, options.c_str()) != 0) {
      return kNoMount;
    }
    const int fd = ::open((dir / "all/f").c_str(), O_RDONLY | O_CLOEXEC);
    if (!filesystem_kind(fd).is_overlay) return 1;
    const auto mount = mount_of(fd);
    if (!mount || mount->type != "overlay") return 2;
    const PageCacheShare share = page_cache_share(fd, 0, kBytes);
    if (share.witness == CacheWitness::kCachestat) return 3;
    const double expected = memory ? 1.0 : 0.5;
    return share.share() > expected - 0.05 && share.share() < expected + 0.05 ? 0 : 4;
  });
  if (result == kNoMount) GTEST_SKIP() << "this container may not mount";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace headrace::os

// What a directory can hold besides objects, with and without the kernel's help in resolving paths.
#include "file_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "os/filesystem.h"
#include "store/file_offers.h"
#include "support/temp_dir.h"

namespace headrace::store {
namespace {

using support::pattern;

class FileStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkdir((dir_ / "root").c_str(), 0755), 0);
    ASSERT_TRUE(support::write_file(dir_ / "secret", pattern(100, 9)));
    ASSERT_EQ(::mkdir((dir_ / "outside").c_str(), 0755), 0);
    ASSERT_TRUE(support::write_file(dir_ / "outside/file", pattern(100, 9)));
    auto store = open_file_store_with(dir_ / "root", {.kernel_resolves = GetParam()});
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    store_ = *store;
    ASSERT_TRUE(store_->put("in/file", pattern(100, 1)).ok());
  }
  void link(const std::string& target, const std::string& name) {
    ASSERT_EQ(::symlink(target.c_str(), (dir_ / ("root/" + name)).c_str()), 0);
  }
  Code open_code(const std::string& key) {
    ByteSource object;
    const Status status = store_->open(key, object);
    EXPECT_EQ(status.ok(), object.is_open());
    if (!status.ok() && status.code() != Code::kNotFound) {
      EXPECT_EQ(status.key(), key);
    }
    return status.code();
  }

  support::TempDir dir_;
  std::shared_ptr<Store> store_;
};

TEST_P(FileStoreTest, LinksInsideTheRootAreFollowed) {
  link("in", "dirlink");
  link("in/file", "filelink");
  link("../filelink", "in/up");
  link(".", "self");
  for (const char* key : {"dirlink/file", "filelink", "in/up", "self/self/in/file", "self/dirlink/up"}) {
    const auto got = store_->get(key, 100);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status().to_string();
    EXPECT_EQ(*got, pattern(100, 1));
  }
  EXPECT_EQ(open_code("dirlink/nothing"), Code::kNotFound);
  EXPECT_EQ(open_code("self/dirlink/nothing"), Code::kNotFound);
}

TEST_P(FileStoreTest, LinksOutOfTheRootAreRefused) {
  link("../secret", "a");
  link("../outside", "b");
  link(dir_ / "secret", "c");
  link("in/../../secret", "d");
  link("b", "e");
  link("/proc/self/fd", "f");
  link("/", "g");
  link("../root/in/file", "h");  // back inside, but through the outside
  for (const char* key : {"a", "b/file", "c", "d", "e/file", "f/0", "g/etc/passwd", "h"}) {
    EXPECT_EQ(open_code(key), Code::kPermission) << key;
    EXPECT_FALSE(store_->get(key, 1000).ok());
  }
  for (const char* key : {"b/new", "e/new/deep", "b/file"}) {
    EXPECT_EQ(store_->put(key, pattern(5)).code(), Code::kPermission) << key;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "outside/new"));
  EXPECT_EQ(store_->list("b").status().code(), Code::kPermission);
  // A put to the name of a link replaces the link.
  ASSERT_TRUE(store_->put("a", pattern(7)).ok());
  EXPECT_EQ(std::filesystem::file_size(dir_ / "secret"), 100u);
  EXPECT_EQ(store_->get("a", 100)->size(), 7u);
}

TEST_P(FileStoreTest, ALinkThatLeadsNowhereIsNoAbsentObject) {
  link("gone", "a");
  link("gone/too", "b");
  link("in/nothing", "in/c");
  link("gonedir", "d");
  for (const char* key : {"a", "b", "in/c", "d/file"}) EXPECT_EQ(open_code(key), Code::kIo) << key;
}

TEST_P(FileStoreTest, LoopsEnd) {
  link("loop", "loop");
  link("pong", "ping");
  link("ping", "pong");
  for (const char* key : {"loop", "ping", "loop/x", "ping/x"}) EXPECT_EQ(open_code(key), Code::kIo) << key;
  EXPECT_FALSE(store_->put("loop/x", {}).ok());
}

TEST_P(FileStoreTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo((dir_ / "root/fifo").c_str(), 0644), 0);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (dir_ / "root/sock").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  for (const char* key : {"fifo", "sock", "in"}) EXPECT_EQ(open_code(key), Code::kIo) << key;
  ByteSource object;
  EXPECT_NE(store_->open("fifo", object).message().find("FIFO"), std::string::npos);
  EXPECT_NE(store_->open("in", object).message().find("directory"), std::string::npos);
  if (::mknod((dir_ / "root/zero").c_str(), S_IFCHR | 0644, 0x105) == 0) {  // as root: /dev/zero, which never ends
    EXPECT_FALSE(store_->get("zero", 1 << 30).ok());
  }
}

TEST_P(FileStoreTest, DescriptorsAreBlockingAndClosedOnExec) {
  ByteSource object;
  ASSERT_TRUE(store_->open("in/file", object).ok());
  EXPECT_EQ(::fcntl(object.file().fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(object.file().fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  auto direct = store_->files()->open_direct("in/file", object);
  if (direct.ok()) {
    EXPECT_NE(::fcntl(*direct, F_GETFL) & O_DIRECT, 0);
    EXPECT_EQ(::fcntl(*direct, F_GETFL) & O_NONBLOCK, 0);
    ::close(*direct);
  } else {
    EXPECT_EQ(direct.status().code(), Code::kUnsupported) << direct.status().to_string();
  }
  ASSERT_TRUE(store_->put("in/file", pattern(3)).ok());
  EXPECT_EQ(store_->files()->open_direct("in/file", object).status().code(), Code::kUnsupported)
      << "another file by now";
}

// At hand: regular files that are completely in the page cache, and nothing else.
TEST_P(FileStoreTest, AtHandIsWhatThePageCacheHolds) {
  const std::string path = dir_ / "root/in/large";
  ASSERT_TRUE(store_->put("in/large", pattern(300'000, 2)).ok());
  ASSERT_TRUE(store_->put("in/empty", {}).ok());
  ASSERT_TRUE(store_->get("in/large", 300'000).ok());
  for (const char* key : {"in", "nothing", "in/nothing", "../secret", ""}) {
    EXPECT_FALSE(store_->files()->at_hand(key, 1 << 20)) << key;
  }
  link("../outside/file", "out");
  EXPECT_FALSE(store_->files()->at_hand("out", 1 << 20));
  if (!GetParam()) {
    EXPECT_FALSE(store_->files()->at_hand("in/large", 1 << 20)) << "without openat2 nobody tells whether opening waits";
    return;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const os::FilesystemKind kind = os::filesystem_kind(fd);
  if (!kind.known || kind.is_network || kind.is_fuse) {
    ::close(fd);
    GTEST_SKIP() << "TMPDIR is no local file system";
  }
  EXPECT_TRUE(store_->files()->at_hand("in/large", 300'000));
  EXPECT_TRUE(store_->files()->at_hand("in/empty", 0));
  EXPECT_FALSE(store_->files()->at_hand("in/large", 299'999));
  if (!kind.is_memory) {
    // One page in the middle is missing.
    ASSERT_EQ(::fdatasync(fd), 0);
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    EXPECT_FALSE(store_->files()->at_hand("in/large", 300'000));
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
    char page[4096];
    for (off_t at = 0; at < 300'000; at += 4096) {
      if (at != 40 * 4096) {
        ASSERT_GT(::pread(fd, page, sizeof page, at), 0);
      }
    }
    EXPECT_FALSE(store_->files()->at_hand("in/large", 300'000));
    ASSERT_GT(::pread(fd, page, sizeof page, 40 * 4096), 0);
    EXPECT_TRUE(store_->files()->at_hand("in/large", 300'000));
  }
  ::close(fd);
}

TEST_P(FileStoreTest, PermissionIsNotAbsence) {
  ASSERT_EQ(::chmod((dir_ / "root/in").c_str(), 0), 0);
  // Root may read everything, so briefly become another user.
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  EXPECT_EQ(open_code("in/file"), Code::kPermission);
  EXPECT_EQ(store_->list("in").status().code(), Code::kPermission);
  if (user == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ::chmod((dir_ / "root/in").c_str(), 0755);
}

TEST_P(FileStoreTest, ListHidesUnfinishedFilesAndShowsLinks) {
  ASSERT_TRUE(support::write_file(dir_ / "root/.headrace-tmp-1-2-3", pattern(1)));
  link("in", "dirlink");
  link("../outside", "out");
  auto entries = store_->list("");
  ASSERT_TRUE(entries.ok());
  std::string text;
  for (const Entry& entry : *entries) text += entry.name + (entry.is_directory ? "/ " : " ");
  EXPECT_EQ(text, "dirlink/ in/ out ");
  EXPECT_EQ(store_->put(".headrace-tmp-x", {}).code(), Code::kInvalidArgument);
}

// A name that alternates between a directory and a link to the outside while it is opened: never a byte from outside.
TEST_P(FileStoreTest, ASwappedLinkNeverLeadsOutside) {
  ASSERT_TRUE(store_->put("swap/file", pattern(100, 1)).ok());
  const std::string root = dir_ / "root/";
  link("../outside", "evil");
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    while (!stop) {
      ::renameat2(AT_FDCWD, (root + "swap").c_str(), AT_FDCWD, (root + "evil").c_str(), RENAME_EXCHANGE);
    }
  });
  int inside = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto got = store_->get("swap/file", 100);
    if (got.ok()) {
      EXPECT_EQ(*got, pattern(100, 1)) << "read outside the root";
      ++inside;
    } else {
      EXPECT_NE(got.status().code(), Code::kNotFound) << got.status().to_string();
      ++refused;
    }
  }
  stop = true;
  swapper.join();
  EXPECT_GT(inside, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Resolver, FileStoreTest, ::testing::Bool(),
                         [](const auto& kernel) { return kernel.param ? "kernel" : "walk"; });

TEST(FileStoreRoot, SaysWhatIsWrongWithTheRoot) {
  support::TempDir dir;
  EXPECT_EQ(open_store(dir / "nothing").status().code(), Code::kNotFound);
  EXPECT_NE(open_store(dir / "nothing").status().message().find("no such directory"), std::string::npos);
  ASSERT_TRUE(support::write_file(dir / "plain", pattern(100)));
  EXPECT_EQ(open_store(dir / "plain").status().code(), Code::kInvalidArgument);
  EXPECT_NE(open_store(dir / "plain/below").status().code(), Code::kOk);
  const std::byte zip[] = {std::byte{'P'}, std::byte{'K'}, std::byte{3}, std::byte{4}, std::byte{0}};
  ASSERT_TRUE(support::write_file(dir / "a.zip", zip));
  EXPECT_EQ(open_store("file://" + dir / "a.zip").status().code(), Code::kCorrupt) << "a ZIP file that is cut short";
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0644), 0);
  EXPECT_EQ(open_store(dir / "fifo").status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(open_store(dir.path() + "///").ok());
}

}  // namespace
}  // namespace headrace::store

// A disk that vanishes under a mounted file system, and a mount that vanishes under open files. Every read returns the
// right bytes or a clear error, no write is reported as done unless it reached the disk, and nothing hangs.
//
// The disk is an in-memory image in the test's own mount namespace. Truncated to nothing, its loop device returns EIO.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/file.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/access.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::pattern;
using testing::FlatArray;
using testing::Layout;

constexpr std::size_t kBytes = std::size_t{6} << 20;

class VanishedMount : public ::testing::Test {
 protected:
  // Mount namespaces belong to threads: `body`, and every thread it starts, runs in one where the disk is mounted.
  void with_disk(const std::function<void()>& body) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a disk";
    bool mounted = false;
    std::thread thread([&] {
      // A 64 MiB disk with 20 MiB of memory, so that writes to it can be made to fail.
      mounted =
          ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
          ::mount("none", dir_.path().c_str(), "tmpfs", 0, "size=20m") == 0 &&
          run("mkdir mnt && truncate -s 64M disk && mkfs.ext4 -q -F -O ^has_journal disk && mount -o loop disk mnt");
      if (!mounted) return;
      data_ = dir_ / "mnt/data";
      EXPECT_TRUE(support::write_file(data_, pattern(kBytes)));
      body();
      (void)::umount2((dir_ / "mnt").c_str(), MNT_DETACH);
    });
    thread.join();
    if (!mounted) GTEST_SKIP() << "no disk image can be mounted here";
  }

  bool run(const std::string& command) {
    return std::system(("cd '" + dir_.path() + "' && (" + command + ") >/dev/null 2>&1").c_str()) == 0;
  }
  // Empties the disk and drops the file from the page cache.
  void lose_disk(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::fsync(fd), 0);
    EXPECT_TRUE(run("truncate -s 0 disk"));
    EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
  }

  support::TempDir dir_;
  std::string data_;
};

struct Rig {
  std::optional<Context> context;
  std::optional<Device> device;
  std::optional<Buffer> memory;
  std::optional<FileQueue> queue;

  Rig(const char* device_name, Path path, const char* engine = "auto") {
    ContextOptions options;
    options.threads = 2;
    options.engine = engine;
    context.emplace(Context::create(options).value());
    device.emplace(Device::open(device_name).value());
    memory.emplace(Buffer::allocate(*device, kBytes).value());
    FileQueueOptions queue_options;
    queue_options.path = path;
    queue_options.staging_bytes = std::size_t{4} << 20;
    queue.emplace(FileQueue::create(*context, *device, queue_options).value());
  }
  FileCompletion take() {
    FileCompletion done;
    EXPECT_EQ(queue->wait({&done, 1}, 1, std::chrono::seconds(60)), 1u) << "hangs";
    return done;
  }
  FileCompletion read(const File& file) {
    const FileRange range{0, memory->data(), kBytes};
    EXPECT_TRUE(queue->read(file, {&range, 1}, 1).ok());
    return take();
  }
  bool holds() {
    std::vector<std::byte> got(kBytes);
    EXPECT_TRUE(memory->copy_to_host(0, got.data(), kBytes).ok());
    return got == pattern(kBytes);
  }
  // Either right, or an error that names the file and claims no bytes.
  void expect_right_or_refused(const FileCompletion& done, const std::string& key) {
    if (done.status.ok()) {
      EXPECT_EQ(done.bytes, kBytes);
      EXPECT_TRUE(holds());
      return;
    }
    EXPECT_EQ(done.status.code(), Code::kIo) << done.status.to_string();
    EXPECT_EQ(done.status.key(), key);
    EXPECT_EQ(done.bytes, 0u);
  }
};

struct Way {
  const char* device;
  Path path;
  const char* engine;
};

class VanishedDisk : public VanishedMount, public ::testing::WithParamInterface<std::vector<Way>> {};

TEST_P(VanishedDisk, IsAnErrorOnEveryPath) {
  const std::vector<Way>& ways = GetParam();
  with_disk([&] {
    std::vector<File> files;
    std::vector<Rig> rigs;
    for (const Way& way : ways) {
      rigs.emplace_back(way.device, way.path, way.engine);
      files.push_back(*File::open(data_));
      ASSERT_TRUE(rigs.back().read(files.back()).status.ok());
      EXPECT_TRUE(rigs.back().holds());
    }
    lose_disk(data_);
    for (std::size_t i = 0; i < rigs.size(); ++i) {
      SCOPED_TRACE(std::string(ways[i].device) + " " + std::string(path_name(ways[i].path)) + " " + ways[i].engine);
      for (int again = 0; again < 3; ++again) {
        const FileCompletion done = rigs[i].read(files[i]);
        rigs[i].expect_right_or_refused(done, data_);
        // A mapping keeps its pages in the page cache, where buffered reads find them too.
        EXPECT_TRUE(ways.back().path == Path::kMapped || !done.status.ok());
      }
      const PathRange whole{data_.c_str(), rigs[i].memory->data(), std::size_t{1} << 20};
      EXPECT_TRUE(rigs[i].queue->read_paths({&whole, 1}, 2).ok());
      const FileCompletion done = rigs[i].take();
      EXPECT_TRUE(done.status.ok() || done.bytes == 0);
    }
    // Files on other disks are not affected.
    EXPECT_TRUE(support::write_file(dir_ / "other", pattern(kBytes)));
    const File other = *File::open(dir_ / "other");
    for (Rig& rig : rigs) {
      ASSERT_TRUE(rig.read(other).status.ok());
      EXPECT_TRUE(rig.holds());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Unmapped, VanishedDisk,
                         ::testing::Values(std::vector<Way>{{"host", Path::kAuto, "auto"},
                                                            {"host", Path::kDirect, "auto"},
                                                            {"host", Path::kDirect, "aio"},
                                                            {"host", Path::kDirect, "threads"},
                                                            {"host", Path::kBuffered, "auto"},
                                                            {"host-staged", Path::kDirect, "auto"},
                                                            {"host-staged", Path::kBuffered, "auto"}}));
INSTANTIATE_TEST_SUITE_P(Mapped, VanishedDisk,
                         ::testing::Values(std::vector<Way>{{"host-staged", Path::kBuffered, "auto"},
                                                            {"host-staged", Path::kAuto, "auto"},
                                                            {"host-staged", Path::kMapped, "auto"}}));

TEST_F(VanishedMount, WhileItIsRead) {
  with_disk([&] {
    Rig rig("host-staged", Path::kDirect);
    const File file = *File::open(data_);
    std::thread loser;
    bool refused = false;
    for (int i = 0; i < 400 && !refused; ++i) {
      if (i == 20) loser = std::thread([&] { lose_disk(data_); });
      const FileCompletion done = rig.read(file);
      rig.expect_right_or_refused(done, data_);
      refused = !done.status.ok();
    }
    loser.join();
    EXPECT_TRUE(refused);
  });
}

TEST_F(VanishedMount, AMountTakenAwayLeavesOpenFilesAsTheyAre) {
  with_disk([&] {
    Rig rig("host-staged", Path::kDirect), mapped("host-staged", Path::kAuto);
    const File file = *File::open(data_);
    ASSERT_TRUE(rig.read(file).status.ok());
    ASSERT_EQ(::umount2((dir_ / "mnt").c_str(), MNT_DETACH), 0);
    for (Rig* one : {&rig, &mapped}) {
      const FileCompletion done = one->read(file);
      ASSERT_TRUE(done.status.ok()) << done.status.to_string();
      EXPECT_TRUE(one->holds());
      const PathRange whole{data_.c_str(), one->memory->data(), 4096};
      EXPECT_TRUE(one->queue->read_paths({&whole, 1}, 2).ok());
      EXPECT_EQ(one->take().status.code(), Code::kNotFound);
    }
    EXPECT_EQ(File::open(data_).status().code(), Code::kNotFound);
  });
}

TEST_F(VanishedMount, AWriteThatDidNotReachTheDiskIsReported) {
  with_disk([&] {
    // Another file uses up the memory of the image: allocating blocks fails, and the error arrives late.
    (void)run("head -c 20M /dev/urandom > filler");
    for (const Path path : {Path::kDirect, Path::kBuffered}) {
      Rig rig("host-staged", path);
      const File file = *File::open(dir_ / "mnt/out", {true, true, true});
      const FileRange range{0, rig.memory->data(), kBytes};
      ASSERT_TRUE(rig.queue->write(file, {&range, 1}, 1).ok());
      const FileCompletion done = rig.take();
      const Status synced = done.status.ok() ? file.sync() : done.status;
      EXPECT_FALSE(synced.ok()) << path_name(path);
      EXPECT_TRUE(done.status.ok() || done.bytes == 0);
      EXPECT_TRUE(path != Path::kDirect || !done.status.ok());
    }
  });
}

TEST_F(VanishedMount, AnArrayOnItIsAnErrorThatNamesAChunk) {
  with_disk([&] {
    const FlatArray array{.layout = Layout::kRaw, .chunks = 16, .chunk_elements = 65536};
    const std::string path = dir_ / "mnt/array";
    ASSERT_TRUE(run("mkdir mnt/array"));
    std::optional<Context> context(*Context::create());
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*Store::open(*context, path)), "", array).ok());
    auto store = Store::open(*context, path);
    auto opened = Array::open(*store);
    ASSERT_TRUE(opened.ok());
    for (std::uint64_t chunk = 0; chunk < array.chunks; ++chunk) lose_disk(path + "/" + array.key(chunk));
    auto device = Device::open("host");
    auto buffer = Buffer::allocate(*device, array.elements() * 4);
    for (int again = 0; again < 2; ++again) {
      const Status status = opened->read({}, {*buffer, opened->info().dtype, {array.elements()}}, *device);
      ASSERT_FALSE(status.ok());
      EXPECT_FALSE(status.code() == Code::kNotFound) << "an absent chunk would be filled: " << status.to_string();
      EXPECT_FALSE(status.key().empty()) << status.to_string();
    }
  });
}

}  // namespace
}  // namespace headrace

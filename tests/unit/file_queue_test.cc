// FileQueue: every path, device and engine gives the same bytes, and failures are reported.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/file.h>
#include <headrace_bench/file_queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "support/alloc_counter.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::pattern;
using support::TempDir;

constexpr std::size_t kFileBytes = (std::size_t{5} << 20) + 1234;

struct Variant {
  const char* device;
  Path path;
  const char* engine;
};

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* device : {"host", "host-staged", "cuda"}) {
    for (const Path path : {Path::kAuto, Path::kDirect, Path::kBuffered, Path::kMapped}) {
      out.push_back({device, path, "auto"});
      if (path == Path::kDirect) {
        out.push_back({device, path, "aio"});
        out.push_back({device, path, "threads"});
      }
    }
  }
  return out;
}

std::string name_of(const ::testing::TestParamInfo<Variant>& info) {
  std::string name =
      std::string(info.param.device) + "_" + std::string(path_name(info.param.path)) + "_" + info.param.engine;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Waits until the file is old enough for the mapped path to trust its time stamps.
void let_settle() { std::this_thread::sleep_for(std::chrono::milliseconds(130)); }

class FileQueueTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(dir_.ok());
    ContextOptions options;
    options.threads = 2;
    options.engine = GetParam().engine;
    auto context = Context::create(options);
    if (!context.ok()) GTEST_SKIP() << context.status().to_string();
    context_.emplace(*context);
    auto device = Device::open(GetParam().device);
    if (!device.ok() && std::string_view(GetParam().device) == "cuda") {
      GTEST_SKIP() << "cuda: " << device.status().to_string();
    }
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    device_.emplace(*device);
  }

  FileQueue queue(FileQueueOptions options = {}, const QueueSkips& skips = {}) {
    options.path = GetParam().path;
    if (options.staging_bytes == FileQueueOptions().staging_bytes) options.staging_bytes = std::size_t{8} << 20;
    auto made = make_file_queue(*context_, *device_, options, skips);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return std::move(*made);
  }

  std::string make_file(const std::string& name, std::size_t bytes = kFileBytes, std::uint64_t seed = 0) {
    const std::string path = dir_ / name;
    EXPECT_TRUE(support::write_file(path, pattern(bytes, seed)));
    return path;
  }

  File open(const std::string& path, bool write = false) {
    auto file = File::open(path, {write, write, false});
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return *file;
  }

  Buffer buffer(std::size_t bytes) {
    auto made = Buffer::allocate(*device_, bytes);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return std::move(*made);
  }

  std::vector<std::byte> contents(const Buffer& buffer) {
    std::vector<std::byte> out(buffer.size_bytes());
    EXPECT_TRUE(buffer.copy_to_host(0, out.data(), out.size()).ok());
    return out;
  }

  FileCompletion read_one(FileQueue& queue, const File& file, std::uint64_t offset, std::byte* memory,
                          std::size_t bytes) {
    const FileRange range{offset, memory, bytes};
    const Status status = queue.read(file, {&range, 1}, 7);
    EXPECT_TRUE(status.ok()) << status.to_string();
    FileCompletion done;
    EXPECT_EQ(queue.wait({&done, 1}), 1u);
    EXPECT_EQ(done.tag, 7u);
    return done;
  }

  TempDir dir_;
  std::optional<Context> context_;
  std::optional<Device> device_;
};

TEST_P(FileQueueTest, RangesOfAnySizeAndAlignmentArrive) {
  const File file = open(make_file("data"));
  const std::vector<std::byte> in_file = pattern(kFileBytes);
  let_settle();
  FileQueue queue = this->queue();
  std::mt19937_64 random(11);
  for (int round = 0; round < (support::kThreadSanitizer ? 2 : 4); ++round) {
    Buffer target = buffer(std::size_t{8} << 20);
    std::vector<std::byte> expected = contents(target);
    std::size_t at = 0, requests = 0;
    for (std::uint64_t tag = 0; at < target.size_bytes() && tag < 60; ++tag) {
      std::vector<FileRange> ranges;
      for (std::size_t i = 0; i < 1 + random() % 20; ++i) {
        static constexpr std::size_t kSizes[] = {0, 1, 511, 512, 4096, 4097, 65536, 100'000, 1 << 20};
        std::size_t bytes = kSizes[random() % 9];
        if (random() % 4 == 0) bytes += random() % 1000;
        std::uint64_t offset = random() % kFileBytes;
        if (random() % 2 == 0) offset = offset / 4096 * 4096;
        bytes = std::min({bytes, static_cast<std::size_t>(kFileBytes - offset), target.size_bytes() - at});
        ranges.push_back({offset, target.data() + at, bytes});
        std::memcpy(expected.data() + at, in_file.data() + offset, bytes);
        at += bytes;
        if (random() % 3 == 0) at = std::min((at + 4095) / 4096 * 4096, target.size_bytes());
      }
      const Status status = queue.read(file, ranges, tag);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ++requests;
    }
    std::vector<FileCompletion> done(8);
    std::vector<bool> seen(requests);
    while (queue.pending() > 0) {
      const std::size_t count = queue.wait(done, 3);
      ASSERT_GT(count, 0u);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(done[i].status.ok()) << done[i].status.to_string();
        ASSERT_FALSE(seen[done[i].tag]) << "completed twice";
        seen[done[i].tag] = true;
      }
    }
    ASSERT_TRUE(support::same_bytes(contents(target), expected)) << "round " << round;
  }
  const FileStats stats = queue.stats();
  const std::uint64_t read = stats.direct_bytes + stats.buffered_bytes + stats.mapped_bytes;
  EXPECT_GT(read, 0u);
  const bool staged = !device_->host_addressable();
  if (GetParam().path == Path::kMapped && staged) {
    EXPECT_EQ(stats.mapped_bytes, read) << stats.notes;
  }
  if (GetParam().path == Path::kBuffered) {
    EXPECT_EQ(stats.buffered_bytes, read);
  }
  EXPECT_EQ(stats.waves > 0, staged);
}

TEST_P(FileQueueTest, ReadsBeyondTheEndAreShort) {
  const File file = open(make_file("data", 10'000));
  let_settle();
  FileQueue queue = this->queue();
  Buffer target = buffer(20'000);
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{9'999}, std::uint64_t{10'000}, std::uint64_t{50'000}}) {
    const FileCompletion done = read_one(queue, file, offset, target.data(), 20'000);
    EXPECT_EQ(done.status.code(), Code::kShort) << done.status.to_string();
    EXPECT_EQ(done.bytes, 0u);
    EXPECT_EQ(done.status.key(), file.path());
  }
  EXPECT_TRUE(read_one(queue, file, 1, target.data(), 9'999).status.ok());
}

TEST_P(FileQueueTest, AChangedFileIsReadAnew) {
  const std::string path = make_file("data", 300'000, 1);
  File file = open(path);
  let_settle();
  FileQueue queue = this->queue();
  Buffer target = buffer(300'000);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(read_one(queue, file, 0, target.data(), 300'000).status.ok());
    ASSERT_TRUE(support::same_bytes(contents(target), pattern(300'000, 1)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // Rewritten in place, then replaced by another file under the same name.
  ASSERT_TRUE(support::write_file(path, pattern(300'000, 2)));
  ASSERT_TRUE(read_one(queue, file, 0, target.data(), 300'000).status.ok());
  EXPECT_TRUE(support::same_bytes(contents(target), pattern(300'000, 2)));
  ASSERT_TRUE(support::write_file(dir_ / "other", pattern(300'000, 3)));
  std::filesystem::rename(dir_ / "other", path);
  file = open(path);
  ASSERT_TRUE(read_one(queue, file, 0, target.data(), 300'000).status.ok());
  EXPECT_TRUE(support::same_bytes(contents(target), pattern(300'000, 3)));
  std::filesystem::resize_file(path, 100'000);
  EXPECT_EQ(read_one(queue, file, 0, target.data(), 300'000).status.code(), Code::kShort);
  ASSERT_TRUE(read_one(queue, file, 0, target.data(), 100'000).status.ok());
}

TEST_P(FileQueueTest, WritesOfAnySizeAndAlignment) {
  const std::size_t size = (std::size_t{3} << 20) + 77;
  const std::string path = make_file("out", size, 9);
  std::vector<std::byte> expected = pattern(size, 9);
  const std::string source_path = make_file("source", size, 4);
  Buffer source = buffer(size);
  ASSERT_TRUE(read_file(*context_, *device_, open(source_path), std::vector<FileRange>{{0, source.data(), size}}).ok());
  const std::vector<std::byte> held = contents(source);
  const File file = open(path, true);
  FileQueue queue = this->queue();
  std::mt19937_64 random(5);
  std::uint64_t at = 0;
  for (std::uint64_t tag = 0; at < size; ++tag) {
    const std::uint64_t bytes = std::min<std::uint64_t>(size - at, 1 + random() % (std::size_t{1} << 20));
    const std::uint64_t from = random() % (size - bytes + 1);
    const FileRange range{at, source.data() + from, static_cast<std::size_t>(bytes)};
    std::memcpy(expected.data() + at, held.data() + from, bytes);
    const Status status = queue.write(file, {&range, 1}, tag);
    ASSERT_TRUE(status.ok()) << status.to_string();
    at += bytes;
    if (tag % 3 == 0) {
      FileCompletion done;
      ASSERT_EQ(queue.wait({&done, 1}), 1u);
      ASSERT_TRUE(done.status.ok()) << done.status.to_string();
    }
  }
  while (queue.pending() > 0) {
    FileCompletion done;
    queue.wait({&done, 1});
    ASSERT_TRUE(done.status.ok()) << done.status.to_string();
  }
  ASSERT_TRUE(file.sync().ok());
  Buffer back = buffer(size);
  ASSERT_TRUE(read_file(*context_, *device_, file, std::vector<FileRange>{{0, back.data(), size}}).ok());
  EXPECT_TRUE(support::same_bytes(contents(back), expected));
  const FileStats stats = queue.stats();
  EXPECT_EQ(stats.written_direct_bytes + stats.written_buffered_bytes, size);
}

TEST_P(FileQueueTest, ManySmallFilesByPath) {
  constexpr std::size_t kFiles = 200, kBytes = 20'000;
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < kFiles; ++i) paths.push_back(make_file("f" + std::to_string(i), kBytes, i));
  let_settle();
  FileQueue queue = this->queue();
  for (int round = 0; round < 3; ++round) {
    Buffer target = buffer(kFiles * kBytes);
    std::vector<PathRange> ranges;
    for (std::size_t i = 0; i < kFiles; ++i) {
      ranges.push_back({paths[i].c_str(), target.data() + i * kBytes, kBytes});
    }
    ASSERT_TRUE(queue.read_paths(ranges, 1).ok());
    FileCompletion done;
    ASSERT_EQ(queue.wait({&done, 1}), 1u);
    ASSERT_TRUE(done.status.ok()) << done.status.to_string();
    EXPECT_EQ(done.bytes, kFiles * kBytes);
    const std::vector<std::byte> got = contents(target);
    for (std::size_t i = 0; i < kFiles; ++i) {
      const auto part = std::span(got).subspan(i * kBytes, kBytes);
      ASSERT_TRUE(support::same_bytes(part, pattern(kBytes, i))) << "file " << i << " round " << round;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the background registration continues
  }
  const bool maps =
      !device_->host_addressable() && (GetParam().path == Path::kAuto || GetParam().path == Path::kMapped);
  if (maps) {
    EXPECT_GE(queue.stats().mapped_bytes, kFiles * kBytes) << queue.stats().notes;
  }
  // A missing file and one that is too short; both are named.
  Buffer target = buffer(kBytes + 1);
  for (const std::string& bad : {dir_ / "missing", paths[0]}) {
    const PathRange range{bad.c_str(), target.data(), kBytes + 1};
    ASSERT_TRUE(queue.read_paths({&range, 1}, 2).ok());
    FileCompletion done;
    ASSERT_EQ(queue.wait({&done, 1}), 1u);
    EXPECT_EQ(done.status.code(), bad == paths[0] ? Code::kShort : Code::kNotFound) << done.status.to_string();
    EXPECT_EQ(done.status.key(), bad);
  }
}

TEST_P(FileQueueTest, BadArgumentsAreRefusedAtOnce) {
  const File file = open(make_file("data", 100));
  FileQueue queue = this->queue();
  std::byte byte{};
  const FileRange no_memory{0, nullptr, 1}, too_far{UINT64_MAX - 4, &byte, 8};
  EXPECT_EQ(queue.read(file, {&no_memory, 1}, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(queue.read(file, {&too_far, 1}, 0).code(), Code::kInvalidArgument);
  const FileRange fine{0, &byte, 1};
  EXPECT_EQ(queue.write(file, {&fine, 1}, 0).code(), Code::kInvalidArgument) << "opened for reading";
  EXPECT_EQ(queue.pending(), 0u);
  FileCompletion done;
  EXPECT_EQ(queue.wait({&done, 1}), 0u);
  ASSERT_TRUE(queue.read(file, {}, 5).ok()) << "nothing to read is read at once";
  ASSERT_EQ(queue.wait({&done, 1}), 1u);
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(File::open(dir_.path()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(File::open(dir_ / "none").status().code(), Code::kNotFound);
  EXPECT_EQ(File::open("").status().code(), Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(File::open(dir_ / "fifo").status().code(), Code::kInvalidArgument);
}

TEST_P(FileQueueTest, ADestroyedQueueWaitsForItsRequests) {
  constexpr std::size_t kShare = kFileBytes / 5;
  const File file = open(make_file("data"));
  Buffer target = buffer(kFileBytes);
  for (int i = 0; i < 5; ++i) {
    FileQueue queue = this->queue();
    for (std::uint64_t tag = 0; tag < 5; ++tag) {
      const FileRange range{tag * kShare, target.data() + tag * kShare, kShare};
      ASSERT_TRUE(queue.read(file, {&range, 1}, tag).ok());
    }
    queue.flush();
  }
}

TEST_P(FileQueueTest, WithoutIoNoFileIsTouched) {
  const std::string path = make_file("data");
  const File file = open(path, true);
  let_settle();
  FileQueue queue = this->queue({}, {.io = true});
  Buffer target = buffer(kFileBytes);
  for (std::uint64_t round = 0; round < 12; ++round) {  // enough for windows to be registered
    const FileRange range{0, target.data(), kFileBytes};
    const PathRange whole{path.c_str(), target.data(), std::size_t{3} << 20};
    // One after the other, because all use the same memory.
    const auto finish = [&] {
      FileCompletion done;
      ASSERT_EQ(queue.wait({&done, 1}, 1, std::chrono::seconds(60)), 1u);
      ASSERT_TRUE(done.status.ok()) << done.status.to_string();
    };
    ASSERT_TRUE(queue.read(file, {&range, 1}, 0).ok());
    finish();
    ASSERT_TRUE(queue.write(file, {&range, 1}, 1).ok());
    finish();
    // Fewer under sanitizers, which check each byte copied to a device.
    for (int i = 0; i < (support::kThreadSanitizer || support::kAddressSanitizer ? 4 : 40); ++i) {
      ASSERT_TRUE(queue.read_paths({&whole, 1}, 2).ok());
      finish();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const FileStats stats = queue.stats();
  EXPECT_EQ(stats.direct_bytes + stats.buffered_bytes + stats.mapped_bytes, 0u);
  EXPECT_EQ(stats.written_direct_bytes + stats.written_buffered_bytes, 0u);
  EXPECT_EQ(stats.system_calls, 0u);
  const bool staged = !device_->host_addressable();
  EXPECT_EQ(stats.bus_bytes > 0, staged);
}

TEST_P(FileQueueTest, NothingAllocatesOnceWarm) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  const File file = open(make_file("data"));
  let_settle();
  FileQueue queue = this->queue();
  Buffer target = buffer(kFileBytes);
  std::vector<FileRange> ranges;
  for (std::size_t at = 0; at + 4096 <= kFileBytes; at += 4096) ranges.push_back({at, target.data() + at, 4096});
  const auto round = [&] {
    for (std::size_t i = 0; i < ranges.size(); i += 128) {
      const auto part = std::span(ranges).subspan(i, std::min<std::size_t>(128, ranges.size() - i));
      ASSERT_TRUE(queue.read(file, part, i).ok());
    }
    FileCompletion done[16];
    while (queue.pending() > 0) {
      const std::size_t count = queue.wait(done, 1);
      for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(done[i].status.ok()) << done[i].status.to_string();
    }
  };
  for (int i = 0; i < 8; ++i) {
    round();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const FileStats before = queue.stats();
  const support::AllocScope scope(support::AllocScope::Of::kThread);
  for (int i = 0; i < 4; ++i) round();
  // The simulated GPU's lists grow with the number of tasks queued at a time, which depends on timing.
  const bool staged = !device_->host_addressable();
  EXPECT_LE(scope.allocations(), staged ? 32u : 0u) << "of " << 4 * ranges.size() << " ranges";
  const FileStats after = queue.stats();
  if (GetParam().path == Path::kMapped && after.mapped_bytes > before.mapped_bytes) {
    EXPECT_LE(after.system_calls - before.system_calls, 2 * (after.waves - before.waves));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FileQueueTest, ::testing::ValuesIn(variants()), name_of);

// The cost of one more request does not depend on how many there are.
class FileQueueNumbers : public ::testing::Test {
 protected:
  FileQueueNumbers()
      : context_(Context::create({.threads = 1}).value()),
        device_(Device::open("host").value()),
        queue_(FileQueue::create(context_, device_).value()) {
    EXPECT_TRUE(support::write_file(dir_ / "data", pattern(4096)));
  }
  static double thread_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  void add(std::size_t count) {
    const File file = File::open(dir_ / "data").value();
    for (std::size_t i = 0; i < count; ++i) {
      const FileRange range{i % 4096, &byte_, 0};
      ASSERT_TRUE(queue_.read(file, {&range, 1}, i).ok());
    }
  }
  // CPU seconds for taking completions one at a time.
  double take(std::size_t count) {
    queue_.flush();
    const double begin = thread_seconds();
    FileCompletion done;
    for (std::size_t i = 0; i < count; ++i) {
      if (queue_.wait({&done, 1}) != 1 || done.tag != i || !done.status.ok()) ADD_FAILURE() << i;
    }
    return thread_seconds() - begin;
  }
  support::TempDir dir_;
  Context context_;
  Device device_;
  FileQueue queue_;
  std::byte byte_{};
};

TEST_F(FileQueueNumbers, QueueingManyRequestsCopiesNoneOfThemOften) {
  constexpr std::size_t kRequests = support::kAllocCounterWorks ? 400'000 : 20'000;  // if counted
  const support::AllocScope scope(support::AllocScope::Of::kThread);
  add(kRequests);
  EXPECT_LE(scope.bytes() / kRequests, 4096u);
  (void)take(kRequests);
}

TEST_F(FileQueueNumbers, TakingOneCompletionCostsTheSameHoweverManyThereAre) {
  constexpr std::size_t kFew = 25'000, kMany = 8 * kFew;
  add(kMany);
  const double many = take(kMany);
  add(kFew);
  const double few = take(kFew);
  EXPECT_LT(many, 24 * few) << "8 times as many took " << many << " s instead of " << few;
}

TEST_F(FileQueueNumbers, FewFilesThatNobodyReadsAreKeptOpen) {
  const std::size_t before = support::open_descriptors();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(support::write_file(dir_ / std::to_string(i), pattern(100)));
    const File file = File::open(dir_ / std::to_string(i)).value();
    const FileRange range{0, &byte_, 1};
    ASSERT_TRUE(queue_.read(file, {&range, 1}, 0).ok());
  }
  FileCompletion done[200];
  ASSERT_EQ(queue_.wait(done, 200), 200u);
  EXPECT_LE(support::open_descriptors(), before + 32);
}

class Reread : public FileQueueTest {
 protected:
  static void drop_cache(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::fsync(fd), 0);
    EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
  }
};

TEST_P(Reread, ASecondColdReadIsCachedForTheThird) {
  for (const bool wanted : {true, false}) {
    ContextOptions options;
    options.threads = 2;
    options.cache_reread = wanted;
    context_.emplace(*Context::create(options));
    const std::string path = make_file(wanted ? "kept" : "not_kept", std::size_t{9} << 20, 3);
    drop_cache(path);
    let_settle();
    const File file = open(path);
    FileQueue queue = this->queue();
    Buffer target = buffer(std::size_t{9} << 20);
    std::uint64_t direct[4] = {}, buffered[4] = {};
    for (int pass = 0; pass < 4; ++pass) {
      if (pass < 3) drop_cache(path);
      // The result of a residency query for a window is used for a fifth of a second.
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      const FileStats before = queue.stats();
      const FileCompletion done = read_one(queue, file, 0, target.data(), target.size_bytes());
      ASSERT_TRUE(done.status.ok()) << done.status.to_string();
      EXPECT_TRUE(support::same_bytes(contents(target), pattern(target.size_bytes(), 3)));
      direct[pass] = queue.stats().direct_bytes - before.direct_bytes;
      buffered[pass] = queue.stats().buffered_bytes - before.buffered_bytes;
    }
    if (direct[0] < target.size_bytes()) GTEST_SKIP() << "nothing is read with O_DIRECT here";
    EXPECT_EQ(buffered[0], 0u);
    if (wanted) {
      for (int pass = 1; pass < 4; ++pass) EXPECT_EQ(direct[pass], 0u) << pass;
      EXPECT_GT(buffered[1], 0u);
    } else {
      for (int pass = 1; pass < 4; ++pass) EXPECT_EQ(direct[pass], direct[0]) << pass;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Auto, Reread,
                         ::testing::Values(Variant{"host", Path::kAuto, "auto"},
                                           Variant{"host-staged", Path::kAuto, "auto"}),
                         name_of);

class DirectCalls : public FileQueueTest {};

// Sixteen reads in flight; each completion starts another one. Other load on the machine only adds system calls, so the
// best round counts.
TEST_P(DirectCalls, AWaveTakesTwoAtMost) {
  constexpr std::size_t kBytes = std::size_t{64} << 10, kDepth = 16, kReads = 256;
  const File file = open(make_file("data"));
  FileQueue queue = this->queue();
  Buffer target = buffer(kDepth * kBytes);
  std::mt19937_64 random(5);
  for (const bool flushed : {true, false}) {
    double least = 1e9;
    for (int round = 0; round < 12; ++round) {
      const FileStats before = queue.stats();
      const auto begin = [&](std::uint64_t slot) {
        const FileRange range{random() % (kFileBytes / kBytes) * kBytes, target.data() + slot * kBytes, kBytes};
        ASSERT_TRUE(queue.read(file, {&range, 1}, slot).ok());
      };
      for (std::size_t slot = 0; slot < kDepth; ++slot) begin(slot);
      for (std::size_t begun = kDepth; queue.pending() > 0;) {
        if (flushed) queue.flush();
        FileCompletion done[kDepth];
        const std::size_t count = queue.wait(done, 1);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(done[i].status.ok()) << done[i].status.to_string();
          if (begun++ < kReads) begin(done[i].tag);
        }
      }
      const FileStats after = queue.stats();
      if (after.engine != "io_uring") GTEST_SKIP() << "not read with O_DIRECT by io_uring here";
      ASSERT_GT(after.waves, before.waves);
      least = std::min(least, static_cast<double>(after.system_calls - before.system_calls) /
                                  static_cast<double>(after.waves - before.waves));
    }
    EXPECT_LE(least, 2.0) << (flushed ? "with flush()" : "begun by wait()");
    EXPECT_GT(least, 0.2) << "they are not counted";
  }
}

INSTANTIATE_TEST_SUITE_P(Staged, DirectCalls, ::testing::Values(Variant{"host-staged", Path::kDirect, "auto"}),
                         name_of);

}  // namespace
}  // namespace headrace

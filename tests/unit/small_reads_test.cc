// Small ranges of cold files, with the path that FileQueue chooses: single or sequential ones are read through the page
// cache, which then has the neighbouring pages; many at a time are read with O_DIRECT. Resources for large reads are
// not set up for them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/fault.h"
#include "io/engine.h"
#include "support/raw_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

constexpr std::size_t kFileBytes = std::size_t{4} << 20, kPage = 4096;

class SmallReads : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ContextOptions options;
    options.threads = 2;
    context_.emplace(Context::create(options).value());
    device_.emplace(Device::open(GetParam()).value());
    content_ = support::pattern(kFileBytes, 9);
    ASSERT_TRUE(support::write_file(path_, content_));
    cool();
    const File file = File::open(path_).value();
    FileQueue past = queue(Path::kDirect);
    Buffer memory = Buffer::allocate(*device_, kPage).value();
    if (read(past, file, {{0, memory.data(), kPage}}).direct_bytes == 0) {
      GTEST_SKIP() << "the temporary directory's file system has no O_DIRECT";
    }
    cool();
  }
  void cool() const {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::fsync(fd), 0);
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
  }
  FileQueue queue(Path path = Path::kAuto) const {
    FileQueueOptions options;
    options.path = path;
    options.staging_bytes = std::size_t{8} << 20;
    return FileQueue::create(*context_, *device_, options).value();
  }
  // The changes of the queue's statistics by one request.
  static FileStats read(FileQueue& queue, const File& file, const std::vector<FileRange>& ranges) {
    const FileStats before = queue.stats();
    EXPECT_TRUE(queue.read(file, ranges, 1).ok());
    FileCompletion done;
    EXPECT_EQ(queue.wait({&done, 1}), 1u);
    EXPECT_TRUE(done.status.ok()) << done.status.to_string();
    FileStats after = queue.stats();
    after.direct_bytes -= before.direct_bytes;
    after.buffered_bytes -= before.buffered_bytes;
    after.mapped_bytes -= before.mapped_bytes;
    after.system_calls -= before.system_calls;
    return after;
  }
  void expect_content(const Buffer& memory, std::size_t at, std::size_t offset, std::size_t bytes) const {
    std::vector<std::byte> got(bytes);
    ASSERT_TRUE(memory.copy_to_host(at, got.data(), bytes).ok());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), content_.begin() + static_cast<std::ptrdiff_t>(offset)));
  }

  support::TempDir directory_;
  const std::string path_ = directory_ / "data";
  std::vector<std::byte> content_;
  std::optional<Context> context_;
  std::optional<Device> device_;
};

TEST_P(SmallReads, InSequenceAreReadAhead) {
  for (const std::size_t bytes : {std::size_t{7}, std::size_t{512}, std::size_t{16} << 10, std::size_t{64} << 10}) {
    SCOPED_TRACE(bytes);
    cool();
    const File file = File::open(path_).value();
    FileQueue queue = this->queue();
    Buffer memory = Buffer::allocate(*device_, bytes).value();
    for (std::size_t i = 0; i < 40; ++i) {
      const FileStats one = read(queue, file, {{i * bytes, memory.data(), bytes}});
      EXPECT_EQ(one.direct_bytes, 0u) << i;
      // A window may have been registered in the meantime.
      EXPECT_EQ(one.buffered_bytes + one.mapped_bytes, bytes) << i;
      expect_content(memory, 0, i * bytes, bytes);
    }
  }
}

// Also with 32 of them in flight, except the first ones, which establish that the file is read sequentially.
TEST_P(SmallReads, SeveralInSequenceAreReadAhead) {
  constexpr std::size_t kDepth = 32, kBytes = std::size_t{4} << 10;
  const File file = File::open(path_).value();
  FileQueue queue = this->queue();
  Buffer memory = Buffer::allocate(*device_, kDepth * kBytes).value();
  for (std::size_t round = 0; round < 8; ++round) {
    std::vector<FileRange> ranges;
    for (std::size_t i = 0; i < kDepth; ++i) {
      ranges.push_back({(round * kDepth + i) * kBytes, memory.data() + i * kBytes, kBytes});
    }
    const FileStats all = read(queue, file, ranges);
    EXPECT_EQ(all.direct_bytes == 0, round > 0) << round;
    expect_content(memory, 0, round * kDepth * kBytes, kDepth * kBytes);
  }
}

// Each read brings its page into the cache, where others on that page find it.
TEST_P(SmallReads, OneAtATimeLeaveTheirPages) {
  const File file = File::open(path_).value();
  FileQueue queue = this->queue();
  Buffer memory = Buffer::allocate(*device_, 512).value();
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) {
    const std::size_t offset = random() % (kFileBytes / 512) * 512;
    EXPECT_EQ(read(queue, file, {{offset, memory.data(), 512}}).direct_bytes, 0u) << offset;
    expect_content(memory, 0, offset, 512);
  }
}

// One range on every page: the whole file is read once, although few bytes are wanted, and is cached the second time.
TEST_P(SmallReads, ManyAtATimeGoPastThePageCacheOnce) {
  const File file = File::open(path_).value();
  FileQueue queue = this->queue();
  constexpr std::size_t kRanges = kFileBytes / kPage, kBytes = 100;
  Buffer memory = Buffer::allocate(*device_, kRanges * kBytes).value();
  std::vector<FileRange> ranges;
  for (std::size_t i = 0; i < kRanges; ++i) {
    const std::size_t page = i * 389 % kRanges;  // every page, no two neighbours in sequence
    ranges.push_back({page * kPage + 1000, memory.data() + i * kBytes, kBytes});
  }
  EXPECT_GE(read(queue, file, ranges).direct_bytes, kRanges * kBytes);
  for (std::size_t i = 0; i < kRanges; i += 101)
    expect_content(memory, i * kBytes, i * 389 % kRanges * kPage + 1000, kBytes);
  const FileStats again = read(queue, file, ranges);
  EXPECT_EQ(again.direct_bytes, 0u);
  // Some may come from a window, if it was registered in time.
  EXPECT_EQ(again.buffered_bytes + again.mapped_bytes, kRanges * kBytes);
}

// Reading a cached page takes a microsecond or two, so choosing the path must not cost a system call per read.
TEST_P(SmallReads, CachedOnesOneAtATimeNeedNoQuestions) {
  if (std::string(GetParam()) != "host") return;  // other devices ask once per wave which mapped windows may be used
  const File file = File::open(path_).value();
  FileQueue queue = this->queue(), filling = this->queue(Path::kBuffered);
  Buffer memory = Buffer::allocate(*device_, kFileBytes).value();
  std::mt19937_64 random(4);
  constexpr std::uint64_t kReads = 2000;
  // On a busy machine the kernel evicts pages and background work takes time, so one of several rounds must be free of
  // both. Missing pages are remembered for a fifth of a second.
  std::uint64_t calls = kReads, cached_bytes = 0;
  for (int round = 0; round < 5 && (calls >= kReads / 4 || cached_bytes < kReads * kPage); ++round) {
    if (round > 0) std::this_thread::sleep_for(std::chrono::milliseconds(250));
    read(filling, file, {{0, memory.data(), kFileBytes}});
    const std::uint64_t before = queue.stats().system_calls;
    cached_bytes = 0;
    for (std::uint64_t i = 0; i < kReads; ++i) {
      const std::size_t offset = random() % (kFileBytes / kPage) * kPage;
      cached_bytes += read(queue, file, {{offset, memory.data(), kPage}}).buffered_bytes;
      expect_content(memory, 0, offset, kPage);
    }
    calls = queue.stats().system_calls - before;
  }
  EXPECT_EQ(cached_bytes, kReads * kPage);
  EXPECT_LT(calls, kReads / 4);
}

// The path "direct" is always respected.
TEST_P(SmallReads, AChosenPathIsKept) {
  const File file = File::open(path_).value();
  FileQueue queue = this->queue(Path::kDirect);
  Buffer memory = Buffer::allocate(*device_, 512).value();
  EXPECT_GE(read(queue, file, {{0, memory.data(), 512}}).direct_bytes, 512u);
}

std::uint64_t registrations() {
  for (const base::FaultCount& count : base::fault_counts()) {
    if (count.point == "io_uring.register_buffers") return count.hits;
  }
  return 0;
}

// Registering the slab takes longer than a read of a few bytes, so it is done only after many bytes were read into it.
TEST_P(SmallReads, TheSlabIsRegisteredOnceMuchHasBeenRead) {
  const std::uint64_t before = registrations();
  const File file = File::open(path_).value();
  FileQueue queue = this->queue(Path::kDirect);
  constexpr std::size_t kBytes = kFileBytes - 8;
  Buffer memory = Buffer::allocate(*device_, kBytes).value();
  EXPECT_GT(read(queue, file, {{100, memory.data(), 8}}).direct_bytes, 0u);
  EXPECT_EQ(registrations(), before);
  for (int i = 0; i < 6; ++i) {
    EXPECT_GE(read(queue, file, {{7, memory.data(), kBytes}}).direct_bytes, kBytes);
    expect_content(memory, 0, 7, kBytes);
  }
  const bool counted = base::kFaultPointsCompiled && queue.stats().engine == "io_uring";
  EXPECT_EQ(registrations(), before + (counted ? 1 : 0));
}

TEST(SmallArrays, TheSlabIsRegisteredOnceMuchHasBeenRead) {
  const support::TempDir directory;
  testing::RawArray model;
  model.shape = {512, 1024};  // 2 MiB
  model.chunk = {4, 1024};
  for (const io::EngineRow& row : io::engines()) {
    ContextOptions options;
    options.threads = 2;
    options.engine = row.name;
    options.host_budget_bytes = std::size_t{4} << 20;  // an eighth of it is the slab
    const auto context = Context::create(options);
    if (!context.ok()) continue;  // the engine is not available here
    const Store store = Store::open(*context, directory.path()).value();
    ASSERT_TRUE(testing::write_raw_array(*Access::impl(store), "a", model).ok());
    const Array array = Array::open(store, "a").value();
    const Device host = Device::open("host").value();
    std::vector<std::uint32_t> elements(model.elements());
    const auto read = [&](const char* selection, std::vector<std::uint64_t> shape) {
      const Status status =
          array.read(parse_selection(selection).value(), {std::span(elements), std::move(shape)}, host);
      ASSERT_TRUE(status.ok()) << status.to_string();
    };
    read("7, 0:2", {2});
    EXPECT_EQ(context->engine_report().find("registered_buffers"), std::string::npos) << context->engine_report();
    for (int i = 0; i < 3; ++i) read("", {512, 1024});
    const bool registered = context->engine_report().find("registered_buffers") != std::string::npos;
    EXPECT_EQ(registered, std::string_view(row.name) == "io_uring") << context->engine_report();
    for (std::size_t i = 0; i < elements.size(); i += 997)
      ASSERT_EQ(elements[i], testing::element_value(i, model.seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Device, SmallReads, ::testing::Values("host", "host-staged"), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace headrace

// FileQueue: when the system refuses an operation, the queue takes another path or returns an error that names it. It
// never returns wrong bytes and never hangs.
#include <gtest/gtest.h>
#include <headrace/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::pattern;
using support::TempDir;

constexpr std::size_t kBytes = std::size_t{3} << 20;

void arm(const char* point, int error, std::uint64_t nth = 0, bool forever = true) {
  base::FaultPlan plan;
  plan.point = point;
  plan.error = error;
  plan.nth = nth;
  plan.forever = forever;
  base::arm_fault(plan);
}

class FileQueueFault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
    ASSERT_TRUE(support::write_file(dir_ / "data", pattern(kBytes)));
    std::this_thread::sleep_for(std::chrono::milliseconds(130));  // until the mapped path trusts the file's times
    ContextOptions options;
    options.threads = 2;
    auto context = Context::create(options);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_.emplace(*context);
    auto device = Device::open("host-staged");
    ASSERT_TRUE(device.ok());
    device_.emplace(*device);
    auto memory = Buffer::allocate(*device_, kBytes);
    ASSERT_TRUE(memory.ok());
    memory_.emplace(std::move(*memory));
  }
  void TearDown() override { base::disarm_faults(); }

  Result<FileQueue> make(Path path) {
    FileQueueOptions options;
    options.path = path;
    options.staging_bytes = std::size_t{4} << 20;
    return FileQueue::create(*context_, *device_, options);
  }
  FileCompletion run(FileQueue& queue, const File& file, bool write = false, std::size_t bytes = kBytes) {
    const FileRange range{0, memory_->data(), bytes};
    const Status status = write ? queue.write(file, {&range, 1}, 1) : queue.read(file, {&range, 1}, 1);
    EXPECT_TRUE(status.ok()) << status.to_string();
    FileCompletion done;
    EXPECT_EQ(queue.wait({&done, 1}, 1, std::chrono::seconds(60)), 1u) << "hangs";
    return done;
  }
  bool holds(std::size_t bytes = kBytes) {
    std::vector<std::byte> got(bytes);
    EXPECT_TRUE(memory_->copy_to_host(0, got.data(), bytes).ok());
    return got == pattern(bytes);
  }

  TempDir dir_;
  std::optional<Context> context_;
  std::optional<Device> device_;
  std::optional<Buffer> memory_;
};

TEST_F(FileQueueFault, AReadErrorNamesFileAndRangeAndTheNextReadIsRight) {
  const File file = *File::open(dir_ / "data");
  const std::pair<Path, const char*> cases[] = {{Path::kBuffered, "base.pread"}, {Path::kDirect, "io_uring.result"}};
  for (const auto& [path, point] : cases) {
    auto queue = make(path);
    ASSERT_TRUE(queue.ok());
    arm(point, EIO, 1, false);
    const FileCompletion done = run(*queue, file);
    if (path == Path::kDirect && queue->stats().engine != "io_uring") continue;
    EXPECT_EQ(done.status.code(), Code::kIo) << point << ": " << done.status.to_string();
    EXPECT_EQ(done.status.key(), file.path());
    EXPECT_EQ(done.bytes, 0u);
    EXPECT_TRUE(done.status.offset().has_value());
    base::disarm_faults();
    ASSERT_TRUE(run(*queue, file).status.ok());
    EXPECT_TRUE(holds());
  }
}

// Some file systems allow opening a file with O_DIRECT but fail each read or write of it with EINVAL.
TEST_F(FileQueueFault, FallsBackToThePageCacheWhereDirectFails) {
  for (const bool write : {false, true}) {
    const File file = *File::open(dir_ / "data", {.write = write});
    auto queue = make(Path::kDirect);
    ASSERT_TRUE(queue.ok());
    ASSERT_TRUE(run(*queue, file).status.ok());  // the bytes to write are those read
    if (queue->stats().engine != "io_uring") GTEST_SKIP() << "io_uring is not available";
    arm("io_uring.result", EINVAL);
    const FileCompletion done = run(*queue, file, write);
    base::disarm_faults();
    ASSERT_TRUE(done.status.ok()) << done.status.to_string();
    EXPECT_NE(queue->stats().notes.find("rejects the transfers"), std::string::npos) << queue->stats().notes;
    ASSERT_TRUE(run(*queue, file).status.ok());
    EXPECT_TRUE(holds());
    EXPECT_GE(write ? queue->stats().written_buffered_bytes : queue->stats().buffered_bytes, kBytes);
  }
}

TEST_F(FileQueueFault, WithoutRegistrationThreadsReadAndTheNotesSayWhy) {
  const File file = *File::open(dir_ / "data");
  for (const int error : {ENOMEM, EIO}) {
    auto queue = make(Path::kMapped);
    ASSERT_TRUE(queue.ok());
    arm("dev_host.register_mapping", error);
    const FileCompletion done = run(*queue, file);
    ASSERT_TRUE(done.status.ok()) << done.status.to_string();
    EXPECT_TRUE(holds());
    EXPECT_EQ(queue->stats().buffered_bytes, kBytes);
    EXPECT_NE(queue->stats().notes.find("mapped path"), std::string::npos) << queue->stats().notes;
  }
}

TEST_F(FileQueueFault, FailedMappingDoesNotFailTheRead) {
  const File file = *File::open(dir_ / "data");
  for (const char* point : {"base.map_file", "base.reserve_addresses"}) {
    auto queue = make(Path::kMapped);
    ASSERT_TRUE(queue.ok());
    arm(point, ENOMEM);
    ASSERT_TRUE(run(*queue, file).status.ok());
    EXPECT_TRUE(holds());
    EXPECT_EQ(queue->stats().mapped_bytes, 0u);
  }
}

TEST_F(FileQueueFault, ShortDeviceMemoryIsReportedAtQueueCreation) {
  arm("dev_host.allocate_pinned", ENOMEM);
  const auto queue = make(Path::kAuto);
  ASSERT_FALSE(queue.ok());
  EXPECT_EQ(queue.status().code(), Code::kResourceExhausted);
}

TEST_F(FileQueueFault, ADeviceThatIsLostEndsEveryRequest) {
  const File file = *File::open(dir_ / "data");
  for (const char* point : {"dev_host.copy", "dev_host.record"}) {
    auto queue = make(Path::kBuffered);
    ASSERT_TRUE(queue.ok());
    arm(point, EIO);
    EXPECT_FALSE(run(*queue, file).status.ok()) << point;
    base::disarm_faults();
    ASSERT_TRUE(run(*queue, file).status.ok()) << point;
    EXPECT_TRUE(holds());
  }
}

TEST_F(FileQueueFault, WithoutIoUringAnotherEngineReads) {
  arm("io_uring.setup", EPERM);
  const File file = *File::open(dir_ / "data");
  auto queue = make(Path::kDirect);
  ASSERT_TRUE(queue.ok());
  ASSERT_TRUE(run(*queue, file).status.ok());
  EXPECT_TRUE(holds());
  if (queue->stats().direct_bytes > 0) {
    EXPECT_NE(queue->stats().engine, "io_uring");
    EXPECT_NE(queue->stats().notes.find("io_uring"), std::string::npos) << queue->stats().notes;
  }
}

TEST_F(FileQueueFault, AFullDiskIsReportedAndNothingCountsAsWritten) {
  const File file = *File::open(dir_ / "out", {true, true, true});
  auto queue = make(Path::kBuffered);
  ASSERT_TRUE(queue.ok());
  arm("base.pwrite", ENOSPC, 1, true);
  FileCompletion done = run(*queue, file, true);
  EXPECT_EQ(done.status.code(), Code::kResourceExhausted) << done.status.to_string();
  EXPECT_EQ(done.bytes, 0u);
  base::disarm_faults();
  arm("base.fsync", EIO);
  EXPECT_EQ(file.sync().code(), Code::kIo);
}

TEST_F(FileQueueFault, AShortWriteIsContinued) {
  const File file = *File::open(dir_ / "out", {true, true, true});
  auto queue = make(Path::kBuffered);
  ASSERT_TRUE(queue.ok());
  ASSERT_TRUE(run(*queue, *File::open(dir_ / "data")).status.ok());
  base::FaultPlan plan;
  plan.point = "base.pwrite";
  plan.kind = base::FaultKind::kHalf;
  base::arm_fault(plan);
  ASSERT_TRUE(run(*queue, file, true, 5000).status.ok());
  base::disarm_faults();
  ASSERT_TRUE(run(*queue, file, false, 5000).status.ok());
  EXPECT_TRUE(holds(5000));
}

TEST_F(FileQueueFault, AFileCutShortWhileItIsMappedGivesNoWrongBytes) {
  const File file = *File::open(dir_ / "data");
  auto queue = make(Path::kMapped);
  ASSERT_TRUE(queue.ok());
  ASSERT_TRUE(run(*queue, file).status.ok());
  ASSERT_GT(queue->stats().mapped_bytes, 0u) << queue->stats().notes;
  for (int i = 0; i < 50; ++i) {
    const FileRange range{0, memory_->data(), kBytes};
    ASSERT_TRUE(queue->read(file, {&range, 1}, 1).ok());
    queue->flush();  // starts it
    std::filesystem::resize_file(dir_ / "data", kBytes / 2);
    FileCompletion done;
    ASSERT_EQ(queue->wait({&done, 1}, 1, std::chrono::seconds(60)), 1u);
    // Either the read was faster, or it noticed the truncation.
    if (done.status.ok()) {
      EXPECT_TRUE(holds());
    } else {
      EXPECT_EQ(done.status.code(), Code::kShort) << done.status.to_string();
    }
    ASSERT_TRUE(support::write_file(dir_ / "data", pattern(kBytes)));
    ASSERT_TRUE(run(*queue, file).status.ok());
    EXPECT_TRUE(holds());
  }
}

TEST_F(FileQueueFault, WithLittleLockedMemoryAsAnOrdinaryUser) {
  // In a child process: limits and user ids apply to the whole process.
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    if (::geteuid() == 0 && (::chmod(dir_.path().c_str(), 0755) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0)) {
      ::_exit(2);
    }
    auto context = Context::create();
    auto device = Device::open("host-staged");
    if (!context.ok() || !device.ok()) ::_exit(3);
    auto file = File::open(dir_ / "data");
    auto memory = Buffer::allocate(*device, kBytes);
    if (!file.ok() || !memory.ok()) ::_exit(4);
    for (const Path path : {Path::kAuto, Path::kDirect, Path::kMapped}) {
      FileQueueOptions options;
      options.path = path;
      options.staging_bytes = std::size_t{4} << 20;
      auto queue = FileQueue::create(*context, *device, options);
      if (!queue.ok()) ::_exit(5);
      const FileRange range{0, memory->data(), kBytes};
      FileCompletion done;
      if (!queue->read(*file, {&range, 1}, 1).ok() || queue->wait({&done, 1}) != 1 || !done.status.ok()) ::_exit(6);
      std::vector<std::byte> got(kBytes);
      if (!memory->copy_to_host(0, got.data(), kBytes).ok() || got != pattern(kBytes)) ::_exit(7);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace headrace

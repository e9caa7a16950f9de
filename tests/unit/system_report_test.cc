// The report of this machine is complete and true, even if something is forbidden, and taking it changes nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/system.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "os/page_cache.h"
#include "os/probe_file.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{80} << 20;

const EngineReport* engine(const SystemReport& report, const std::string& name) {
  for (const EngineReport& one : report.engines) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

TEST(SystemReport, WithoutPathsOrMeasuring) {
  const auto report = inspect_system({.measure = false});
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_GE(report->host.cpus, 1u);
  EXPECT_LE(report->host.cpus, report->host.cpus_online);
  EXPECT_GT(report->host.memory_bytes, 0u);
  EXPECT_FALSE(report->host.copy_one_core_bytes_per_second);
  EXPECT_EQ(report->engines.size(), 4u);
  ASSERT_NE(engine(*report, "gds"), nullptr);
  if (engine(*report, "gds")->status.code() == Code::kNotFound) {
    for (const std::string& warning : report->warnings) {
      EXPECT_FALSE(warning.starts_with("gds")) << "nobody misses what is not installed: " << warning;
    }
  }
  ASSERT_NE(engine(*report, "threads"), nullptr);
  EXPECT_TRUE(engine(*report, "threads")->status.ok());
  ASSERT_GE(report->devices.size(), 2u);
  EXPECT_EQ(report->devices[0].name, "host");
  EXPECT_TRUE(report->devices[0].status.ok());
  EXPECT_TRUE(report->paths.empty());
  EXPECT_FALSE(report->gds.meaning.empty());
  for (const DeviceReport& device : report->devices) {
    EXPECT_EQ(device.status.ok(), device.status.message().empty()) << device.name;
  }
}

TEST(SystemReport, DeviceNames) {
  auto staged = inspect_system({.device = "host-staged", .measure = false});
  ASSERT_TRUE(staged.ok());
  ASSERT_EQ(staged->devices.size(), 1u);
  EXPECT_FALSE(staged->devices[0].host_addressable);
  EXPECT_TRUE(staged->devices[0].registers_file_mappings.value_or(false))
      << staged->devices[0].registers_file_mappings_why_not;
  EXPECT_EQ(staged->devices[0].binds_threads, staged->devices[0].binds_threads_why_not.empty());
  if (staged->host.numa_nodes == 1) {
    EXPECT_EQ(staged->devices[0].binds_threads_why_not, "the machine has one NUMA node");
  }
  EXPECT_EQ(inspect_system({.device = "abacus"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(inspect_system({.device = "cuda:x"}).status().code(), Code::kInvalidArgument);
  // A GPU that does not exist is reported, not an error.
  const auto gpu = inspect_system({.device = "cuda:99", .measure = false});
  if (gpu.ok()) {
    EXPECT_FALSE(gpu->devices.at(0).status.ok());
  } else {
    EXPECT_EQ(gpu.status().code(), Code::kInvalidArgument);  // there are GPUs, but not a hundred
  }
}

TEST(SystemReport, Paths) {
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "small", support::pattern(100000)));
  ASSERT_TRUE(support::write_file(dir / "empty", {}));
  ASSERT_EQ(::mkdir((dir / "bare").c_str(), 0755), 0);
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  const auto report =
      inspect_system({.paths = {dir / "small", dir / "empty", dir.path(), dir / "bare", dir / "absent", dir / "fifo"},
                      .measure = false});
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->paths.size(), 6u);
  const PathReport& small = report->paths[0];
  EXPECT_TRUE(small.status.ok());
  EXPECT_FALSE(small.filesystem.empty() || small.mount_point.empty());
  EXPECT_EQ(small.sample_file, dir / "small");
  EXPECT_TRUE(small.direct_works.has_value());
  EXPECT_TRUE(small.resident_share.has_value());
  ASSERT_FALSE(small.advice.empty());
  EXPECT_EQ(small.advice[0].device, "host");
  EXPECT_FALSE(report->paths[1].direct_works.has_value());
  EXPECT_EQ(report->paths[2].sample_file, dir / "small");
  EXPECT_TRUE(report->paths[2].is_directory);
  EXPECT_TRUE(report->paths[3].status.ok());
  EXPECT_TRUE(report->paths[3].sample_file.empty());
  EXPECT_EQ(report->paths[4].status.code(), Code::kNotFound);
  EXPECT_TRUE(report->paths[4].advice.empty());
  EXPECT_EQ(report->paths[5].status.code(), Code::kUnsupported);
}

TEST(SystemReport, MeasuresAndLeavesThePageCacheAsItWas) {
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "large", support::pattern(kLargeBytes)));
  const int fd = ::open((dir / "large").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::fsync(fd), 0);
  ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  const std::size_t descriptors = support::open_descriptors();
  auto report = inspect_system({.paths = {dir / "large"}});
  ASSERT_TRUE(report.ok());
  const PathReport& path = report->paths.at(0);
  EXPECT_GT(path.buffered_read_bytes_per_second.value_or(0), 0);
  EXPECT_GT(path.page_cache_read_bytes_per_second.value_or(0), 0);
  EXPECT_GT(report->host.copy_one_core_bytes_per_second.value_or(0), 0);
  EXPECT_EQ(path.direct_read_bytes_per_second.has_value(), path.direct_works.value_or(false) && !path.is_memory);
  EXPECT_TRUE(path.advice.at(0).expected_bytes_per_second);
  if (!path.is_memory) {
    // Pages in use at that moment stay cached, and a busy machine has some, but not repeatedly.
    const auto left = [fd] { return os::page_cache_share(fd, 0, kLargeBytes).share(); };
    for (int turn = 0; turn < 3 && left() >= 0.1; ++turn) {
      ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
      report = inspect_system({.paths = {dir / "large"}});
      ASSERT_TRUE(report.ok());
    }
    EXPECT_LT(left(), 0.1);
  }
  EXPECT_LE(support::descriptors_left(descriptors), descriptors);
  ::close(fd);
}

TEST(SystemReport, InMemory) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "there is no tmpfs to write to";
  support::TempDir dir("/dev/shm");
  ASSERT_TRUE(support::write_file(dir / "large", support::pattern(kLargeBytes)));
  const auto report = inspect_system({.paths = {dir / "large"}});
  ASSERT_TRUE(report.ok());
  const PathReport& path = report->paths.at(0);
  EXPECT_EQ(path.filesystem, "tmpfs");
  EXPECT_TRUE(path.is_memory);
  EXPECT_TRUE(path.block_device.empty());
  EXPECT_FALSE(path.direct_read_bytes_per_second);
  EXPECT_EQ(path.advice.at(0).path, ReadPath::kBuffered);
  EXPECT_FALSE(path.warnings.empty());
}

TEST(SystemReport, IoUringForbidden) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "large", support::pattern(kLargeBytes)));
  base::arm_fault({.point = "io_uring.setup", .error = EPERM, .forever = true});
  const auto report = inspect_system({.paths = {dir / "large"}});
  base::disarm_faults();
  ASSERT_TRUE(report.ok());
  ASSERT_NE(engine(*report, "io_uring"), nullptr);
  EXPECT_EQ(engine(*report, "io_uring")->status.code(), Code::kPermission);
  bool warned = false;
  for (const std::string& warning : report->warnings) warned = warned || warning.find("forbidden") != std::string::npos;
  EXPECT_TRUE(warned);
  const PathReport& path = report->paths.at(0);
  EXPECT_NE(path.direct_read_engine, "io_uring");
}

// The first hits are in the check for direct reads, a later one in a measurement.
TEST(SystemReport, FailedBufferedReadsAreReported) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "large", support::pattern(kLargeBytes)));
  for (const std::uint64_t nth : {0, 10, 20}) {
    base::arm_fault({.point = "base.probe_pread", .error = EIO, .nth = nth, .forever = true});
    const auto report = inspect_system({.paths = {dir / "large"}});
    base::disarm_faults();
    ASSERT_TRUE(report.ok());
    const PathReport& path = report->paths.at(0);
    EXPECT_TRUE(path.status.ok());
    EXPECT_FALSE(path.buffered_read_bytes_per_second) << nth;
    EXPECT_FALSE(path.page_cache_read_bytes_per_second);
    bool warned = false;
    for (const std::string& warning : path.warnings)
      warned = warned || warning.find("Input/output") != std::string::npos;
    EXPECT_TRUE(warned) << nth;
  }
}

TEST(SystemReport, FailedDirectReadsAreReported) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "large", support::pattern(kLargeBytes)));
  base::arm_fault({.point = "io_uring.result", .error = EIO, .nth = 3});
  const auto report = inspect_system({.paths = {dir / "large"}});
  const auto counts = base::fault_counts();
  base::disarm_faults();
  ASSERT_TRUE(report.ok());
  const PathReport& path = report->paths.at(0);
  bool fired = false, warned = false;
  for (const base::FaultCount& count : counts) fired = fired || (count.point == "io_uring.result" && count.fired > 0);
  for (const std::string& warning : path.warnings)
    warned = warned || warning.find("could not be measured") != std::string::npos;
  EXPECT_EQ(fired, warned);
  EXPECT_FALSE(fired && path.direct_read_bytes_per_second);
  if (path.direct_works.value_or(false) && !path.is_memory && engine(*report, "io_uring")->status.ok()) {
    EXPECT_TRUE(fired);
  }
}

}  // namespace
}  // namespace headrace

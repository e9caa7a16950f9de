// The advice follows from the findings: which path, what limits it, what would help.
#include <gtest/gtest.h>

#include <cmath>

#include "system/probes.h"

namespace headrace::system {
namespace {

// A machine with 16 cores and a GPU that reads the page cache, and a cold file on a local disk.
struct Case {
  Case() {
    report.host.copy_one_core_bytes_per_second = 9.6e9;
    report.host.copy_all_cores_bytes_per_second = 50e9;
    report.host.copy_threads = 8;
    report.host.memory_available_bytes = 100'000'000'000;
    report.host.memlock_limit_bytes = 65536;
    report.engines = {{"io_uring", {}, "single_issuer", 128}, {"threads", {}, "", 128}};
    host.name = "host";
    host.host_addressable = true;
    gpu.name = "cuda:0";
    gpu.pinned_to_device_bytes_per_second = 55.4e9;
    gpu.registers_file_mappings = true;
    path.path = path.sample_file = "/data/f";
    path.sample_bytes = 1'000'000'000;
    path.filesystem = "ext4";
    path.direct_works = true;
    path.resident_share = 0.0;
    path.direct_read_bytes_per_second = 4e9;
    path.buffered_read_bytes_per_second = 2e9;
    path.page_cache_read_bytes_per_second = 8.9e9;
  }
  PathAdvice for_gpu() const { return advise(path, gpu, report); }
  PathAdvice for_host() const { return advise(path, host, report); }
  SystemReport report;
  DeviceReport host, gpu;
  PathReport path;
};

bool offers(const PathAdvice& advice, const std::string& text) {
  for (const std::string& way : advice.faster) {
    if (way.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(PathAdvice, ColdIsDirectAndTheDiskBoundsIt) {
  const PathAdvice advice = Case().for_gpu();
  EXPECT_EQ(advice.device, "cuda:0");
  EXPECT_EQ(advice.path, ReadPath::kDirect);
  EXPECT_EQ(advice.expected_bytes_per_second, 4e9);
  ASSERT_EQ(advice.faster.size(), 1u);
  EXPECT_EQ(advice.faster[0], "keep it in the page cache, if it is read again: 55.4 GB/s");
  EXPECT_EQ(advice.sentence, "direct, as the page cache holds 0 % of the file; should reach 4.00 GB/s read; faster: " +
                                 advice.faster[0]);
}

TEST(PathAdvice, ADiskFasterThanTheBusIsBoundByTheBus) {
  Case c;
  c.gpu.pinned_to_device_bytes_per_second = 3e9;
  EXPECT_EQ(c.for_gpu().expected_bytes_per_second, 3e9);
  EXPECT_EQ(c.for_host().expected_bytes_per_second, 4e9);
}

TEST(PathAdvice, CachedIsMappedWhereTheDeviceCan) {
  Case c;
  c.path.resident_share = 1.0;
  EXPECT_EQ(c.for_gpu().path, ReadPath::kMapped);
  EXPECT_EQ(c.for_gpu().expected_bytes_per_second, 55.4e9);
  EXPECT_TRUE(c.for_gpu().faster.empty());
  EXPECT_EQ(c.for_host().path, ReadPath::kBuffered);
  EXPECT_EQ(c.for_host().expected_bytes_per_second, 50e9);  // eight threads at 8.9, limited by memory bandwidth

  c.gpu.registers_file_mappings = false;
  c.gpu.registers_file_mappings_why_not = "the driver refuses";
  EXPECT_EQ(c.for_gpu().path, ReadPath::kBuffered);
  EXPECT_EQ(c.for_gpu().expected_bytes_per_second, 50e9);
  EXPECT_TRUE(offers(c.for_gpu(), "the driver refuses"));
}

TEST(PathAdvice, FewCoresAreReported) {
  Case c;
  c.path.resident_share = 0.9;
  c.gpu.registers_file_mappings = false;
  c.report.host.copy_threads = 1;
  c.report.host.copy_all_cores_bytes_per_second = 9.6e9;
  EXPECT_EQ(c.for_gpu().expected_bytes_per_second, 8.9e9);
  EXPECT_TRUE(offers(c.for_gpu(), "more CPUs"));
}

TEST(PathAdvice, FileSystems) {
  Case network;
  network.path.is_network = true;
  network.path.filesystem = "nfs4";
  EXPECT_EQ(network.for_gpu().path, ReadPath::kBuffered);
  EXPECT_EQ(network.for_gpu().expected_bytes_per_second, 2e9);
  EXPECT_NE(network.for_gpu().sentence.find("network"), std::string::npos);
  EXPECT_NE(network.for_gpu().sentence.find("read per thread"), std::string::npos);

  Case fuse;
  fuse.path.is_fuse = true;
  EXPECT_EQ(fuse.for_gpu().path, ReadPath::kBuffered);

  Case memory;
  memory.path.is_memory = true;
  memory.path.resident_share = {};
  EXPECT_EQ(memory.for_gpu().path, ReadPath::kMapped);
  EXPECT_EQ(memory.for_host().path, ReadPath::kBuffered);

  Case refusing;
  refusing.path.direct_works = false;
  EXPECT_EQ(refusing.for_host().path, ReadPath::kBuffered);
  EXPECT_TRUE(offers(refusing.for_host(), "O_DIRECT"));
}

TEST(PathAdvice, EnginesAndLimits) {
  Case forbidden;
  forbidden.report.engines[0].status = Status(Code::kPermission, Layer::kIo, "io_uring is forbidden here");
  EXPECT_TRUE(offers(forbidden.for_gpu(), "allow io_uring (io_uring is forbidden here)"));

  Case memlock;
  memlock.report.engines[0].features = "single_issuer (buffers not registered: RLIMIT_MEMLOCK)";
  EXPECT_TRUE(offers(memlock.for_gpu(), "raise RLIMIT_MEMLOCK (ulimit -l, now 65.5 kB)"));

  Case narrow;
  narrow.gpu.pcie = {32, 32, 8, 16};
  EXPECT_TRUE(offers(narrow.for_gpu(), "8 of 16 lanes"));

  Case slow_disk_path;
  slow_disk_path.path.direct_read_bytes_per_second = 1e9;
  EXPECT_TRUE(offers(slow_disk_path.for_gpu(), "buffered reads"));

  Case large;
  large.report.host.cgroup_memory_available_bytes = 900'000'000;  // the file does not fit
  EXPECT_FALSE(offers(large.for_gpu(), "page cache"));
}

TEST(PathAdvice, WithoutMeasurementsNothingIsPromised) {
  Case c;
  c.path.direct_read_bytes_per_second = {};
  EXPECT_FALSE(c.for_gpu().expected_bytes_per_second);
  EXPECT_NE(c.for_gpu().sentence.find("no rate was measured"), std::string::npos);
  EXPECT_EQ(c.for_gpu().sentence.find("/s"), std::string::npos);

  Case empty;  // a directory without files
  empty.path = {};
  empty.path.filesystem = "xfs";
  EXPECT_EQ(empty.for_gpu().path, ReadPath::kDirect);
  EXPECT_NE(empty.for_gpu().reason.find("no file could be tested"), std::string::npos);
}

TEST(PathAdvice, Rates) {
  EXPECT_EQ(rate_text(0), "0.00 B/s");
  EXPECT_EQ(rate_text(55.43e9), "55.4 GB/s");
  EXPECT_EQ(rate_text(999.6e6), "1.00 GB/s");
  EXPECT_EQ(rate_text(123456), "123 kB/s");
}

}  // namespace
}  // namespace headrace::system

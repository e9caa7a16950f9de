#include <algorithm>

#include "base/filesystem.h"
#include "base/page_cache.h"
#include "base/probe_file.h"
#include "base/sys_devices.h"
#include "system/measure.h"
#include "system/probes.h"

namespace headrace::system {
namespace {

constexpr std::uint64_t kEnoughBytes = std::uint64_t{64} << 20;     // to measure with
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;      // that measuring reads into the page cache
constexpr std::size_t kMostEntries = 1000;                          // looked at beneath a directory
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{32} << 20;  // that the kernel may read beyond
constexpr double kMostlyCold = 0.5;

const char* witness_name(base::CacheWitness witness) {
  switch (witness) {
    case base::CacheWitness::kCachestat:
      return "cachestat";
    case base::CacheWitness::kMincore:
      return "mincore";
    case base::CacheWitness::kSampled:
      return "sampled";
    case base::CacheWitness::kNone:
      break;
  }
  return "";
}

void describe_filesystem(int fd, PathReport& report) {
  const base::FilesystemKind kind = base::filesystem_kind(fd);
  report.filesystem = kind.name;
  report.is_network = kind.is_network;
  report.is_memory = kind.is_memory;
  report.is_fuse = kind.is_fuse;
  report.is_overlay = kind.is_overlay;
  const auto mount = base::mount_of(fd);
  if (!mount) return;
  report.filesystem = mount->type;  // tells more: nfs4, ext3, fuse.sshfs
  report.mount_point = mount->mount_point;
  report.mount_source = mount->source;
  report.mount_options = mount->options;
  const auto block = base::block_device_of(*mount);
  if (!block) return;
  report.block_device = block->name;
  report.block_driver = block->driver;
  report.block_model = block->model;
  report.rotational = block->rotational;
  report.queue_depth = block->queue_depth;
  report.scheduler = block->scheduler;
}

void probe_sample(const base::ProbeFile& file, PathReport& report) {
  report.sample_bytes = file.size_bytes();
  if (file.size_bytes() == 0) return;
  const base::DirectProbe direct = base::probe_direct(report.sample_file);
  report.direct_works = direct.works;
  report.direct_why_not = direct.why_not;
  report.direct_memory_alignment_bytes = direct.memory_alignment_bytes;
  report.direct_offset_alignment_bytes = direct.offset_alignment_bytes;
  if (direct.works) report.direct_alignment_source = direct.told_by_kernel ? "statx" : "probe";
  report.cachestat_allowed = base::cachestat_answers(file.fd());
  file.expect_random(true);
  const base::PageCacheShare cached = base::page_cache_share(file.fd(), 0, file.size_bytes());
  file.expect_random(false);
  if (cached.witness == base::CacheWitness::kNone) return;
  report.resident_share = cached.share();
  report.residency_source = witness_name(cached.witness);
}

void measure(const base::ProbeFile& file, std::chrono::milliseconds limit, PathReport& report) {
  if (file.size_bytes() < kEnoughBytes) {
    report.warnings.push_back("too small to measure reads with: name a file of 64 MiB or more");
    return;
  }
  // Two parts of the file, as a cache below this machine (a hypervisor's, a server's) would have what was read first.
  const std::uint64_t range = std::min(file.size_bytes() / 2, kMostBytes);
  if (report.direct_works.value_or(false) && !report.is_memory) {
    if (auto direct = base::ProbeFile::open(report.sample_file, true); direct.ok()) {
      const auto rate =
          measure_direct_read(*direct, report.direct_offset_alignment_bytes, range, limit, report.direct_read_engine);
      if (rate.ok()) report.direct_read_bytes_per_second = *rate;
      if (!rate.ok()) report.warnings.push_back("direct reads could not be measured: " + rate.status().to_string());
    }
  }
  const base::PageCacheShare before =
      base::page_cache_share(file.fd(), 0, std::min(file.size_bytes(), range + kReadAheadBytes));
  const auto found = measure_buffered_read(file, range, limit);
  if (!found.ok()) {
    report.warnings.push_back("buffered reads could not be measured: " + found.status().to_string());
    return;
  }
  report.buffered_read_bytes_per_second = found->bytes_per_second;
  const auto again = measure_buffered_read(file, found->bytes, limit);
  if (again.ok()) report.page_cache_read_bytes_per_second = again->bytes_per_second;
  const bool was_cold = before.witness != base::CacheWitness::kNone && before.share() < kMostlyCold;
  if (was_cold && !report.is_memory) file.evict(found->bytes + kReadAheadBytes);
}

void add_warnings(PathReport& report) {
  const auto warn = [&](std::string text) { report.warnings.push_back(std::move(text)); };
  if (report.is_network) warn(report.filesystem + " is a network file system: O_DIRECT is used only when asked for");
  if (report.is_fuse) warn(report.filesystem + ": a program answers for the kernel, each read passes through it");
  if (report.is_memory) warn(report.filesystem + " keeps files in memory: they count as memory used");
  if (report.is_overlay) warn("overlay: cachestat sees nothing through it, mincore is asked instead");
  if (report.direct_works == false && !report.is_memory) warn("no direct reads: " + report.direct_why_not);
  if (report.rotational.value_or(false) && report.block_driver != "virtio") {
    warn("the disk " + report.block_device + " says it rotates: random reads take milliseconds each");
  }
  if (report.sample_file.empty()) warn("there is no file beneath it that could be tried");
  if (!report.sample_file.empty() && report.sample_bytes == 0) warn("the file is empty: nothing could be tried");
  if (report.resident_share && report.residency_source == "sampled") {
    warn("who may not write a file is not told what the page cache holds of it: 16 pages were tried");
  }
}

}  // namespace

PathReport probe_path(const std::string& path, const PathProbeOptions& options) {
  PathReport report;
  report.path = path;
  auto opened = base::ProbeFile::open(path);
  if (!opened.ok()) {
    report.status = std::move(opened).status();
    return report;
  }
  report.is_directory = opened->is_directory();
  describe_filesystem(opened->fd(), report);
  report.sample_file = report.is_directory ? base::find_sample_file(path, kMostEntries, kEnoughBytes) : path;
  if (!report.sample_file.empty()) {
    const auto sample = base::ProbeFile::open(report.sample_file);
    if (sample.ok()) {
      probe_sample(*sample, report);
      if (options.measure) measure(*sample, options.limit, report);
    } else {
      report.sample_file.clear();  // removed meanwhile
    }
  }
  add_warnings(report);
  return report;
}

}  // namespace headrace::system

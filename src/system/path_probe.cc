#include <algorithm>
#include <utility>
#include <vector>

#include "os/filesystem.h"
#include "os/page_cache.h"
#include "os/probe_file.h"
#include "os/sys_devices.h"
#include "system/measure.h"
#include "system/probes.h"

namespace headrace::system {
namespace {

constexpr std::uint64_t kEnoughBytes = std::uint64_t{64} << 20;     // needed for a measurement
constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;       // maximum that measuring reads into the page cache
constexpr std::size_t kMaxEntries = 1000;                           // maximum entries visited below a directory
constexpr std::size_t kMaxFiles = 256;                              // maximum open at a time, plus as
                                                                    // many with O_DIRECT
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{32} << 20;  // maximum that the kernel may read ahead
constexpr double kMostlyCold = 0.5;

const char* witness_name(os::CacheWitness witness) {
  switch (witness) {
    case os::CacheWitness::kCachestat:
      return "cachestat";
    case os::CacheWitness::kMincore:
      return "mincore";
    case os::CacheWitness::kSampled:
      return "sampled";
    case os::CacheWitness::kNone:
      break;
  }
  return "";
}

void describe_filesystem(int fd, PathReport& report) {
  const os::FilesystemKind kind = os::filesystem_kind(fd);
  report.filesystem = kind.name;
  report.is_network = kind.is_network;
  report.is_memory = kind.is_memory;
  report.is_fuse = kind.is_fuse;
  report.is_overlay = kind.is_overlay;
  const auto mount = os::mount_of(fd);
  if (!mount) return;
  report.filesystem = mount->type;  // more specific: nfs4, ext3, fuse.sshfs
  report.mount_point = mount->mount_point;
  report.mount_source = mount->source;
  report.mount_options = mount->options;
  const auto block = os::block_device_of(*mount);
  if (!block) return;
  report.block_device = block->name;
  report.block_driver = block->driver;
  report.block_model = block->model;
  report.rotational = block->rotational;
  report.queue_depth = block->queue_depth;
  report.scheduler = block->scheduler;
}

void probe_sample(const os::ProbeFile& file, PathReport& report) {
  report.sample_bytes = file.size_bytes();
  if (file.size_bytes() == 0) return;
  const os::DirectSupport direct = os::probe_direct(report.sample_file);
  report.direct_works = direct.works;
  report.direct_why_not = direct.why_not;
  report.direct_memory_alignment_bytes = direct.memory_alignment_bytes;
  report.direct_offset_alignment_bytes = direct.offset_alignment_bytes;
  if (direct.works) report.direct_alignment_source = direct.reported_by_kernel ? "statx" : "probe";
  report.cachestat_allowed = os::cachestat_answers(file.fd());
  file.expect_random(true);
  const os::PageCacheShare cached = os::page_cache_share(file.fd(), 0, file.size_bytes());
  file.expect_random(false);
  if (cached.witness == os::CacheWitness::kNone) return;
  report.resident_share = cached.share();
  report.residency_source = witness_name(cached.witness);
}

// The files to measure: `largest`, or several files below the directory if that one is too small.
struct Sample {
  std::string path;
  os::ProbeFile file;
};
std::vector<Sample> files_to_measure(const PathReport& report) {
  std::vector<std::string> paths = {report.sample_file};
  if (report.is_directory && report.sample_bytes < kEnoughBytes) {
    paths = os::find_sample_files(report.path, kMaxEntries, 2 * kEnoughBytes, kMaxFiles);
  }
  std::vector<Sample> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    if (auto file = os::ProbeFile::open(path); file.ok()) files.push_back({path, std::move(*file)});
  }
  return files;
}

// Bytes [begin, end) of the concatenation of all files.
std::vector<Stretch> stretches_of(const std::vector<Sample>& files, std::uint64_t begin, std::uint64_t end) {
  std::vector<Stretch> out;
  std::uint64_t at = 0;
  for (const auto& [path, file] : files) {
    const std::uint64_t first = std::max(begin, at), last = std::min(end, at + file.size_bytes());
    if (first < last) out.push_back({&file, first - at, last - at});
    at += file.size_bytes();
  }
  return out;
}

// Measures direct reads from byte `begin` on. Files that cannot be opened with O_DIRECT are left out.
Result<double> measure_direct(const std::vector<Sample>& files, std::uint64_t begin, const PathReport& report,
                              std::chrono::milliseconds limit, std::string& engine) {
  std::vector<os::ProbeFile> direct;
  direct.reserve(files.size());
  std::vector<Stretch> stretches;
  std::uint64_t at = 0;
  for (const auto& [path, file] : files) {
    const std::uint64_t first = std::max(begin, at) - at;
    at += file.size_bytes();
    if (first >= file.size_bytes()) continue;
    auto opened = os::ProbeFile::open(path, true);
    if (opened.ok()) stretches.push_back({&direct.emplace_back(std::move(*opened)), first, file.size_bytes()});
  }
  if (stretches.empty()) return Status(Code::kUnsupported, Layer::kIo, "no file can be opened with O_DIRECT");
  return measure_direct_read(stretches, report.direct_offset_alignment_bytes, limit, engine);
}

void measure(std::chrono::milliseconds limit, PathReport& report) {
  const std::vector<Sample> files = files_to_measure(report);
  std::uint64_t bytes = 0;
  for (const Sample& sample : files) bytes += sample.file.size_bytes();
  if (bytes < kEnoughBytes) {
    report.warnings.push_back(report.is_directory
                                  ? "too little data to measure reads: the files found below it have " +
                                        std::to_string(bytes >> 20) + " MiB in total, and 64 are needed"
                                  : "too small to measure reads: name a file of 64 MiB or more, or a directory");
    return;
  }
  report.measured_files = files.size();
  report.measured_bytes = bytes;
  // Uses different parts of the files, since a cache below this machine (a hypervisor's, a server's) would hold the
  // part read first.
  const std::uint64_t range = std::min(bytes / 2, kMaxBytes);
  if (report.direct_works.value_or(false) && !report.is_memory) {
    const auto rate = measure_direct(files, range, report, limit, report.direct_read_engine);
    if (rate.ok()) report.direct_read_bytes_per_second = *rate;
    if (!rate.ok()) report.warnings.push_back("direct reads could not be measured: " + rate.status().to_string());
  }
  const std::vector<Stretch> first = stretches_of(files, 0, range);
  std::vector<const os::ProbeFile*> cold;  // to be evicted from the page cache again
  for (const Stretch& stretch : first) {
    const os::PageCacheShare before = os::page_cache_share(
        stretch.file->fd(), 0, std::min(stretch.file->size_bytes(), stretch.end + kReadAheadBytes));
    const bool was_cold = before.witness != os::CacheWitness::kNone && before.share() < kMostlyCold;
    if (was_cold && !report.is_memory) cold.push_back(stretch.file);
  }
  const auto found = measure_buffered_read(first, range, limit);
  if (!found.ok()) {
    report.warnings.push_back("buffered reads could not be measured: " + found.status().to_string());
    return;
  }
  report.buffered_read_bytes_per_second = found->bytes_per_second;
  const auto again = measure_buffered_read(first, found->bytes, limit);
  if (again.ok()) report.page_cache_read_bytes_per_second = again->bytes_per_second;
  for (const os::ProbeFile* file : cold) file->evict(std::min(file->size_bytes(), range + kReadAheadBytes));
}

void add_warnings(PathReport& report) {
  const auto warn = [&](std::string text) { report.warnings.push_back(std::move(text)); };
  if (report.is_network) warn(report.filesystem + " is a network file system: O_DIRECT is used only when asked for");
  if (report.is_fuse) warn(report.filesystem + ": a user-space program serves every read");
  if (report.is_memory) warn(report.filesystem + " keeps files in memory: they count as memory used");
  if (report.is_overlay) warn("overlay: cachestat does not work on it, so mincore is used");
  if (report.direct_works == false && !report.is_memory) warn("no direct reads: " + report.direct_why_not);
  if (report.rotational.value_or(false) && report.block_driver != "virtio") {
    warn("the disk " + report.block_device + " is a rotating disk: random reads take milliseconds each");
  }
  if (report.sample_file.empty()) warn("there is no file below it that could be tested");
  if (!report.sample_file.empty() && report.sample_bytes == 0) warn("the file is empty: nothing could be tested");
  if (report.resident_share && report.residency_source == "sampled") {
    warn("the kernel reports page-cache contents only to users who may write the file: 16 pages were sampled");
  }
}

}  // namespace

PathReport probe_path(const std::string& path, const PathProbeOptions& options) {
  PathReport report;
  report.path = path;
  auto opened = os::ProbeFile::open(path);
  if (!opened.ok()) {
    report.status = std::move(opened).status();
    return report;
  }
  report.is_directory = opened->is_directory();
  describe_filesystem(opened->fd(), report);
  report.sample_file = report.is_directory ? os::find_sample_file(path, kMaxEntries, kEnoughBytes) : path;
  if (!report.sample_file.empty()) {
    const auto sample = os::ProbeFile::open(report.sample_file);
    if (sample.ok()) {
      probe_sample(*sample, report);
      if (options.measure) measure(options.limit, report);
    } else {
      report.sample_file.clear();  // it was removed meanwhile
    }
  }
  add_warnings(report);
  return report;
}

}  // namespace headrace::system

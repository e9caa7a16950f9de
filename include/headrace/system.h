// SystemReport: what a machine, its limits and its file systems offer to reads, with quick measurements.
//
// It explains why a read takes the path it takes, and what would make it faster. Nothing is changed: no file is
// written, and pages that measuring brought into the page cache are evicted again.
#pragma once

#include <headrace/export.h>
#include <headrace/open_options.h>
#include <headrace/remote_report.h>
#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace {

struct SystemReportOptions {
  std::vector<std::string> paths = {};      // files or directories on this machine
  std::string device = "auto";              // "auto": the host and every GPU; otherwise one device by name
  bool measure = true;                      // measure rates: some 3 seconds in all, and 4 more per URL
  std::vector<std::string> urls = {};       // of remote stores, as for Store::open()
  std::vector<StorageOption> storage = {};  // options for these URLs
};

struct EngineReport {
  std::string name;  // "gds", "io_uring", "aio", "threads"
  Status status;     // why it cannot be used here; kNotFound: a dependency is not installed
  std::string features;
  unsigned depth = 0;  // maximum requests in flight
};

// A PCI Express link. 0 if the system does not report it, as in many virtual machines.
struct PcieLink {
  double gigatransfers_per_second = 0;  // per lane, as currently trained: an idle GPU trains its link down
  double max_gigatransfers_per_second = 0;
  unsigned lanes = 0, max_lanes = 0;
};

struct DeviceReport {
  std::string name;         // "host", "cuda:0"; "cuda" if no GPU can be used
  Status status;            // why it cannot be used: no plug-in, no driver, no GPU
  std::string description;  // "NVIDIA H200, driver 580.159.04"
  std::string note;         // Device::note()
  bool host_addressable = false;
  std::uint64_t memory_bytes = 0;  // 0: unknown
  int numa_node = -1;              // -1: unknown
  std::string pci_address;         // "0000:3b:00.0"; empty: unknown
  PcieLink pcie;
  std::vector<unsigned> near_cpus;  // GPUs only: CPUs of its NUMA node that this process may use
  bool binds_threads = false;  // threads that carry bytes to it are bound to these CPUs (ContextOptions::bind_threads)
  std::string binds_threads_why_not;
  // Rates of 256 MiB copies over the bus; empty: not measured.
  std::optional<double> pinned_to_device_bytes_per_second;
  std::optional<double> device_to_pinned_bytes_per_second;
  std::optional<double> pageable_to_device_bytes_per_second;
  // Whether the GPU can read straight from the page cache, tested with a read-only file mapping.
  std::optional<bool> registers_file_mappings;
  std::string registers_file_mappings_why_not;
};

// An installed GPU, whether or not it can be used.
struct PciGpu {
  std::string pci_address;
  std::string driver;  // the kernel driver bound to it; empty: none
  int numa_node = -1;
  PcieLink pcie;
};

// NVIDIA GPUDirect Storage: a kernel module and a library. headrace requires neither.
struct GdsReport {
  bool kernel_module = false;  // nvidia-fs
  std::string kernel_version;  // of the module, if reported
  std::string library;         // the file that libcufile.so.0 resolves to; empty: not found
  std::string meaning;         // one sentence: what this means for reads
};

struct HostReport {
  std::string kernel;  // "Linux 6.8.0-45-generic x86_64"
  unsigned cpus = 0;   // available to this process
  unsigned cpus_online = 0;
  unsigned numa_nodes = 0;
  std::uint64_t memory_bytes = 0, memory_available_bytes = 0;
  int cgroup_version = 0;                                      // of the memory controller: 1, 2, or 0 for none
  std::optional<std::uint64_t> cgroup_memory_limit_bytes;      // empty: no limit
  std::optional<std::uint64_t> cgroup_memory_available_bytes;  // below the limit; page cache counts as free
  std::optional<double> cgroup_cpu_quota;                      // CPU time as a number of CPUs; empty: no limit
  std::optional<std::vector<unsigned>> cgroup_cpu_set;         // empty: not reported
  std::optional<std::uint64_t> memlock_limit_bytes;            // RLIMIT_MEMLOCK, soft; empty: unlimited
  std::uint64_t open_files_limit = 0;                          // RLIMIT_NOFILE, soft
  // kernel.io_uring_disabled: 0 allows everyone, 1 only privileged processes, 2 no one; empty: no such setting.
  std::optional<unsigned> io_uring_disabled;
  std::string nvidia_driver;  // version; empty: not loaded
  // Rates of memory copies, each byte counted once although it is read and written; empty: not measured.
  std::optional<double> copy_one_core_bytes_per_second;
  std::optional<double> copy_all_cores_bytes_per_second;  // by `copy_threads` threads
  unsigned copy_threads = 0;
};

enum class ReadPath : std::uint8_t { kDirect, kBuffered, kMapped };
HEADRACE_API const char* read_path_name(ReadPath path);  // "direct", "buffered", "mapped"

// The path that reads of a file into a device will take.
struct PathAdvice {
  std::string device;
  ReadPath path = ReadPath::kBuffered;
  std::optional<double> expected_bytes_per_second;  // stored bytes, from the measured rates; empty: not measured
  std::string reason;                               // why this path is used
  std::vector<std::string> faster;                  // what would make it faster, most helpful first
  std::string sentence;                             // all of the above as text
};

struct PathReport {
  std::string path;
  Status status;  // why nothing more is known
  bool is_directory = false;
  // What was tested: the path itself, or the largest of the first files found below it. Empty if there is none.
  std::string sample_file;
  std::uint64_t sample_bytes = 0;

  std::string filesystem;  // as mounted: "ext4", "nfs4", "fuse.sshfs"
  bool is_network = false, is_memory = false, is_fuse = false, is_overlay = false;
  std::string mount_point, mount_source, mount_options;

  std::string block_device;  // "nvme0n1"; empty: none, or not reported
  std::string block_driver;  // "nvme", "virtio", "scsi", "device mapper", ...
  std::string block_model;
  std::optional<bool> rotational;
  std::uint64_t queue_depth = 0;  // requests that the kernel queues
  std::string scheduler;          // "none", "mq-deadline"

  // Empty if no file could be tested.
  std::optional<bool> direct_works;  // O_DIRECT opens and reads
  std::string direct_why_not;
  std::uint32_t direct_memory_alignment_bytes = 0, direct_offset_alignment_bytes = 0;
  std::string direct_alignment_source;  // "statx", "probe"

  std::optional<bool> cachestat_allowed;
  std::optional<double> resident_share;  // share of the sample in the page cache, 0 to 1
  std::string residency_source;          // "cachestat", "mincore", "sampled"

  // Rates of reads into host memory; empty: not measured (disabled, or less than 64 MiB was found).
  std::uint64_t measured_files = 0, measured_bytes = 0;  // basis of the rates: the sample, or the largest
                                                         // files found below
  std::optional<double> direct_read_bytes_per_second;
  std::string direct_read_engine;
  std::optional<double> buffered_read_bytes_per_second;    // one thread, in whatever cache state was found
  std::optional<double> page_cache_read_bytes_per_second;  // one thread, everything cached
  std::vector<PathAdvice> advice;                          // one per usable device
  std::vector<std::string> warnings;                       // what costs speed or reliability here
};

struct SystemReport {
  HostReport host;
  std::vector<EngineReport> engines;  // preferred first
  std::vector<DeviceReport> devices;
  std::vector<PciGpu> pci_gpus;  // NVIDIA's
  GdsReport gds;
  std::vector<PathReport> paths;
  std::vector<RemoteReport> remotes;  // one per URL
  std::vector<std::string> warnings;  // what costs speed for all reads
};

// Inspects everything. Blocks for as long as the file systems do. Unusable devices, paths and URLs are part of the
// report. Reads at most some 600 MB per URL. kInvalidArgument: unknown device name; kResourceExhausted: out of memory.
//
// Threads: any; two concurrent measurements lower each other's rates.
HEADRACE_API Result<SystemReport> inspect_system(const SystemReportOptions& options = {});

// Returns the absolute path with links resolved, if only root, this process's user and the owner of this library can
// replace what is there. For files that are loaded, run or configured from. kInvalidArgument: not absolute; kNotFound;
// kPermission: others can write to the file, or to a folder or link on the way, which the message names.
HEADRACE_API Result<std::string> trusted_path(const std::string& path);

}  // namespace headrace

// SystemReport: what a machine, its limits and its file systems offer to reads, measured where that is quick.
//
// It answers why a read takes the path it takes, and what would make it faster. Nothing is changed on the way: no file
// is written, and what measuring brought into the page cache leaves it again.
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
  std::string device = "auto";              // "auto": the host and every GPU; else one device by its name
  bool measure = true;                      // rates; some 3 seconds in all, and 4 more for each URL
  std::vector<std::string> urls = {};       // of remote stores, as Store::open() takes them
  std::vector<StorageOption> storage = {};  // for these
};

struct EngineReport {
  std::string name;  // "gds", "io_uring", "aio", "threads"
  Status status;     // why it cannot be used here; kNotFound: what it needs is not installed
  std::string features;
  unsigned depth = 0;  // requests in flight at most
};

// A PCI Express link. 0 where the system does not tell, as in many virtual machines.
struct PcieLink {
  double gigatransfers_per_second = 0;  // each lane's, as trained now: an idle GPU trains its link down
  double max_gigatransfers_per_second = 0;
  unsigned lanes = 0, max_lanes = 0;
};

struct DeviceReport {
  std::string name;         // "host", "cuda:0"; "cuda" where no GPU can be used
  Status status;            // why it cannot be used: no plug-in, no driver, no GPU
  std::string description;  // "NVIDIA H200, driver 580.159.04"
  std::string note;         // Device::note()
  bool host_addressable = false;
  std::uint64_t memory_bytes = 0;  // 0: not known
  int numa_node = -1;              // -1: not known
  std::string pci_address;         // "0000:3b:00.0"; empty if not known
  PcieLink pcie;
  std::vector<unsigned> near_cpus;  // on its NUMA node, that this process may use; a GPU's only
  bool binds_threads = false;  // whether threads that carry bytes to it are kept there (ContextOptions::bind_threads)
  std::string binds_threads_why_not;
  // Rates of 256 MiB copies over the bus; none: not measured.
  std::optional<double> pinned_to_device_bytes_per_second;
  std::optional<double> device_to_pinned_bytes_per_second;
  std::optional<double> pageable_to_device_bytes_per_second;
  // Whether the GPU can take bytes straight out of the page cache, tried with a read-only mapping of a file.
  std::optional<bool> registers_file_mappings;
  std::string registers_file_mappings_why_not;
};

// A GPU that is plugged in, whether or not it can be used.
struct PciGpu {
  std::string pci_address;
  std::string driver;  // the kernel's driver that has it; empty: none
  int numa_node = -1;
  PcieLink pcie;
};

// NVIDIA GPUDirect Storage: a kernel module and a library. headrace needs neither.
struct GdsReport {
  bool kernel_module = false;  // nvidia-fs
  std::string kernel_version;  // of the module, if told
  std::string library;         // the file that libcufile.so.0 leads to; empty: none is found
  std::string meaning;         // one sentence
};

struct HostReport {
  std::string kernel;  // "Linux 6.8.0-45-generic x86_64"
  unsigned cpus = 0;   // that this process may use
  unsigned cpus_online = 0;
  unsigned numa_nodes = 0;
  std::uint64_t memory_bytes = 0, memory_available_bytes = 0;
  int cgroup_version = 0;                                      // of the memory controller: 1, 2, or 0 for none
  std::optional<std::uint64_t> cgroup_memory_limit_bytes;      // none: no limit
  std::optional<std::uint64_t> cgroup_memory_available_bytes;  // below the limit, page cache counted as free
  std::optional<double> cgroup_cpu_quota;                      // CPUs' worth of time; none: no limit
  std::optional<std::vector<unsigned>> cgroup_cpu_set;         // none: not told
  std::optional<std::uint64_t> memlock_limit_bytes;            // RLIMIT_MEMLOCK, soft; none: unlimited
  std::uint64_t open_files_limit = 0;                          // RLIMIT_NOFILE, soft
  // kernel.io_uring_disabled: 0 nobody is refused, 1 all but the privileged are, 2 everybody is; none: no such setting.
  std::optional<unsigned> io_uring_disabled;
  std::string nvidia_driver;  // version; empty: none is loaded
  // Rates of memory copies, counted once (a byte read and written is one byte); none: not measured.
  std::optional<double> copy_one_core_bytes_per_second;
  std::optional<double> copy_all_cores_bytes_per_second;  // by `copy_threads` threads
  unsigned copy_threads = 0;
};

enum class ReadPath : std::uint8_t { kDirect, kBuffered, kMapped };
HEADRACE_API const char* read_path_name(ReadPath path);  // "direct", "buffered", "mapped"

// What will happen to reads of a path into a device.
struct PathAdvice {
  std::string device;
  ReadPath path = ReadPath::kBuffered;
  std::optional<double> expected_bytes_per_second;  // stored bytes, from the measured rates; none: not measured
  std::string reason;                               // why this path
  std::vector<std::string> faster;                  // what would make it faster, the most helpful first
  std::string sentence;                             // all of that, for people
};

struct PathReport {
  std::string path;
  Status status;  // why nothing more is known of it
  bool is_directory = false;
  // What was tried: the path itself, or the largest of the first files found beneath. Empty if there is none.
  std::string sample_file;
  std::uint64_t sample_bytes = 0;

  std::string filesystem;  // as mounted: "ext4", "nfs4", "fuse.sshfs"
  bool is_network = false, is_memory = false, is_fuse = false, is_overlay = false;
  std::string mount_point, mount_source, mount_options;

  std::string block_device;  // "nvme0n1"; empty: none is behind it, or it is not told
  std::string block_driver;  // "nvme", "virtio", "scsi", "device mapper", ...
  std::string block_model;
  std::optional<bool> rotational;
  std::uint64_t queue_depth = 0;  // requests the kernel queues
  std::string scheduler;          // "none", "mq-deadline"

  // Nothing where no file could be tried.
  std::optional<bool> direct_works;  // O_DIRECT opens and reads
  std::string direct_why_not;
  std::uint32_t direct_memory_alignment_bytes = 0, direct_offset_alignment_bytes = 0;
  std::string direct_alignment_source;  // "statx", "probe"

  std::optional<bool> cachestat_allowed;
  std::optional<double> resident_share;  // of the sample, in the page cache: 0 to 1
  std::string residency_source;          // "cachestat", "mincore", "sampled"

  // Rates of reads into host memory; none: not measured (less than 64 MiB was found, or asked not to).
  std::uint64_t measured_files = 0, measured_bytes = 0;  // with which: the sample, or the largest files found beneath
  std::optional<double> direct_read_bytes_per_second;
  std::string direct_read_engine;
  std::optional<double> buffered_read_bytes_per_second;    // one thread, cached or not, as it was found
  std::optional<double> page_cache_read_bytes_per_second;  // one thread, everything cached
  std::vector<PathAdvice> advice;                          // one for each device that can be used
  std::vector<std::string> warnings;                       // what costs speed or certainty here
};

struct SystemReport {
  HostReport host;
  std::vector<EngineReport> engines;  // preferred first
  std::vector<DeviceReport> devices;
  std::vector<PciGpu> pci_gpus;  // NVIDIA's
  GdsReport gds;
  std::vector<PathReport> paths;
  std::vector<RemoteReport> remotes;  // one for each URL
  std::vector<std::string> warnings;  // what costs speed whatever is read
};

// Looks at everything. Blocks for as long as the file systems do; a device or path that cannot be used is part of the
// report, as is a URL that cannot be read. Of each URL at most some 600 MB are read. kInvalidArgument: a device name
// that is none; kResourceExhausted: no memory.
//
// Threads: any; measuring from two at once gives lower rates.
HEADRACE_API Result<SystemReport> inspect_system(const SystemReportOptions& options = {});

// An absolute path without links, if nobody but root, this process's user and the owner of this library can put
// something else there; for what is loaded, run or configured from. kInvalidArgument: not absolute; kNotFound;
// kPermission: others can write to the file, or to a folder or link on the way, which the message names.
HEADRACE_API Result<std::string> trusted_path(const std::string& path);

}  // namespace headrace

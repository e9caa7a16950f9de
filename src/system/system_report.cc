#include <headrace/system.h>

#include <algorithm>
#include <cstdio>

#include "io/engine.h"
#include "os/cgroup.h"
#include "os/host_limits.h"
#include "os/page_buffer.h"
#include "os/proc_text.h"
#include "os/sys_devices.h"
#include "os/trusted_path.h"
#include "system/measure.h"
#include "system/probes.h"
#include "system/remote_probe.h"

namespace headrace {
namespace system {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{128} << 20;
constexpr unsigned kMaxCopyThreads = 8;  // enough for the memory bandwidth of the machines we know
constexpr std::size_t kRegisteredBytes = std::size_t{16} << 20;
constexpr auto kPathTime = std::chrono::milliseconds(1800);  // for all paths together
constexpr std::uint64_t kLittleMemory = std::uint64_t{1} << 30;
constexpr std::uint64_t kFewFiles = 1024;

HostReport probe_host(bool measure) {
  HostReport host;
  host.kernel = os::kernel_name();
  host.cpus = os::usable_cpus();
  host.cpus_online = os::online_cpus();
  host.numa_nodes = os::numa_node_count();
  const os::MemoryAmount memory = os::host_memory();
  host.memory_bytes = memory.total_bytes;
  host.memory_available_bytes = memory.available_bytes;
  const os::CgroupLimits cgroup = os::cgroup_limits();
  host.cgroup_version = cgroup.memory_version;
  host.cgroup_memory_limit_bytes = cgroup.memory_limit_bytes;
  host.cgroup_memory_available_bytes = cgroup.memory_available_bytes;
  host.cgroup_cpu_quota = cgroup.cpu_quota;
  host.cgroup_cpu_set = cgroup.cpu_set;
  host.memlock_limit_bytes = os::memlock_limit_bytes();
  host.open_files_limit = os::open_files_limit().value_or(UINT64_MAX);
  host.io_uring_disabled = os::io_uring_disabled();
  host.nvidia_driver = os::nvidia_driver_version();
  if (!measure) return host;
  host.copy_threads = std::min(host.cpus, kMaxCopyThreads);
  // Larger than the CPU caches, but not so large that a small container is killed for it.
  const std::uint64_t room = std::min(memory.available_bytes, cgroup.memory_available_bytes.value_or(UINT64_MAX));
  const std::size_t bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kCopyBytes, room / 8));
  if (bytes < host.copy_threads) return host;
  host.copy_one_core_bytes_per_second = measure_copy(1, bytes);
  host.copy_all_cores_bytes_per_second =
      host.copy_threads > 1 ? measure_copy(host.copy_threads, bytes) : host.copy_one_core_bytes_per_second;
  return host;
}

std::vector<EngineReport> probe_engines() {
  std::vector<EngineReport> reports;
  os::PageBuffer memory;
  std::byte* const buffer = memory.reserve(kRegisteredBytes).data();
  for (const io::EngineRow& row : io::engines()) {
    EngineReport report;
    report.name = row.name;
    auto engine = row.make({.one_thread = true});
    if (engine.ok() && buffer != nullptr) {
      // The effect of memory limits shows only when memory is actually registered.
      const std::span<std::byte> slab(buffer, kRegisteredBytes);
      report.status = (*engine)->register_buffers({&slab, 1});
    }
    if (engine.ok()) {
      report.features = (*engine)->info().features;
      if (const std::string buffers = (*engine)->registration(); !buffers.empty()) {
        report.features += (report.features.empty() ? "" : " ") + buffers;
      }
      report.depth = (*engine)->info().depth;
    } else {
      report.status = std::move(engine).status();
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

GdsReport probe_gds() {
  GdsReport gds;
  const auto version = os::read_first_line("/proc/driver/nvidia-fs/version");
  const auto modules = os::read_text_file("/proc/modules");
  gds.kernel_module = version || (modules && os::module_listed(*modules, "nvidia_fs"));
  gds.kernel_version = version.value_or("");
  gds.library = os::shared_library_path("libcufile.so.0");
  const bool library = !gds.library.empty();
  gds.meaning = gds.kernel_module && library
                    ? "cuFile may move bytes between NVMe and the GPU directly; the engine gds says whether it does"
                : gds.kernel_module ? "the kernel module is there but no libcufile.so.0; headrace needs neither"
                : library ? "without the nvidia-fs module cuFile copies through host memory, if it runs at all; "
                            "the engine gds is used only if selected by name"
                          : "GPUDirect Storage is not installed; headrace does not need it";
  return gds;
}

std::vector<PciGpu> probe_pci() {
  std::vector<PciGpu> gpus;
  for (const os::PciDevice& pci : os::pci_gpus(os::kNvidiaVendor)) {
    gpus.push_back({pci.address,
                    pci.driver,
                    pci.numa_node,
                    {pci.gigatransfers_per_second, pci.max_gigatransfers_per_second, pci.lanes, pci.max_lanes}});
  }
  return gpus;
}

void add_warnings(SystemReport& report) {
  const auto warn = [&](std::string text) { report.warnings.push_back(std::move(text)); };
  const HostReport& host = report.host;
  for (const EngineReport& engine : report.engines) {
    // An engine that is not installed is no cause for a warning.
    if (!engine.status.ok() && engine.status.code() != Code::kNotFound)
      warn(engine.name + " cannot be used: " + engine.status.message());
    if (engine.features.find("RLIMIT_MEMLOCK") != std::string::npos) {
      warn(engine.name + " is limited by RLIMIT_MEMLOCK: raise it (ulimit -l, limits.conf, or the container's)");
    }
  }
  if (host.open_files_limit < kFewFiles) {
    warn("only " + std::to_string(host.open_files_limit) +
         " files may be open at once: raise RLIMIT_NOFILE (ulimit -n)");
  }
  if (host.cgroup_cpu_quota && *host.cgroup_cpu_quota < host.cpus) {
    char text[96];
    std::snprintf(text, sizeof text, "the control group allows %.1f CPUs' worth of time on %u CPUs",
                  *host.cgroup_cpu_quota, host.cpus);
    warn(text);
  }
  if (host.cgroup_memory_available_bytes && *host.cgroup_memory_available_bytes < kLittleMemory) {
    warn("the control group has less than 1 GiB of memory left");
  }
  for (const PciGpu& gpu : report.pci_gpus) {
    if (gpu.driver != "nvidia") {
      warn("the GPU at " + gpu.pci_address + " is not bound to NVIDIA's driver" +
           (gpu.driver.empty() ? "" : " but to " + gpu.driver));
    }
  }
  for (const DeviceReport& device : report.devices) {
    if (device.status.ok() && !device.host_addressable && host.numa_nodes > 1 && device.numa_node >= 0 &&
        device.near_cpus.empty()) {
      warn(device.name + ": no thread can be bound near it: " + device.binds_threads_why_not);
    }
    const PcieLink& link = device.pcie;
    const bool narrow = link.lanes < link.max_lanes;
    // The link is trained up only after recent use.
    const bool used = device.pinned_to_device_bytes_per_second.has_value();
    const bool slow = used && link.gigatransfers_per_second < link.max_gigatransfers_per_second;
    if (link.lanes != 0 && (narrow || slow)) {
      char text[128];
      std::snprintf(text, sizeof text, "%s: the PCIe link runs with %u of %u lanes at %g of %g GT/s",
                    device.name.c_str(), link.lanes, link.max_lanes, link.gigatransfers_per_second,
                    link.max_gigatransfers_per_second);
      warn(text);
    }
  }
}

Result<SystemReport> inspect(const SystemReportOptions& options) {
  SystemReport report;
  // Devices first, since an unknown device name fails the whole call.
  HEADRACE_TRY_ASSIGN(report.devices, probe_devices(options.device, options.measure));
  report.host = probe_host(options.measure);
  report.engines = probe_engines();
  report.pci_gpus = probe_pci();
  report.gds = probe_gds();
  add_warnings(report);
  PathProbeOptions probe;
  probe.measure = options.measure;
  const auto paths = static_cast<int>(std::clamp<std::size_t>(options.paths.size(), 1, 1000));
  probe.limit = std::min(probe.limit, kPathTime / (3 * paths));
  for (const std::string& path : options.paths) {
    PathReport found = probe_path(path, probe);
    if (found.status.ok()) {
      for (const DeviceReport& device : report.devices) {
        if (device.status.ok()) found.advice.push_back(advise(found, device, report));
      }
    }
    report.paths.push_back(std::move(found));
  }
  for (const std::string& url : options.urls) {
    report.remotes.push_back(probe_remote(url, {.measure = options.measure, .storage = options.storage}));
  }
  return report;
}

}  // namespace
}  // namespace system

Result<SystemReport> inspect_system(const SystemReportOptions& options) {
  try {
    return system::inspect(options);
  } catch (...) {
    return Status::out_of_memory();
  }
}

Result<std::string> trusted_path(const std::string& path) {
  try {
    return os::resolve_trusted(path);
  } catch (...) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace

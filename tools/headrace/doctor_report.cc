#include "doctor_report.h"

#include <cmath>
#include <cstdio>

#include "cli_common.h"
#include "doctor_remote.h"
#include "json_text.h"

namespace headrace::cli {
namespace {

std::string rate(double bytes_per_second) {
  return human_rate(static_cast<std::uint64_t>(std::llround(bytes_per_second)), 1);
}

std::string counted(std::uint64_t count, const char* noun) {
  return human_count(count) + " " + noun + (count == 1 ? "" : "s");
}

// "0-3, 8"
std::string cpu_list(const std::vector<unsigned>& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    out += (out.empty() ? "" : ", ") + std::to_string(cpus[i]);
    if (last > i) out += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return out.empty() ? "none" : out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string link_text(const PcieLink& link) {
  if (link.lanes == 0 && link.gigatransfers_per_second == 0) return "PCIe link unknown";
  std::string out = "PCIe x" + std::to_string(link.lanes) + " at " + number(link.gigatransfers_per_second) + " GT/s";
  if (link.max_lanes != 0) {
    out += " (at most x" + std::to_string(link.max_lanes) + " at " + number(link.max_gigatransfers_per_second) + ")";
  }
  return out;
}

void print_host(DoctorRows& text, const HostReport& host) {
  text.section("machine");
  text.row("kernel", host.kernel);
  std::string cpus = std::to_string(host.cpus) + " of " + std::to_string(host.cpus_online) + " may be used, " +
                     counted(host.numa_nodes, "NUMA node");
  if (host.cgroup_cpu_set) cpus += "; control group: CPUs " + cpu_list(*host.cgroup_cpu_set);
  if (host.cgroup_cpu_quota) cpus += ", time of " + number(*host.cgroup_cpu_quota);
  text.row("CPUs", cpus);
  std::string memory = human_bytes(host.memory_bytes) + ", " + human_bytes(host.memory_available_bytes) + " available";
  if (host.cgroup_version != 0) {
    memory += "; control group v" + std::to_string(host.cgroup_version) + ": ";
    memory += host.cgroup_memory_limit_bytes ? "limit " + human_bytes(*host.cgroup_memory_limit_bytes) : "no limit";
    if (host.cgroup_memory_available_bytes) memory += ", " + human_bytes(*host.cgroup_memory_available_bytes) + " left";
  }
  text.row("memory", memory);
  text.row("locked memory", host.memlock_limit_bytes
                                ? "at most " + human_bytes(*host.memlock_limit_bytes) + " (RLIMIT_MEMLOCK)"
                                : std::string("no limit (RLIMIT_MEMLOCK)"));
  text.row("open files",
           host.open_files_limit == UINT64_MAX ? "no limit" : "at most " + human_count(host.open_files_limit));
  if (host.copy_one_core_bytes_per_second) {
    std::string copy = rate(*host.copy_one_core_bytes_per_second) + " copied by one core";
    if (host.copy_threads > 1 && host.copy_all_cores_bytes_per_second) {
      copy += ", " + rate(*host.copy_all_cores_bytes_per_second) + " by " + std::to_string(host.copy_threads);
    }
    text.row("memory copy", copy);
  }
  if (host.io_uring_disabled) {
    text.row("io_uring", *host.io_uring_disabled == 0   ? "allowed to all (kernel.io_uring_disabled = 0)"
                         : *host.io_uring_disabled == 1 ? "allowed to the privileged (kernel.io_uring_disabled = 1)"
                                                        : "forbidden to all (kernel.io_uring_disabled = 2)");
  }
}

std::string near_text(const DeviceReport& device) {
  std::string out = "threads that carry bytes to it are ";
  if (!device.near_cpus.empty()) {
    out = (device.near_cpus.size() == 1 ? "CPU " : "CPUs ") + cpu_list(device.near_cpus) + " near it; " + out;
  }
  return out + (device.binds_threads ? "kept there" : "not bound to CPUs: " + device.binds_threads_why_not);
}

void print_device(DoctorRows& text, const DeviceReport& device) {
  if (!device.status.ok()) {
    text.row(device.name, "cannot be used: " + describe(device.status));
    return;
  }
  std::string what = device.description.empty() ? "usable" : device.description;
  if (device.memory_bytes != 0) what += ", " + human_bytes(device.memory_bytes);
  if (device.numa_node >= 0) what += ", NUMA node " + std::to_string(device.numa_node);
  text.row(device.name, what);
  if (!device.note.empty()) text.row("", device.note);
  if (!device.pci_address.empty()) text.row("", device.pci_address + ", " + link_text(device.pcie));
  if (device.pinned_to_device_bytes_per_second && device.device_to_pinned_bytes_per_second &&
      device.pageable_to_device_bytes_per_second) {
    text.row("", "over the bus: " + rate(*device.pinned_to_device_bytes_per_second) + " from pinned memory, " +
                     rate(*device.device_to_pinned_bytes_per_second) + " to it, " +
                     rate(*device.pageable_to_device_bytes_per_second) + " from ordinary memory");
  }
  if (device.host_addressable) return;
  text.row("", near_text(device));
  text.row("", device.registers_file_mappings.value_or(false)
                   ? "reads the page cache by itself (registered file mappings)"
                   : "does not read the page cache by itself: " + device.registers_file_mappings_why_not);
}

std::string disk_text(const PathReport& path) {
  std::string out = path.block_device;
  if (!path.block_driver.empty()) out += ", " + path.block_driver;
  if (!path.block_model.empty()) out += ", " + path.block_model;
  if (path.queue_depth != 0) out += ", queue of " + human_count(path.queue_depth);
  if (!path.scheduler.empty()) out += ", scheduler " + path.scheduler;
  // Virtual disks claim to rotate whatever their backing storage is.
  if (path.rotational && path.block_driver != "virtio") out += *path.rotational ? ", rotational" : ", not rotational";
  return out;
}

void print_path(DoctorRows& text, const PathReport& path) {
  text.section(path.path);
  if (!path.status.ok()) {
    text.warning("cannot be examined: " + describe(path.status));
    return;
  }
  std::string where = path.filesystem;
  if (!path.mount_source.empty()) where += ", " + path.mount_source + " at " + path.mount_point;
  if (!path.mount_options.empty()) where += " (" + path.mount_options + ")";
  text.row("file system", where);
  if (!path.block_device.empty()) text.row("disk", disk_text(path));
  if (!path.sample_file.empty()) text.row("tried", path.sample_file + ", " + human_bytes(path.sample_bytes));
  if (path.measured_files > 1) {
    text.row("measured with", human_count(path.measured_files) + " files, " + human_bytes(path.measured_bytes) +
                                  " together, one after another");
  }
  if (path.direct_works) {
    text.row("direct I/O", *path.direct_works
                               ? "works; memory aligned to " + counted(path.direct_memory_alignment_bytes, "byte") +
                                     ", offsets to " + human_count(path.direct_offset_alignment_bytes) + " (" +
                                     path.direct_alignment_source + ")"
                               : "no: " + path.direct_why_not);
  }
  if (path.resident_share) {
    text.row("page cache", "holds " + std::to_string(std::lround(100 * *path.resident_share)) + " % of it (" +
                               path.residency_source + "); cachestat " +
                               (path.cachestat_allowed.value_or(false) ? "allowed" : "not allowed"));
  }
  if (path.direct_read_bytes_per_second) {
    text.row("direct read", rate(*path.direct_read_bytes_per_second) + " read by " + path.direct_read_engine +
                                ", 1 MiB pieces, 16 at once");
  }
  if (path.buffered_read_bytes_per_second) {
    std::string buffered = rate(*path.buffered_read_bytes_per_second) + " read by one thread as found";
    if (path.page_cache_read_bytes_per_second) {
      buffered += ", " + rate(*path.page_cache_read_bytes_per_second) + " from the page cache";
    }
    text.row("buffered read", buffered);
  }
  for (const PathAdvice& advice : path.advice) text.row("-> " + advice.device, advice.sentence);
  for (const std::string& warning : path.warnings) text.warning(warning);
}

// JSON with null for unknown values.
template <class T>
Json positive(T value) {
  return value > 0 ? Json(value) : Json();
}

Json numa_node(int node) { return node < 0 ? Json() : Json(node); }

Json why_not(const Status& status) { return status.ok() ? Json() : Json(describe(status)); }

Json link_json(const PcieLink& link) {
  return {{"gigatransfers_per_second", positive(link.gigatransfers_per_second)},
          {"max_gigatransfers_per_second", positive(link.max_gigatransfers_per_second)},
          {"lanes", positive(link.lanes)},
          {"max_lanes", positive(link.max_lanes)}};
}

Json host_json(const HostReport& host) {
  return {{"kernel", host.kernel},
          {"cpus", host.cpus},
          {"cpus_online", host.cpus_online},
          {"numa_nodes", host.numa_nodes},
          {"memory_bytes", positive(host.memory_bytes)},
          {"memory_available_bytes", positive(host.memory_available_bytes)},
          {"cgroup_version", positive(host.cgroup_version)},
          {"cgroup_memory_limit_bytes", or_null(host.cgroup_memory_limit_bytes)},
          {"cgroup_memory_available_bytes", or_null(host.cgroup_memory_available_bytes)},
          {"cgroup_cpu_quota_cpus", or_null(host.cgroup_cpu_quota)},
          {"cgroup_cpu_set", or_null(host.cgroup_cpu_set)},
          {"memlock_limit_bytes", or_null(host.memlock_limit_bytes)},
          {"open_files_limit",
           or_null(host.open_files_limit == UINT64_MAX ? std::nullopt : std::optional(host.open_files_limit))},
          {"io_uring_disabled", or_null(host.io_uring_disabled)},
          {"nvidia_driver", text_or_null(host.nvidia_driver)},
          {"copy_one_core_bytes_per_second", or_null(host.copy_one_core_bytes_per_second)},
          {"copy_all_cores_bytes_per_second", or_null(host.copy_all_cores_bytes_per_second)},
          {"copy_threads", positive(host.copy_threads)}};
}

Json device_json(const DeviceReport& device) {
  return {{"name", device.name},
          {"usable", device.status.ok()},
          {"why_not", why_not(device.status)},
          {"description", text_or_null(device.description)},
          {"note", text_or_null(device.note)},
          {"host_addressable", device.host_addressable},
          {"memory_bytes", positive(device.memory_bytes)},
          {"numa_node", numa_node(device.numa_node)},
          {"pci_address", text_or_null(device.pci_address)},
          {"pcie", link_json(device.pcie)},
          {"near_cpus", device.near_cpus},
          {"binds_threads", device.binds_threads},
          {"binds_threads_why_not", text_or_null(device.binds_threads_why_not)},
          {"pinned_to_device_bytes_per_second", or_null(device.pinned_to_device_bytes_per_second)},
          {"device_to_pinned_bytes_per_second", or_null(device.device_to_pinned_bytes_per_second)},
          {"pageable_to_device_bytes_per_second", or_null(device.pageable_to_device_bytes_per_second)},
          {"registers_file_mappings", or_null(device.registers_file_mappings)},
          {"registers_file_mappings_why_not", text_or_null(device.registers_file_mappings_why_not)}};
}

Json path_json(const PathReport& path) {
  Json advices = Json::array();
  for (const PathAdvice& advice : path.advice) {
    advices.push_back({{"device", advice.device},
                       {"read_path", read_path_name(advice.path)},
                       {"expected_bytes_per_second", or_null(advice.expected_bytes_per_second)},
                       {"reason", advice.reason},
                       {"faster", advice.faster},
                       {"sentence", advice.sentence}});
  }
  return {{"path", path.path},
          {"error", why_not(path.status)},
          {"is_directory", path.is_directory},
          {"sample_file", text_or_null(path.sample_file)},
          {"sample_bytes", path.sample_bytes},
          {"measured_files", path.measured_files},
          {"measured_bytes", path.measured_bytes},
          {"filesystem", text_or_null(path.filesystem)},
          {"is_network", path.is_network},
          {"is_memory", path.is_memory},
          {"is_fuse", path.is_fuse},
          {"is_overlay", path.is_overlay},
          {"mount_point", text_or_null(path.mount_point)},
          {"mount_source", text_or_null(path.mount_source)},
          {"mount_options", text_or_null(path.mount_options)},
          {"block_device", text_or_null(path.block_device)},
          {"block_driver", text_or_null(path.block_driver)},
          {"block_model", text_or_null(path.block_model)},
          {"rotational", or_null(path.rotational)},
          {"queue_depth", positive(path.queue_depth)},
          {"scheduler", text_or_null(path.scheduler)},
          {"direct_works", or_null(path.direct_works)},
          {"direct_why_not", text_or_null(path.direct_why_not)},
          {"direct_memory_alignment_bytes", positive(path.direct_memory_alignment_bytes)},
          {"direct_offset_alignment_bytes", positive(path.direct_offset_alignment_bytes)},
          {"direct_alignment_source", text_or_null(path.direct_alignment_source)},
          {"cachestat_allowed", or_null(path.cachestat_allowed)},
          {"resident_share", or_null(path.resident_share)},
          {"residency_source", text_or_null(path.residency_source)},
          {"direct_read_bytes_per_second", or_null(path.direct_read_bytes_per_second)},
          {"direct_read_engine", text_or_null(path.direct_read_engine)},
          {"buffered_read_bytes_per_second", or_null(path.buffered_read_bytes_per_second)},
          {"page_cache_read_bytes_per_second", or_null(path.page_cache_read_bytes_per_second)},
          {"advice", std::move(advices)},
          {"warnings", path.warnings}};
}

}  // namespace

std::string doctor_text(const SystemReport& report) {
  DoctorRows text;
  print_host(text, report.host);
  text.section("I/O engines");
  for (const EngineReport& engine : report.engines) {
    std::string what = engine.status.ok() ? "usable" : "cannot be used: " + describe(engine.status);
    if (!engine.features.empty()) what += ": " + engine.features;
    if (engine.depth != 0) what += ", " + human_count(engine.depth) + " requests at once";
    text.row(engine.name, what);
  }
  text.section("devices");
  for (const DeviceReport& device : report.devices) print_device(text, device);
  for (const PciGpu& gpu : report.pci_gpus) {
    text.row("on the PCI bus",
             gpu.pci_address + ", driver " + (gpu.driver.empty() ? "none" : gpu.driver) + ", " + link_text(gpu.pcie));
  }
  text.row("NVIDIA driver", report.host.nvidia_driver.empty() ? "none" : report.host.nvidia_driver);
  text.row("GPUDirect", report.gds.meaning);
  for (const std::string& warning : report.warnings) text.warning(warning);
  for (const PathReport& path : report.paths) print_path(text, path);
  for (const RemoteReport& remote : report.remotes) print_remote(text, remote);
  return text.take();
}

Json doctor_json(const SystemReport& report) {
  Json engines = Json::array(), devices = Json::array(), gpus = Json::array(), paths = Json::array(),
       remotes = Json::array();
  for (const EngineReport& engine : report.engines) {
    engines.push_back({{"name", engine.name},
                       {"usable", engine.status.ok()},
                       {"why_not", why_not(engine.status)},
                       {"features", text_or_null(engine.features)},
                       {"depth", positive(engine.depth)}});
  }
  for (const DeviceReport& device : report.devices) devices.push_back(device_json(device));
  for (const PciGpu& gpu : report.pci_gpus) {
    gpus.push_back({{"pci_address", gpu.pci_address},
                    {"driver", text_or_null(gpu.driver)},
                    {"numa_node", numa_node(gpu.numa_node)},
                    {"pcie", link_json(gpu.pcie)}});
  }
  for (const PathReport& path : report.paths) paths.push_back(path_json(path));
  for (const RemoteReport& remote : report.remotes) remotes.push_back(remote_json(remote));
  return {{"host", host_json(report.host)},
          {"engines", std::move(engines)},
          {"devices", std::move(devices)},
          {"pci_gpus", std::move(gpus)},
          {"gds",
           {{"kernel_module", report.gds.kernel_module},
            {"kernel_version", text_or_null(report.gds.kernel_version)},
            {"library", text_or_null(report.gds.library)},
            {"meaning", report.gds.meaning}}},
          {"paths", std::move(paths)},
          {"remotes", std::move(remotes)},
          {"warnings", report.warnings}};
}

}  // namespace headrace::cli

#include "doctor_report.h"

#include <cmath>
#include <cstdio>

#include "cli_common.h"

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

class Text {
 public:
  void section(std::string_view name) { out_ += (out_.empty() ? "" : "\n") + one_line(name) + "\n"; }
  void row(std::string_view name, std::string_view text) {
    std::string line = "  " + one_line(name);
    if (line.size() < kColumn) line.resize(kColumn, ' ');
    out_ += line + " " + one_line(text) + "\n";
  }
  void warning(std::string_view text) { out_ += "! " + one_line(text) + "\n"; }
  std::string take() { return std::move(out_); }

 private:
  static constexpr std::size_t kColumn = 18;
  std::string out_;
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string link_text(const PcieLink& link) {
  if (link.lanes == 0 && link.gigatransfers_per_second == 0) return "PCIe link not told";
  std::string out = "PCIe x" + std::to_string(link.lanes) + " at " + number(link.gigatransfers_per_second) + " GT/s";
  if (link.max_lanes != 0) {
    out += " (at most x" + std::to_string(link.max_lanes) + " at " + number(link.max_gigatransfers_per_second) + ")";
  }
  return out;
}

void print_host(Text& text, const HostReport& host) {
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

void print_device(Text& text, const DeviceReport& device) {
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
  // Virtual disks say that they rotate whatever is behind them.
  if (path.rotational && path.block_driver != "virtio") out += *path.rotational ? ", rotational" : ", not rotational";
  return out;
}

void print_path(Text& text, const PathReport& path) {
  text.section(path.path);
  if (!path.status.ok()) {
    text.warning("cannot be looked at: " + describe(path.status));
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

// JSON: what is not known is null.
template <class T>
void optional(JsonWriter& json, std::string_view name, const std::optional<T>& value) {
  json.key(name);
  value ? json.value(*value) : json.null();
}

template <class T>
void positive(JsonWriter& json, std::string_view name, T value) {
  json.key(name);
  value > 0 ? json.value(value) : json.null();
}

void text_or_null(JsonWriter& json, std::string_view name, const std::string& text) {
  json.key(name);
  text.empty() ? json.null() : json.value(text);
}

void strings(JsonWriter& json, std::string_view name, const std::vector<std::string>& values) {
  json.key(name).begin_array();
  for (const std::string& value : values) json.value(value);
  json.end_array();
}

void failure(JsonWriter& json, const Status& status) {
  json.member("usable", status.ok()).key("why_not");
  status.ok() ? json.null() : json.value(describe(status));
}

void write_link(JsonWriter& json, const PcieLink& link) {
  json.key("pcie").begin_object();
  positive(json, "gigatransfers_per_second", link.gigatransfers_per_second);
  positive(json, "max_gigatransfers_per_second", link.max_gigatransfers_per_second);
  positive(json, "lanes", link.lanes);
  positive(json, "max_lanes", link.max_lanes);
  json.end_object();
}

void write_node(JsonWriter& json, int node) {
  optional(json, "numa_node", node < 0 ? std::nullopt : std::optional(node));
}

void write_host(JsonWriter& json, const HostReport& host) {
  json.begin_object().member("kernel", host.kernel).member("cpus", host.cpus).member("cpus_online", host.cpus_online);
  json.member("numa_nodes", host.numa_nodes);
  positive(json, "memory_bytes", host.memory_bytes);
  positive(json, "memory_available_bytes", host.memory_available_bytes);
  positive(json, "cgroup_version", host.cgroup_version);
  optional(json, "cgroup_memory_limit_bytes", host.cgroup_memory_limit_bytes);
  optional(json, "cgroup_memory_available_bytes", host.cgroup_memory_available_bytes);
  optional(json, "cgroup_cpu_quota_cpus", host.cgroup_cpu_quota);
  json.key("cgroup_cpu_set");
  if (host.cgroup_cpu_set) {
    json.value(std::vector<std::uint64_t>(host.cgroup_cpu_set->begin(), host.cgroup_cpu_set->end()));
  } else {
    json.null();
  }
  optional(json, "memlock_limit_bytes", host.memlock_limit_bytes);
  optional(json, "open_files_limit",
           host.open_files_limit == UINT64_MAX ? std::nullopt : std::optional(host.open_files_limit));
  optional(json, "io_uring_disabled", host.io_uring_disabled);
  text_or_null(json, "nvidia_driver", host.nvidia_driver);
  optional(json, "copy_one_core_bytes_per_second", host.copy_one_core_bytes_per_second);
  optional(json, "copy_all_cores_bytes_per_second", host.copy_all_cores_bytes_per_second);
  positive(json, "copy_threads", host.copy_threads);
  json.end_object();
}

void write_device(JsonWriter& json, const DeviceReport& device) {
  json.begin_object().member("name", device.name);
  failure(json, device.status);
  text_or_null(json, "description", device.description);
  text_or_null(json, "note", device.note);
  json.member("host_addressable", device.host_addressable);
  positive(json, "memory_bytes", device.memory_bytes);
  write_node(json, device.numa_node);
  text_or_null(json, "pci_address", device.pci_address);
  write_link(json, device.pcie);
  json.key("near_cpus").value(std::vector<std::uint64_t>(device.near_cpus.begin(), device.near_cpus.end()));
  json.member("binds_threads", device.binds_threads);
  text_or_null(json, "binds_threads_why_not", device.binds_threads_why_not);
  optional(json, "pinned_to_device_bytes_per_second", device.pinned_to_device_bytes_per_second);
  optional(json, "device_to_pinned_bytes_per_second", device.device_to_pinned_bytes_per_second);
  optional(json, "pageable_to_device_bytes_per_second", device.pageable_to_device_bytes_per_second);
  optional(json, "registers_file_mappings", device.registers_file_mappings);
  text_or_null(json, "registers_file_mappings_why_not", device.registers_file_mappings_why_not);
  json.end_object();
}

void write_path(JsonWriter& json, const PathReport& path) {
  json.begin_object().member("path", path.path);
  json.key("error");
  path.status.ok() ? json.null() : json.value(describe(path.status));
  json.member("is_directory", path.is_directory);
  text_or_null(json, "sample_file", path.sample_file);
  json.member("sample_bytes", path.sample_bytes);
  json.member("measured_files", path.measured_files);
  json.member("measured_bytes", path.measured_bytes);
  text_or_null(json, "filesystem", path.filesystem);
  json.member("is_network", path.is_network).member("is_memory", path.is_memory);
  json.member("is_fuse", path.is_fuse).member("is_overlay", path.is_overlay);
  text_or_null(json, "mount_point", path.mount_point);
  text_or_null(json, "mount_source", path.mount_source);
  text_or_null(json, "mount_options", path.mount_options);
  text_or_null(json, "block_device", path.block_device);
  text_or_null(json, "block_driver", path.block_driver);
  text_or_null(json, "block_model", path.block_model);
  optional(json, "rotational", path.rotational);
  positive(json, "queue_depth", path.queue_depth);
  text_or_null(json, "scheduler", path.scheduler);
  optional(json, "direct_works", path.direct_works);
  text_or_null(json, "direct_why_not", path.direct_why_not);
  positive(json, "direct_memory_alignment_bytes", path.direct_memory_alignment_bytes);
  positive(json, "direct_offset_alignment_bytes", path.direct_offset_alignment_bytes);
  text_or_null(json, "direct_alignment_source", path.direct_alignment_source);
  optional(json, "cachestat_allowed", path.cachestat_allowed);
  optional(json, "resident_share", path.resident_share);
  text_or_null(json, "residency_source", path.residency_source);
  optional(json, "direct_read_bytes_per_second", path.direct_read_bytes_per_second);
  text_or_null(json, "direct_read_engine", path.direct_read_engine);
  optional(json, "buffered_read_bytes_per_second", path.buffered_read_bytes_per_second);
  optional(json, "page_cache_read_bytes_per_second", path.page_cache_read_bytes_per_second);
  json.key("advice").begin_array();
  for (const PathAdvice& advice : path.advice) {
    json.begin_object().member("device", advice.device).member("read_path", read_path_name(advice.path));
    optional(json, "expected_bytes_per_second", advice.expected_bytes_per_second);
    json.member("reason", advice.reason);
    strings(json, "faster", advice.faster);
    json.member("sentence", advice.sentence).end_object();
  }
  json.end_array();
  strings(json, "warnings", path.warnings);
  json.end_object();
}

}  // namespace

std::string doctor_text(const SystemReport& report) {
  Text text;
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
  return text.take();
}

void write_doctor(JsonWriter& json, const SystemReport& report) {
  json.begin_object().key("host");
  write_host(json, report.host);
  json.key("engines").begin_array();
  for (const EngineReport& engine : report.engines) {
    json.begin_object().member("name", engine.name);
    failure(json, engine.status);
    text_or_null(json, "features", engine.features);
    positive(json, "depth", engine.depth);
    json.end_object();
  }
  json.end_array().key("devices").begin_array();
  for (const DeviceReport& device : report.devices) write_device(json, device);
  json.end_array().key("pci_gpus").begin_array();
  for (const PciGpu& gpu : report.pci_gpus) {
    json.begin_object().member("pci_address", gpu.pci_address);
    text_or_null(json, "driver", gpu.driver);
    write_node(json, gpu.numa_node);
    write_link(json, gpu.pcie);
    json.end_object();
  }
  json.end_array().key("gds").begin_object().member("kernel_module", report.gds.kernel_module);
  text_or_null(json, "kernel_version", report.gds.kernel_version);
  text_or_null(json, "library", report.gds.library);
  json.member("meaning", report.gds.meaning).end_object();
  json.key("paths").begin_array();
  for (const PathReport& path : report.paths) write_path(json, path);
  json.end_array();
  strings(json, "warnings", report.warnings);
  json.end_object();
}

}  // namespace headrace::cli

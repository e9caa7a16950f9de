#include "device/device.h"
#include "os/file_handle.h"
#include "os/file_mapping.h"
#include "os/numa.h"
#include "os/sys_devices.h"
#include "system/measure.h"
#include "system/probes.h"

namespace headrace::system {
namespace {

constexpr std::size_t kBusBytes = std::size_t{256} << 20;

PcieLink link_of(const os::PciDevice& pci) {
  return {pci.gigatransfers_per_second, pci.max_gigatransfers_per_second, pci.lanes, pci.max_lanes};
}

void fill_pcie(DeviceReport& report) {
  const auto pci = os::pci_device(report.pci_address);
  if (!pci) return;
  report.pcie = link_of(*pci);
  if (report.numa_node < 0) report.numa_node = pci->numa_node;
}

void fill_near_cpus(DeviceReport& report) {
  const auto allowed = os::thread_cpus();
  if (!allowed) {
    report.binds_threads_why_not = "the system does not report the CPUs that this process may use";
    return;
  }
  os::NearCpus near = os::near_cpus(report.numa_node, *allowed);
  report.near_cpus = std::move(near.cpus);
  report.binds_threads = near.why_not.empty();
  report.binds_threads_why_not = std::move(near.why_not);
}

// Tests with the first page of this program's own file, which is in the page cache.
void try_mapping(device::Device& device, DeviceReport& report) {
  report.registers_file_mappings = false;
  os::FileHandle file;
  Status status = os::FileHandle::open("/proc/self/exe", {}, file);
  std::byte* mapping = status.ok() ? os::reserve_addresses(os::page_bytes()) : nullptr;
  if (mapping == nullptr || os::map_file_at(mapping, os::page_bytes(), file.fd(), 0) != 0) {
    report.registers_file_mappings_why_not = "a test file could not be mapped";
  } else if (status = device.register_mapping(mapping, os::page_bytes()); status.ok()) {
    device.unregister_mapping(mapping, os::page_bytes());
    report.registers_file_mappings = true;
  } else {
    report.registers_file_mappings_why_not = status.to_string();
  }
  os::unmap(mapping, os::page_bytes());
}

DeviceReport inspect(device::Device& device, bool measure) {
  DeviceReport report;
  const device::DeviceInfo& info = device.info();
  report.name = info.name;
  report.description = info.description;
  report.note = device.note();
  report.host_addressable = info.host_addressable;
  report.memory_bytes = info.memory_bytes;
  report.numa_node = info.numa_node;
  report.pci_address = info.pci_address;
  if (!report.host_addressable) {
    fill_near_cpus(report);
    try_mapping(device, report);
    if (measure) {
      if (auto rates = measure_bus(device, kBusBytes); rates.ok()) {
        report.pinned_to_device_bytes_per_second = rates->pinned_to_device;
        report.device_to_pinned_bytes_per_second = rates->device_to_pinned;
        report.pageable_to_device_bytes_per_second = rates->pageable_to_device;
      } else {
        report.status = std::move(rates).status();
      }
    }
  }
  // After the copies, since an idle GPU trains its link down to save power.
  fill_pcie(report);
  return report;
}

Result<DeviceReport> open_and_inspect(const std::string& name, bool measure) {
  HEADRACE_TRY_ASSIGN(const auto device, device::open_device(name));
  return inspect(*device, measure);
}

DeviceReport refused(const std::string& name, Status status) {
  DeviceReport report;
  report.name = name;
  report.status = std::move(status);
  return report;
}

}  // namespace

Result<std::vector<DeviceReport>> probe_devices(const std::string& name, bool measure) {
  std::vector<DeviceReport> reports;
  if (name != "auto") {
    const std::string kind = name.substr(0, name.find(':'));
    auto report = open_and_inspect(name, measure);
    if (report.ok()) {
      reports.push_back(std::move(report).value());
    } else if (kind.rfind("host", 0) == 0 || report.status().code() == Code::kInvalidArgument) {
      return std::move(report).status();
    } else {
      reports.push_back(refused(name, std::move(report).status()));
    }
    return reports;
  }
  HEADRACE_TRY_ASSIGN(auto host, open_and_inspect("host", measure));
  reports.push_back(std::move(host));
  for (const device::DeviceRow& row : device::devices()) {
    const std::string kind = row.kind;
    if (kind.rfind("host", 0) == 0) continue;
    const auto count = row.count();
    if (!count.ok()) {
      reports.push_back(refused(kind, count.status()));
      continue;
    }
    for (int i = 0; i < *count; ++i) {
      const std::string one = kind + ":" + std::to_string(i);
      auto report = open_and_inspect(one, measure);
      reports.push_back(report.ok() ? std::move(report).value() : refused(one, std::move(report).status()));
    }
  }
  return reports;
}

}  // namespace headrace::system

// A report is printed in full, also for machines unlike this one: GPUs, narrow links, faulty file systems.
#include "tools/headrace/doctor_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace headrace::cli {
namespace {

SystemReport gpu_machine() {
  SystemReport report;
  report.host.kernel = "Linux 6.8.0 x86_64";
  report.host.cpus = 16;
  report.host.cpus_online = 64;
  report.host.numa_nodes = 2;
  report.host.memory_bytes = 200'000'000'000;
  report.host.memory_available_bytes = 100'000'000'000;
  report.host.cgroup_version = 2;
  report.host.cgroup_memory_limit_bytes = 64'000'000'000;
  report.host.cgroup_memory_available_bytes = 63'000'000'000;
  report.host.cgroup_cpu_quota = 1.5;
  report.host.cgroup_cpu_set = std::vector<unsigned>{0, 1, 2, 3, 8};
  report.host.open_files_limit = UINT64_MAX;
  report.host.io_uring_disabled = 2;
  report.host.nvidia_driver = "580.95.05";
  report.host.copy_one_core_bytes_per_second = 9.6e9;
  report.host.copy_all_cores_bytes_per_second = 50e9;
  report.host.copy_threads = 8;
  report.engines = {{"io_uring", Status(Code::kPermission, Layer::kIo, "io_uring is forbidden here"), "", 0},
                    {"aio", {}, "poll", 128}};
  DeviceReport gpu;
  gpu.name = "cuda:0";
  gpu.description = "NVIDIA H200, driver 580.95.05";
  gpu.memory_bytes = 150'000'000'000;
  gpu.numa_node = 1;
  gpu.near_cpus = {2, 3, 8};
  gpu.binds_threads = true;
  gpu.pci_address = "0000:3B:00.0";
  gpu.pcie = {16, 32, 8, 16};
  gpu.pinned_to_device_bytes_per_second = 55.4e9;
  gpu.device_to_pinned_bytes_per_second = 54.1e9;
  gpu.pageable_to_device_bytes_per_second = 8.9e9;
  gpu.registers_file_mappings = true;
  DeviceReport none;
  none.name = "cuda:1";
  none.status = Status(Code::kUnsupported, Layer::kDevice, "there is no NVIDIA driver");
  report.devices = {gpu, none};
  report.pci_gpus = {{"0000:3b:00.0", "", -1, {}}};
  report.gds.meaning = "GPUDirect Storage is not installed";
  report.warnings = {"io_uring cannot be used"};
  PathReport good;
  good.path = good.sample_file = "/data/f";
  good.sample_bytes = 1'000'000'000;
  good.filesystem = "xfs";
  good.mount_point = "/data";
  good.mount_source = "/dev/nvme0n1";
  good.block_device = "nvme0n1";
  good.block_driver = "nvme";
  good.block_model = "Model X";
  good.rotational = false;
  good.direct_works = true;
  good.direct_memory_alignment_bytes = 4;
  good.direct_offset_alignment_bytes = 512;
  good.direct_alignment_source = "statx";
  good.resident_share = 0.25;
  good.residency_source = "cachestat";
  good.cachestat_allowed = true;
  good.direct_read_bytes_per_second = 4e9;
  good.direct_read_engine = "aio";
  good.advice = {{"cuda:0", ReadPath::kDirect, 4e9, "it is cold", {"buy more disks"}, "direct, as it is cold"}};
  good.warnings = {"overlay\nwith a newline"};
  PathReport bad;
  bad.path = "/no\x1bwhere";
  bad.status = Status(Code::kNotFound, Layer::kBase, "cannot open");
  report.paths = {good, bad};
  return report;
}

TEST(DoctorText, SaysEverythingInAlignedRows) {
  const std::string text = doctor_text(gpu_machine());
  for (const char* part : {"16 of 64 may be used, 2 NUMA nodes; control group: CPUs 0-3, 8, time of 1.5",
                           "200 GB, 100 GB available; control group v2: limit 64.0 GB, 63.0 GB left",
                           "no limit (RLIMIT_MEMLOCK)",
                           "forbidden to all",
                           "9.60 GB/s copied by one core, 50.0 GB/s by 8",
                           "io_uring         cannot be used: permission denied: io_uring is forbidden here",
                           "aio              usable: poll, 128 requests at once",
                           "NVIDIA H200, driver 580.95.05, 150 GB, NUMA node 1",
                           "0000:3B:00.0, PCIe x8 at 16 GT/s (at most x16 at 32)",
                           "55.4 GB/s from pinned memory, 54.1 GB/s to it, 8.90 GB/s from ordinary memory",
                           "  CPUs 2-3, 8 near it; threads that carry bytes to it are kept there\n",
                           "reads the page cache by itself",
                           "cuda:1           cannot be used: unsupported: there is no NVIDIA driver",
                           "driver none, PCIe link unknown",
                           "! io_uring cannot be used\n",
                           "xfs, /dev/nvme0n1 at /data",
                           "nvme0n1, nvme, Model X, not rotational",
                           "works; memory aligned to 4 bytes, offsets to 512 (statx)",
                           "holds 25 % of it (cachestat); cachestat allowed",
                           "4.00 GB/s read by aio",
                           "-> cuda:0        direct, as it is cold",
                           "! overlay with a newline\n",
                           "! cannot be examined: not found: cannot open\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  ", 0) != 0) continue;
    EXPECT_EQ(line.at(18), ' ') << line;
  }
}

TEST(DoctorText, WhyThreadsAreNotBound) {
  SystemReport report = gpu_machine();
  DeviceReport& gpu = report.devices.at(0);
  const auto says = [&](const char* line) {
    const std::string text = doctor_text(report);
    return text.find(line) != std::string::npos ? std::string() : text;
  };
  gpu.near_cpus = {5};
  EXPECT_EQ(says("  CPU 5 near it; threads that carry bytes to it are kept there\n"), "");
  gpu.binds_threads = false;
  gpu.binds_threads_why_not = "every CPU that this process may run on is near it";
  EXPECT_EQ(
      says("  CPU 5 near it; threads that carry bytes to it are not bound to CPUs: every CPU that this process may "
           "run on is near it\n"),
      "");
  gpu.near_cpus.clear();
  gpu.binds_threads_why_not = "the machine has one NUMA node";
  EXPECT_EQ(says("  threads that carry bytes to it are not bound to CPUs: the machine has one NUMA node\n"), "");
}

TEST(DoctorText, AnEmptyReport) {
  const std::string text = doctor_text({});
  EXPECT_NE(text.find("machine"), std::string::npos);
  EXPECT_EQ(text.find('!'), std::string::npos);
}

nlohmann::json parsed(const SystemReport& report) { return doctor_json(report); }

TEST(DoctorJson, Values) {
  const auto json = parsed(gpu_machine());
  EXPECT_EQ(json["host"]["cgroup_memory_limit_bytes"], 64'000'000'000);
  EXPECT_EQ(json["host"]["cgroup_cpu_set"], (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(json["host"]["cgroup_cpu_quota_cpus"], 1.5);
  EXPECT_TRUE(json["host"]["memlock_limit_bytes"].is_null());
  EXPECT_TRUE(json["host"]["open_files_limit"].is_null());
  EXPECT_EQ(json["engines"][0]["usable"], false);
  EXPECT_EQ(json["engines"][0]["why_not"], "permission denied: io_uring is forbidden here");
  EXPECT_EQ(json["devices"][0]["pcie"]["lanes"], 8);
  EXPECT_EQ(json["devices"][0]["pcie"]["max_gigatransfers_per_second"], 32);
  EXPECT_EQ(json["devices"][0]["pinned_to_device_bytes_per_second"], 55.4e9);
  EXPECT_EQ(json["devices"][0]["numa_node"], 1);
  EXPECT_EQ(json["devices"][0]["near_cpus"], (std::vector<int>{2, 3, 8}));
  EXPECT_EQ(json["devices"][0]["binds_threads"], true);
  EXPECT_TRUE(json["devices"][0]["binds_threads_why_not"].is_null());
  EXPECT_TRUE(json["pci_gpus"][0]["numa_node"].is_null());
  EXPECT_EQ(json["paths"][0]["advice"][0]["read_path"], "direct");
  EXPECT_EQ(json["paths"][0]["advice"][0]["faster"][0], "buy more disks");
  EXPECT_EQ(json["paths"][0]["resident_share"], 0.25);
  EXPECT_TRUE(json["paths"][0]["error"].is_null());
  EXPECT_EQ(json["paths"][1]["error"], "not found: cannot open");
}

// Key names are stable, and present whatever is known: a program need not check whether a key exists.
TEST(DoctorJson, NamesDoNotDependOnWhatIsKnown) {
  SystemReport blank;
  blank.engines.resize(1);
  blank.devices.resize(1);
  blank.pci_gpus.resize(1);
  blank.paths.resize(1);
  blank.paths[0].advice.resize(1);
  const auto full = parsed(gpu_machine()), empty = parsed(blank);
  const auto names = [](const nlohmann::json& object) {
    std::vector<std::string> out;
    for (const auto& [name, value] : object.items()) out.push_back(name);
    return out;
  };
  EXPECT_EQ(names(full), names(empty));
  EXPECT_EQ(names(full["host"]), names(empty["host"]));
  EXPECT_EQ(names(full["gds"]), names(empty["gds"]));
  for (const char* list : {"engines", "devices", "pci_gpus", "paths"}) {
    EXPECT_EQ(names(full[list][0]), names(empty[list][0])) << list;
  }
  EXPECT_EQ(names(full["paths"][0]["advice"][0]), names(empty["paths"][0]["advice"][0]));
}

}  // namespace
}  // namespace headrace::cli

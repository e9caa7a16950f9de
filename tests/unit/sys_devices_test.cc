// The information of /sys and /proc on disks, links and drivers is read correctly, in all its forms.
#include "os/sys_devices.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "os/host_limits.h"

namespace headrace::os {
namespace {

TEST(SysDevices, Scheduler) {
  EXPECT_EQ(active_scheduler("[none] mq-deadline kyber\n"), "none");
  EXPECT_EQ(active_scheduler("none [mq-deadline]"), "mq-deadline");
  EXPECT_EQ(active_scheduler("none\n"), "none");
  EXPECT_EQ(active_scheduler("]["), "][");
  EXPECT_EQ(active_scheduler(""), "");
}

TEST(SysDevices, LinkSpeed) {
  EXPECT_EQ(parse_link_speed("32.0 GT/s PCIe"), 32);
  EXPECT_EQ(parse_link_speed("2.5 GT/s"), 2.5);
  for (const char* none :
       {"Unknown", "Unknown speed", "", "GT/s", "32.0", "32.0x GT/s", "-8 GT/s", "1e99 GT/s", "nan GT/s"}) {
    EXPECT_EQ(parse_link_speed(none), 0) << none;
  }
}

TEST(SysDevices, PciRegions) {
  const char* const gpu =
      "0x0000104002000000 0x0000104002ffffff 0x000000000014220c\n"
      "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
      "0x0000100000000000 0x0000103fffffffff 0x000000000014220c\n"
      "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
  EXPECT_EQ(parse_pci_regions(gpu), (std::vector<std::uint64_t>{16 << 20, std::uint64_t{256} << 30}));
  const std::string line = "0x1000 0x1fff 0x200\n";
  EXPECT_EQ(parse_pci_regions(line + line + line + line + line + line + line).size(), 6u);
  for (const char* none : {"", "\n\n", "0x1000", "0x2000 0x1000 0x0", "text", "0x 0x 0x"}) {
    EXPECT_TRUE(parse_pci_regions(none).empty()) << none;
  }
}

TEST(SysDevices, NoSuchPciDevice) {
  EXPECT_FALSE(pci_device(""));
  EXPECT_FALSE(pci_device("0000:ff:1f.7"));
  EXPECT_TRUE(pci_gpus(0xfffe).empty());
}

TEST(SysDevices, NoDiskBehindProc) {
  const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const auto mount = mount_of(fd);
  ::close(fd);
  ASSERT_TRUE(mount);
  EXPECT_FALSE(block_device_of(*mount));
  Mount fake;
  fake.source = "/dev/null";  // a device, but not a block device
  EXPECT_FALSE(block_device_of(fake));
}

TEST(SysDevices, EveryMountedDiskHasAName) {
  for (const Mount& mount : parse_mountinfo("")) FAIL() << mount.type;
  const int fd = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto root = mount_of(fd);
  ::close(fd);
  ASSERT_TRUE(root);
  if (const auto disk = block_device_of(*root)) {
    EXPECT_FALSE(disk->name.empty());
    EXPECT_EQ(disk->scheduler.find('['), std::string::npos);
  } else {
    EXPECT_TRUE(root->major == 0 || ::access("/sys/dev/block", F_OK) != 0) << root->type;
  }
}

TEST(HostLimits, NvidiaDriver) {
  EXPECT_EQ(
      parse_nvidia_driver("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 09:55:41 UTC 2025\n"
                          "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1)\n"),
      "580.95.05");
  EXPECT_EQ(parse_nvidia_driver("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build\n"),
            "570.133.20");
  EXPECT_EQ(parse_nvidia_driver(""), "");
  EXPECT_EQ(parse_nvidia_driver("no version\n1.2"), "");
}

TEST(HostLimits, Modules) {
  constexpr const char* kModules =
      "nvidia_fs 323584 0 - Live 0x0000000000000000 (OE)\nnvidia 56856576 1 nvidia_fs, Live 0x0 (POE)\n";
  EXPECT_TRUE(module_listed(kModules, "nvidia_fs"));
  EXPECT_TRUE(module_listed(kModules, "nvidia"));
  EXPECT_FALSE(module_listed(kModules, "nvidia_uvm"));
  EXPECT_FALSE(module_listed("", "nvidia"));
}

TEST(HostLimits, ThisMachine) {
  EXPECT_EQ(kernel_name().rfind("Linux ", 0), 0u);
  EXPECT_GE(online_cpus(), 1u);
  EXPECT_GE(numa_node_count(), 1u);
  const MemoryAmount memory = host_memory();
  EXPECT_GT(memory.available_bytes, 0u);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
  EXPECT_GT(open_files_limit().value_or(1), 0u);
  EXPECT_EQ(shared_library_path("libheadrace-no-such-library.so.9"), "");
  EXPECT_NE(shared_library_path("libc.so.6").find("libc"), std::string::npos);
}

}  // namespace
}  // namespace headrace::os

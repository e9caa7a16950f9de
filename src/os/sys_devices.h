// Block devices and PCI devices as /sys describes them.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/filesystem.h"

namespace headrace::os {

struct BlockDevice {
  std::string name;    // "nvme0n1": the whole disk, even if a partition is mounted
  std::string driver;  // "nvme", "virtio", "scsi", "device mapper", "md", "loop", "zram"; empty: other
  std::string model;   // empty: not reported
  std::optional<bool> rotational;
  std::uint64_t queue_depth = 0;  // 0: not reported
  std::string scheduler;          // the active one
};

// The device behind a mount, found by its number or its source's name. Nothing if there is none (network, memory,
// overlay) or /sys is hidden.
std::optional<BlockDevice> block_device_of(const Mount& mount);

// "[none] mq-deadline" gives "none". A list without brackets is returned as it is.
std::string_view active_scheduler(std::string_view text) noexcept;

struct PciDevice {
  std::string address;  // "0000:3b:00.0"
  std::string driver;   // empty: none
  int numa_node = -1;
  double gigatransfers_per_second = 0, max_gigatransfers_per_second = 0;  // 0: not reported
  unsigned lanes = 0, max_lanes = 0;
  // Sizes of its regions in order; the second region of an NVIDIA GPU is its memory.
  std::vector<std::uint64_t> region_bytes;
};

// REQUIRES: an address as CUDA or /sys writes it. Nothing if there is no such device.
std::optional<PciDevice> pci_device(std::string_view address);
// Display controllers and accelerators of one vendor, ordered by address.
std::vector<PciDevice> pci_gpus(std::uint32_t vendor);
inline constexpr std::uint32_t kNvidiaVendor = 0x10de;

// Region sizes from /sys's file "resource": one line per region with first address, last address and flags, all 0 for
// regions that the device lacks. Only the first six lines are its own regions; later and malformed lines are ignored.
std::vector<std::uint64_t> parse_pci_regions(std::string_view text);

// The number in "32.0 GT/s PCIe" or "8 GT/s"; 0 for "Unknown" and anything else.
double parse_link_speed(std::string_view text) noexcept;

}  // namespace headrace::os

// What /sys tells of block devices and of the PCI bus.
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
  std::string name;    // "nvme0n1": the whole disk, also where a partition is mounted
  std::string driver;  // "nvme", "virtio", "scsi", "device mapper", "md", "loop", "zram"; empty: something else
  std::string model;   // empty: not told
  std::optional<bool> rotational;
  std::uint64_t queue_depth = 0;  // 0: not told
  std::string scheduler;          // the active one
};

// The device behind a mount, by its number or by its source's name; nothing where there is none (network, memory,
// overlay) or /sys is hidden.
std::optional<BlockDevice> block_device_of(const Mount& mount);

// "[none] mq-deadline": none. A list without brackets is itself.
std::string_view active_scheduler(std::string_view text) noexcept;

struct PciDevice {
  std::string address;  // "0000:3b:00.0"
  std::string driver;   // empty: none
  int numa_node = -1;
  double gigatransfers_per_second = 0, max_gigatransfers_per_second = 0;  // 0: not told
  unsigned lanes = 0, max_lanes = 0;
  // Of the regions that it has, in order; the second one of an NVIDIA GPU is its memory.
  std::vector<std::uint64_t> region_bytes;
};

// REQUIRES: an address as CUDA or /sys writes it; nothing if there is no such device.
std::optional<PciDevice> pci_device(std::string_view address);
// Display controllers and accelerators of one vendor, by address.
std::vector<PciDevice> pci_gpus(std::uint32_t vendor);
inline constexpr std::uint32_t kNvidiaVendor = 0x10de;

// Sizes of the regions in /sys's file "resource": a line each, first and last address and flags, all 0 for those that a
// device does not have. The first six are its own; what follows, and what is not such a line, is left out.
std::vector<std::uint64_t> parse_pci_regions(std::string_view text);

// "32.0 GT/s PCIe" or "8 GT/s": the number; 0 for "Unknown" and anything else.
double parse_link_speed(std::string_view text) noexcept;

}  // namespace headrace::os

#include "os/sys_devices.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "os/proc_text.h"

namespace headrace::os {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPciFolder = "/sys/bus/pci/devices/";
constexpr unsigned kMaxLanes = 32;

std::string driver_of(const fs::path& disk) {
  const std::string name = disk.filename().string(), place = disk.string();
  const auto begins = [&](const char* text) { return name.rfind(text, 0) == 0; };
  if (begins("dm-")) return "device mapper";
  if (begins("md")) return "md";
  if (begins("loop")) return "loop";
  if (begins("zram")) return "zram";
  if (begins("nvme")) return "nvme";
  if (place.find("/virtio") != std::string::npos) return "virtio";
  if (begins("sd")) return "scsi";
  return {};
}

std::optional<fs::path> disk_folder(unsigned major, unsigned minor) {
  std::error_code error;
  fs::path folder = fs::canonical("/sys/dev/block/" + std::to_string(major) + ":" + std::to_string(minor), error);
  if (error) return std::nullopt;
  // A partition's attributes are those of its disk, one folder up.
  if (fs::exists(folder / "partition", error)) folder = folder.parent_path();
  return folder;
}

unsigned lanes_in(const std::string& file) {
  const auto lanes = read_number(file);
  return lanes && *lanes <= kMaxLanes ? static_cast<unsigned>(*lanes) : 0;
}

std::uint32_t hexadecimal(std::string_view text) {
  std::uint32_t number = 0;
  if (text.substr(0, 2) == "0x") text.remove_prefix(2);
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

}  // namespace

std::string_view active_scheduler(std::string_view text) noexcept {
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return trimmed(text);
  return text.substr(open + 1, close - open - 1);
}

std::optional<BlockDevice> block_device_of(const Mount& mount) {
  auto folder = disk_folder(mount.major, mount.minor);
  struct stat info {};
  // btrfs and others have device numbers of their own; their mount source names the block device.
  if (!folder && mount.source.rfind("/dev/", 0) == 0 && ::stat(mount.source.c_str(), &info) == 0 &&
      S_ISBLK(info.st_mode)) {
    folder = disk_folder(major(info.st_rdev), minor(info.st_rdev));
  }
  if (!folder) return std::nullopt;
  BlockDevice device;
  device.name = folder->filename().string();
  device.driver = driver_of(*folder);
  const std::string place = folder->string();
  device.model = read_first_line(place + "/device/model").value_or("");
  if (const auto rotational = read_number(place + "/queue/rotational")) device.rotational = *rotational != 0;
  device.queue_depth = read_number(place + "/queue/nr_requests").value_or(0);
  device.scheduler = active_scheduler(read_first_line(place + "/queue/scheduler").value_or(""));
  return device;
}

double parse_link_speed(std::string_view text) noexcept {
  double speed = 0;
  const std::string_view number = next_word(text);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), speed);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  return whole && next_word(text) == "GT/s" && speed > 0 && speed < 1000 ? speed : 0;
}

std::vector<std::uint64_t> parse_pci_regions(std::string_view text) {
  constexpr int kOwn = 6;
  std::vector<std::uint64_t> regions;
  for (int line = 0; line < kOwn && !text.empty(); ++line) {
    const std::string one(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    unsigned long long first = 0, last = 0;
    if (std::sscanf(one.c_str(), "0x%16llx 0x%16llx", &first, &last) == 2 && last > first) {
      regions.push_back(last - first + 1);
    }
  }
  return regions;
}

std::optional<PciDevice> pci_device(std::string_view address) {
  PciDevice device;
  device.address = address;
  // CUDA writes the digits in upper case.
  std::transform(device.address.begin(), device.address.end(), device.address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string folder = kPciFolder + device.address;
  std::error_code error;
  if (device.address.empty() || !fs::is_directory(folder, error)) return std::nullopt;
  if (const fs::path driver = fs::read_symlink(folder + "/driver", error); !error) {
    device.driver = driver.filename().string();
  }
  // "-1" on single-node machines does not parse as a number.
  if (const auto node = read_number(folder + "/numa_node"); node && *node < 65536) {
    device.numa_node = static_cast<int>(*node);
  }
  device.gigatransfers_per_second = parse_link_speed(read_first_line(folder + "/current_link_speed").value_or(""));
  device.max_gigatransfers_per_second = parse_link_speed(read_first_line(folder + "/max_link_speed").value_or(""));
  device.lanes = lanes_in(folder + "/current_link_width");
  device.max_lanes = lanes_in(folder + "/max_link_width");
  std::ifstream regions(folder + "/resource");
  device.region_bytes = parse_pci_regions(std::string(std::istreambuf_iterator<char>(regions), {}));
  return device;
}

std::vector<PciDevice> pci_gpus(std::uint32_t vendor) {
  std::vector<PciDevice> gpus;
  std::error_code error;
  for (fs::directory_iterator at(kPciFolder, error), end; !error && at != end; at.increment(error)) {
    const std::string folder = at->path().string();
    if (hexadecimal(read_first_line(folder + "/vendor").value_or("")) != vendor) continue;
    // Class 0x03: display controllers, which include data-centre GPUs; 0x12: processing accelerators.
    const std::uint32_t kind = hexadecimal(read_first_line(folder + "/class").value_or("")) >> 16;
    if (kind != 0x03 && kind != 0x12) continue;
    if (auto device = pci_device(at->path().filename().string())) gpus.push_back(std::move(*device));
  }
  std::sort(gpus.begin(), gpus.end(), [](const PciDevice& a, const PciDevice& b) { return a.address < b.address; });
  return gpus;
}

}  // namespace headrace::os

// What the control groups of this process allow: memory and CPUs, in versions 1 and 2.
//
// A limit counts wherever it is set between the process's own group and the top of what is mounted here; in a
// container that is usually the container's own group alone.
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

struct CgroupLimits {
  int memory_version = 0;                               // 2, 1, or 0: no memory controller is mounted here
  std::optional<std::uint64_t> memory_limit_bytes;      // smallest that holds; none: unlimited
  std::optional<std::uint64_t> memory_available_bytes;  // what is left below the limits, page cache counted as free
  std::optional<double> cpu_quota;                      // CPUs' worth of time; none: unlimited
  std::optional<std::vector<unsigned>> cpu_set;         // CPUs the group may run on; none: not told
};

// Reads files, some twenty of them: ask once, not for every request. `root` is put before every path, for tests.
CgroupLimits cgroup_limits(const std::string& root = "");

// The groups of this process that limit its memory, to be asked again and again what is in them: two or three small
// files a group.
//
// Threads: every call from any thread.
class MemoryGroups {
 public:
  explicit MemoryGroups(const std::string& root = "");
  bool any() const noexcept { return !folders_.empty(); }
  // What the machine has, or what a group allowed when this was made where that is less.
  std::uint64_t memory_limit_bytes() const noexcept { return memory_limit_bytes_; }

  struct PageCache {
    std::uint64_t room_bytes = 0;    // what the limit leaves for it, and for what is free
    std::uint64_t mapped_bytes = 0;  // of it, mapped by whatever process of the group: what devices reach, and more
  };
  // One for each that tells.
  std::vector<PageCache> page_cache() const;

 private:
  int version_ = 0;
  std::vector<std::string> folders_;
  std::uint64_t memory_limit_bytes_ = 0;
};

// Which group of a process belongs to `controller` ("memory"), from the text of /proc/PID/cgroup. Version 1 groups are
// preferred, as the kernel has a controller in one hierarchy only.
struct CgroupMembership {
  int version = 0;
  std::string path;
};
std::optional<CgroupMembership> parse_cgroup_membership(std::string_view text, std::string_view controller);

// Folders that hold the group's files, innermost first, up to where its hierarchy is mounted.
std::vector<std::string> cgroup_folders(const std::vector<Mount>& mounts, const CgroupMembership& membership,
                                        std::string_view controller);

// memory.max or memory.limit_in_bytes; nothing for "max" and for version 1's largest number.
std::optional<std::uint64_t> parse_memory_limit(std::string_view text);
// cpu.max, "200000 100000": CPUs' worth of time; nothing for "max".
std::optional<double> parse_cpu_quota(std::string_view text);

}  // namespace headrace::os

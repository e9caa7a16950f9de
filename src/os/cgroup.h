// The memory and CPU limits that control groups (versions 1 and 2) impose on this process.
//
// A limit applies wherever it is set between the process's own group and the top of what is mounted here; in a
// container that is usually just the container's own group.
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
  std::optional<std::uint64_t> memory_limit_bytes;      // the tightest limit; none: unlimited
  std::optional<std::uint64_t> memory_available_bytes;  // left below the limits; page cache counts as free
  std::optional<double> cpu_quota;                      // CPU time as a number of CPUs; none: unlimited
  std::optional<std::vector<unsigned>> cpu_set;         // CPUs the group may run on; none: not reported
};

// Reads some twenty files, so call it once, not per request. `root` is prefixed to every path, for tests.
CgroupLimits cgroup_limits(const std::string& root = "");

// The groups that limit this process's memory, for repeated queries of their usage. A query reads two or three small
// files per group.
//
// Threads: every call from any thread.
class MemoryGroups {
 public:
  explicit MemoryGroups(const std::string& root = "");
  bool any() const noexcept { return !folders_.empty(); }
  // The machine's memory, or a group's limit at construction time if that is smaller.
  std::uint64_t memory_limit_bytes() const noexcept { return memory_limit_bytes_; }

  struct PageCache {
    std::uint64_t room_bytes = 0;    // what the limit leaves for page cache and free memory
    std::uint64_t mapped_bytes = 0;  // the part mapped by any process of the group: what devices can read, and more
  };
  // One entry per group that reports its usage.
  std::vector<PageCache> page_cache() const;

 private:
  int version_ = 0;
  std::vector<std::string> folders_;
  std::uint64_t memory_limit_bytes_ = 0;
};

// The group of a process for `controller` ("memory"), from the text of /proc/PID/cgroup. Version 1 groups take
// precedence, as the kernel attaches a controller to one hierarchy only.
struct CgroupMembership {
  int version = 0;
  std::string path;
};
std::optional<CgroupMembership> parse_cgroup_membership(std::string_view text, std::string_view controller);

// Folders with the group's files, innermost first, up to the mount point of its hierarchy.
std::vector<std::string> cgroup_folders(const std::vector<Mount>& mounts, const CgroupMembership& membership,
                                        std::string_view controller);

// memory.max or memory.limit_in_bytes; nothing for "max" and for version 1's largest number.
std::optional<std::uint64_t> parse_memory_limit(std::string_view text);
// cpu.max, such as "200000 100000", as a number of CPUs; nothing for "max".
std::optional<double> parse_cpu_quota(std::string_view text);

}  // namespace headrace::os

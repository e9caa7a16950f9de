#include "os/cgroup.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/fork.h"
#include "os/host_limits.h"
#include "os/proc_text.h"

namespace headrace::os {
namespace {

// Version 1 has no "unlimited": it writes LONG_MAX rounded down to a page.
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;

template <class T>
void keep_smaller(std::optional<T>& kept, const std::optional<T>& other) {
  if (other && (!kept || *other < *kept)) kept = other;
}

struct MemoryFiles {
  const char *limit, *usage, *inactive, *active, *mapped;
};
constexpr MemoryFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
                                "total_active_file", "total_mapped_file"};
constexpr MemoryFiles kVersion2{"/memory.max", "/memory.current", "inactive_file", "active_file", "file_mapped"};
const MemoryFiles& memory_files(int version) { return version == 2 ? kVersion2 : kVersion1; }

std::optional<std::uint64_t> memory_limit(const std::string& folder, const MemoryFiles& files) {
  const auto text = read_first_line(folder + files.limit);
  return text ? parse_memory_limit(*text) : std::nullopt;
}

// Memory left below the limit. Page cache is charged to the group too, but counts as free, since the kernel reclaims it
// before it refuses memory. `stat`: the text of memory.stat.
std::optional<std::uint64_t> memory_available(const std::string& folder, const MemoryFiles& files, std::uint64_t limit,
                                              std::string_view stat) {
  const auto usage = read_number(folder + files.usage);
  if (!usage) return std::nullopt;
  const std::uint64_t cached =
      labelled_number(stat, files.inactive).value_or(0) + labelled_number(stat, files.active).value_or(0);
  const std::uint64_t held = *usage - std::min(*usage, cached);
  return limit - std::min(limit, held);
}

void add_memory(CgroupLimits& limits, const std::string& folder, const MemoryFiles& files) {
  const auto limit = memory_limit(folder, files);
  if (!limit) return;
  keep_smaller(limits.memory_limit_bytes, limit);
  const auto stat = read_text_file(folder + "/memory.stat");
  keep_smaller(limits.memory_available_bytes, memory_available(folder, files, *limit, stat.value_or("")));
}

// The process's memory group and its ancestors, prefixed with `root`.
struct MemoryFolders {
  int version = 0;
  std::vector<std::string> folders;
};
MemoryFolders memory_folders(const std::string& root, std::string_view groups, const std::vector<Mount>& mounts) {
  MemoryFolders out;
  const auto membership = parse_cgroup_membership(groups, "memory");
  if (!membership) return out;
  out.folders = cgroup_folders(mounts, *membership, "memory");
  if (!out.folders.empty()) out.version = membership->version;
  for (std::string& folder : out.folders) folder.insert(0, root);
  return out;
}

// Cached version: reuses the last result if the process is in the same groups. Listing the mounts takes longer than
// anything else a Context asks the kernel, and control groups are not mounted later.
MemoryFolders known_memory_folders(const std::string& root, const std::string& groups) {
  struct Known {
    std::mutex mutex;
    std::string root, groups;  // guarded by mutex, as `folders`
    std::optional<MemoryFolders> folders;
  };
  static base::PerProcess<Known> last;
  Known& known = last.get();
  std::lock_guard lock(known.mutex);
  if (known.folders && known.root == root && known.groups == groups) return *known.folders;
  const auto mountinfo = read_text_file(root + "/proc/self/mountinfo");
  if (!mountinfo) return {};
  known.folders.reset();
  known.root = root;
  known.groups = groups;
  known.folders = memory_folders(root, groups, parse_mountinfo(*mountinfo));
  return *known.folders;
}

std::optional<double> quota_of(const std::string& folder, int version) {
  if (version == 2) {
    const auto text = read_first_line(folder + "/cpu.max");
    return text ? parse_cpu_quota(*text) : std::nullopt;
  }
  const auto quota = read_number(folder + "/cpu.cfs_quota_us");  // "-1" (unlimited) does not parse as a number
  const auto period = read_number(folder + "/cpu.cfs_period_us");
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::optional<CgroupMembership> parse_cgroup_membership(std::string_view text, std::string_view controller) {
  std::optional<CgroupMembership> unified;
  std::string_view line;
  while (next_line(text, line)) {  // hierarchy:controllers:path; the path may hold colons
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path.empty() || path[0] != '/') continue;
    if (!controllers.empty() && lists_word(controllers, controller)) return CgroupMembership{1, std::move(path)};
    if (controllers.empty() && line.substr(0, first) == "0") unified = CgroupMembership{2, std::move(path)};
  }
  return unified;
}

std::vector<std::string> cgroup_folders(const std::vector<Mount>& mounts, const CgroupMembership& membership,
                                        std::string_view controller) {
  std::vector<std::string> folders;
  for (const Mount& mount : mounts) {
    const bool fits = membership.version == 2 ? mount.type == "cgroup2"
                                              : mount.type == "cgroup" && lists_word(mount.super_options, controller);
    if (!fits) continue;
    // In a container, the group is at the mount point, while /proc may still give the path outside. Groups above the
    // mounted part, or in another namespace (".."), are not visible here.
    std::string_view path = membership.path;
    const std::string_view mounted = mount.root == "/" ? std::string_view() : std::string_view(mount.root);
    const bool beneath = path.substr(0, mounted.size()) == mounted &&
                         (path.size() == mounted.size() || path[mounted.size()] == '/') &&
                         path.find("/..") == std::string_view::npos;
    path = beneath ? path.substr(mounted.size()) : std::string_view();
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
    while (!path.empty()) {
      folders.push_back(mount.mount_point + std::string(path));
      path = path.substr(0, path.rfind('/'));
    }
    folders.push_back(mount.mount_point);
    break;
  }
  return folders;
}

std::optional<std::uint64_t> parse_memory_limit(std::string_view text) {
  const auto bytes = parse_number(trimmed(text));
  return bytes && *bytes < kUnlimited ? bytes : std::nullopt;
}

std::optional<double> parse_cpu_quota(std::string_view text) {
  const auto quota = parse_number(next_word(text)), period = parse_number(next_word(text));
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const auto groups = read_text_file(root + "/proc/self/cgroup");
  const auto mountinfo = read_text_file(root + "/proc/self/mountinfo");
  if (!groups || !mountinfo) return limits;
  const std::vector<Mount> mounts = parse_mountinfo(*mountinfo);

  const MemoryFolders memory = memory_folders(root, *groups, mounts);
  limits.memory_version = memory.version;
  for (const std::string& folder : memory.folders) add_memory(limits, folder, memory_files(memory.version));
  if (const auto cpu = parse_cgroup_membership(*groups, "cpu")) {
    for (const std::string& folder : cgroup_folders(mounts, *cpu, "cpu")) {
      keep_smaller(limits.cpu_quota, quota_of(root + folder, cpu->version));
    }
  }
  if (const auto cpuset = parse_cgroup_membership(*groups, "cpuset")) {
    // The innermost group with a value includes its ancestors' restrictions.
    const char* file = cpuset->version == 2 ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus";
    for (const std::string& folder : cgroup_folders(mounts, *cpuset, "cpuset")) {
      const auto text = read_first_line(root + folder + file);
      if (!text || text->empty()) continue;
      limits.cpu_set = parse_cpu_list(*text);
      break;
    }
  }
  return limits;
}

MemoryGroups::MemoryGroups(const std::string& root) : memory_limit_bytes_(machine_memory_bytes()) {
  const auto groups = read_text_file(root + "/proc/self/cgroup");
  if (!groups) return;
  MemoryFolders memory = known_memory_folders(root, *groups);
  version_ = memory.version;
  folders_ = std::move(memory.folders);
  std::erase_if(folders_, [&](const std::string& folder) {
    const auto limit = memory_limit(folder, memory_files(version_));
    if (limit) memory_limit_bytes_ = std::min(memory_limit_bytes_, *limit);
    return !limit;
  });
}

std::vector<MemoryGroups::PageCache> MemoryGroups::page_cache() const {
  const MemoryFiles& files = memory_files(version_);
  std::vector<PageCache> out;
  for (const std::string& folder : folders_) {
    const auto limit = memory_limit(folder, files);
    const auto stat = limit ? read_text_file(folder + "/memory.stat") : std::nullopt;
    const auto mapped = stat ? labelled_number(*stat, files.mapped) : std::nullopt;
    const auto room = mapped ? memory_available(folder, files, *limit, *stat) : std::nullopt;
    if (room) out.push_back({*room, *mapped});
  }
  return out;
}

}  // namespace headrace::os

// Control groups of machines and containers in both versions are understood, as are limits of parent groups. Values are
// read again each time.
#include "os/cgroup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "os/host_limits.h"
#include "support/temp_dir.h"

namespace headrace::os {
namespace {

// A virtual machine with version 1 and an empty version 2 hierarchy next to it.
constexpr const char* kHybridGroups =
    "9:name=systemd:/\n8:pids:/\n7:blkio:/\n6:freezer:/\n5:devices:/\n4:memory:/service/dafd456b\n3:cpuset:/\n"
    "2:cpuacct:/\n1:cpu:/\n0::/\n";
constexpr const char* kHybridMounts =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
// A Docker container on version 1: paths are the host's, mounts show the container's part.
constexpr const char* kDockerGroups =
    "12:cpu,cpuacct:/docker/4c01\n5:memory:/docker/4c01\n1:name=systemd:/docker/4c01\n";
constexpr const char* kDockerMounts =
    "1545 1544 0:33 /docker/4c01 /sys/fs/cgroup/cpu,cpuacct ro,nosuid,nodev,noexec,relatime master:15 - cgroup cgroup "
    "rw,cpu,cpuacct\n"
    "1550 1544 0:38 /docker/4c01 /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:20 - cgroup cgroup "
    "rw,memory\n";
// Version 2: a login session, and a container with its own namespace.
constexpr const char* kUnifiedGroups = "0::/user.slice/user-1000.slice/session-3.scope\n";
constexpr const char* kUnifiedMounts =
    "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

std::vector<std::string> folders(const char* groups, const char* mounts, std::string_view controller) {
  const auto membership = parse_cgroup_membership(groups, controller);
  if (!membership) return {};
  return cgroup_folders(parse_mountinfo(mounts), *membership, controller);
}

TEST(Cgroup, FoldersFromTheGroupToTheTop) {
  using List = std::vector<std::string>;
  EXPECT_EQ(folders(kHybridGroups, kHybridMounts, "memory"),
            (List{"/sys/fs/cgroup/memory/service/dafd456b", "/sys/fs/cgroup/memory/service", "/sys/fs/cgroup/memory"}));
  EXPECT_EQ(folders(kHybridGroups, kHybridMounts, "cpuset"), List{"/sys/fs/cgroup/cpuset"});
  EXPECT_EQ(folders(kDockerGroups, kDockerMounts, "memory"), List{"/sys/fs/cgroup/memory"});
  EXPECT_EQ(folders(kDockerGroups, kDockerMounts, "cpu"), List{"/sys/fs/cgroup/cpu,cpuacct"});
  EXPECT_EQ(folders(kUnifiedGroups, kUnifiedMounts, "memory"),
            (List{"/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope",
                  "/sys/fs/cgroup/user.slice/user-1000.slice", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}));
  EXPECT_EQ(folders("0::/\n", kUnifiedMounts, "memory"), List{"/sys/fs/cgroup"});
  // A path of another namespace, and one outside the mounted part: only the mount point can be examined.
  EXPECT_EQ(folders("0::/../../etc\n", kUnifiedMounts, "memory"), List{"/sys/fs/cgroup"});
  EXPECT_EQ(folders("5:memory:/docker/4c01x\n", kDockerMounts, "memory"), List{"/sys/fs/cgroup/memory"});
  EXPECT_EQ(folders("5:memory:/a\n", kUnifiedMounts, "memory"), List{});
}

TEST(Cgroup, Membership) {
  EXPECT_EQ(parse_cgroup_membership(kHybridGroups, "memory")->version, 1);
  EXPECT_EQ(parse_cgroup_membership(kHybridGroups, "io")->version, 2);
  EXPECT_EQ(parse_cgroup_membership(kDockerGroups, "cpuacct")->path, "/docker/4c01");
  EXPECT_EQ(parse_cgroup_membership("0::/a:b\n", "memory")->path, "/a:b");
  for (const char* bad : {"", "x", "0:", "0::", "0::relative", "1:memory:relative", "3::/a"}) {
    EXPECT_FALSE(parse_cgroup_membership(bad, "memory")) << bad;
  }
}

TEST(Cgroup, Values) {
  EXPECT_EQ(parse_memory_limit("1073741824\n"), 1073741824u);
  for (const char* none : {"max", "max\n", "", "9223372036854771712", "18446744073709551615", "-1", "1 2"}) {
    EXPECT_FALSE(parse_memory_limit(none)) << none;
  }
  EXPECT_EQ(parse_cpu_quota("150000 100000\n"), 1.5);
  for (const char* none : {"max 100000", "100000", "", "100000 0", "x y"}) EXPECT_FALSE(parse_cpu_quota(none)) << none;
}

// A tree of files as the kernel would show it.
class Tree {
 public:
  explicit Tree(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) {
      std::filesystem::create_directories(std::filesystem::path(dir_ / name).parent_path());
      EXPECT_TRUE(support::write_file(dir_ / name, std::as_bytes(std::span(text))));
    }
  }
  CgroupLimits limits() const { return cgroup_limits(dir_.path()); }
  const std::string& path() const { return dir_.path(); }
  void put(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(support::write_file(dir_ / name, std::as_bytes(std::span(text))));
  }

 private:
  support::TempDir dir_;
};

TEST(Cgroup, Version1Limits) {
  const Tree tree({{"proc/self/cgroup", kDockerGroups},
                   {"proc/self/mountinfo", kDockerMounts},
                   {"sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"},
                   {"sys/fs/cgroup/memory/memory.usage_in_bytes", "1600000000\n"},
                   {"sys/fs/cgroup/memory/memory.stat",
                    "inactive_file 1\nactive_file 2\ntotal_inactive_file 400000000\ntotal_active_file 200000000\n"},
                   {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n"},
                   {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}});
  const CgroupLimits limits = tree.limits();
  EXPECT_EQ(limits.memory_version, 1);
  EXPECT_EQ(limits.memory_limit_bytes, 2147483648u);
  EXPECT_EQ(limits.memory_available_bytes, 1147483648u);
  EXPECT_EQ(limits.cpu_quota, 2.5);
  EXPECT_FALSE(limits.cpu_set);
}

TEST(Cgroup, Version2TakesTheSmallestLimitAbove) {
  const std::string group = "sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/";
  const Tree tree({{"proc/self/cgroup", kUnifiedGroups},
                   {"proc/self/mountinfo", kUnifiedMounts},
                   {group + "memory.max", "max\n"},
                   {group + "cpuset.cpus.effective", "0-1,4\n"},
                   {group + "cpu.max", "400000 100000\n"},
                   {"sys/fs/cgroup/user.slice/user-1000.slice/memory.max", "8000000000\n"},
                   {"sys/fs/cgroup/user.slice/user-1000.slice/memory.current", "1000000000\n"},
                   {"sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "100000 100000\n"},
                   {"sys/fs/cgroup/user.slice/memory.max", "9000000000\n"},
                   {"sys/fs/cgroup/user.slice/memory.current", "8900000000\n"},
                   {"sys/fs/cgroup/user.slice/memory.stat", "inactive_file 100000000\n"},
                   {"sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"}});
  const CgroupLimits limits = tree.limits();
  EXPECT_EQ(limits.memory_version, 2);
  EXPECT_EQ(limits.memory_limit_bytes, 8000000000u);
  EXPECT_EQ(limits.memory_available_bytes, 200000000u);  // of the parent group, whose members use nearly all
  EXPECT_EQ(limits.cpu_quota, 1.0);
  EXPECT_EQ(limits.cpu_set, (std::vector<unsigned>{0, 1, 4}));
}

TEST(Cgroup, PageCacheOfVersion1) {
  const std::string group = "sys/fs/cgroup/memory/";
  const Tree tree({{"proc/self/cgroup", kDockerGroups},
                   {"proc/self/mountinfo", kDockerMounts},
                   {group + "memory.limit_in_bytes", "2000\n"},
                   {group + "memory.usage_in_bytes", "1500\n"},
                   {group + "memory.stat",
                    "mapped_file 1\ntotal_mapped_file 300\ntotal_inactive_file 400\ntotal_active_file 200\n"}});
  const MemoryGroups groups(tree.path());
  ASSERT_TRUE(groups.any());
  ASSERT_EQ(groups.page_cache().size(), 1u);
  EXPECT_EQ(groups.page_cache()[0].room_bytes, 1100u);
  EXPECT_EQ(groups.page_cache()[0].mapped_bytes, 300u);
  tree.put(group + "memory.usage_in_bytes", "1900\n");
  EXPECT_EQ(groups.page_cache()[0].room_bytes, 700u);
  EXPECT_EQ(groups.memory_limit_bytes(), 2000u);
  tree.put(group + "memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_TRUE(groups.page_cache().empty());
  EXPECT_EQ(groups.memory_limit_bytes(), 2000u);
  EXPECT_EQ(MemoryGroups(tree.path()).memory_limit_bytes(), machine_memory_bytes());
  // The process is moved to another group.
  tree.put("proc/self/cgroup", "5:memory:/docker/4c01/inner\n");
  std::filesystem::create_directory(tree.path() + "/sys/fs/cgroup/memory/inner");
  tree.put("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1000\n");
  tree.put(group + "memory.limit_in_bytes", "2000\n");
  EXPECT_EQ(MemoryGroups(tree.path()).memory_limit_bytes(), 1000u);
}

TEST(Cgroup, PageCacheOfVersion2IsThatOfEachLimitedGroup) {
  const std::string slice = "sys/fs/cgroup/user.slice/", inner = slice + "user-1000.slice/";
  const Tree tree({{"proc/self/cgroup", kUnifiedGroups},
                   {"proc/self/mountinfo", kUnifiedMounts},
                   {inner + "session-3.scope/memory.max", "max\n"},
                   {inner + "memory.max", "8000\n"},
                   {inner + "memory.current", "1000\n"},
                   {inner + "memory.stat", "anon 400\nfile_mapped 60\ninactive_file 600\n"},
                   {slice + "memory.max", "9000\n"},
                   {slice + "memory.current", "99000\n"},
                   {slice + "memory.stat", "file_mapped 70\n"}});
  const auto uses = MemoryGroups(tree.path()).page_cache();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].room_bytes, 7600u);
  EXPECT_EQ(uses[0].mapped_bytes, 60u);
  EXPECT_EQ(uses[1].room_bytes, 0u);
  EXPECT_EQ(uses[1].mapped_bytes, 70u);
  tree.put(slice + "memory.stat", "no such line\n");
  EXPECT_EQ(MemoryGroups(tree.path()).page_cache().size(), 1u);
  EXPECT_FALSE(
      MemoryGroups(Tree({{"proc/self/cgroup", "0::/\n"}, {"proc/self/mountinfo", kUnifiedMounts}}).path()).any());
}

TEST(Cgroup, NoLimitAndOverLimit) {
  const Tree free({{"proc/self/cgroup", "0::/\n"}, {"proc/self/mountinfo", kUnifiedMounts}});
  EXPECT_EQ(free.limits().memory_version, 2);
  EXPECT_FALSE(free.limits().memory_limit_bytes || free.limits().memory_available_bytes || free.limits().cpu_quota);
  const Tree over({{"proc/self/cgroup", "0::/\n"},
                   {"proc/self/mountinfo", kUnifiedMounts},
                   {"sys/fs/cgroup/memory.max", "1000\n"},
                   {"sys/fs/cgroup/memory.current", "5000\n"},
                   {"sys/fs/cgroup/memory.stat", "inactive_file 99999\nactive_file x\n"}});
  EXPECT_EQ(over.limits().memory_available_bytes, 1000u);
  EXPECT_EQ(Tree({}).limits().memory_version, 0);
}

TEST(Cgroup, ThisProcess) {
  const CgroupLimits limits = cgroup_limits();
  EXPECT_LE(limits.memory_available_bytes.value_or(0), limits.memory_limit_bytes.value_or(0));
  EXPECT_GT(limits.cpu_quota.value_or(1), 0);
  EXPECT_EQ(MemoryGroups().any(), limits.memory_limit_bytes.has_value());
  EXPECT_EQ(MemoryGroups().memory_limit_bytes(),
            std::min(limits.memory_limit_bytes.value_or(machine_memory_bytes()), machine_memory_bytes()));
  EXPECT_EQ(machine_memory_bytes(), host_memory().total_bytes);
}

}  // namespace
}  // namespace headrace::os

// Control groups: the input is the text of /proc/self/cgroup and, after a line "--", of mountinfo. The folders to look
// into are below a mounted cgroup hierarchy, and lists of CPUs are short and ascending.
#include <string>

#include "os/cgroup.h"
#include "os/proc_text.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace::os;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = text.find("--\n");
  const std::string_view groups = text.substr(0, cut);
  const std::string_view table = cut == std::string_view::npos ? text : text.substr(cut + 3);
  const auto mounts = parse_mountinfo(table);
  for (const char* controller : {"memory", "cpu", "cpuset"}) {
    const auto membership = parse_cgroup_membership(groups, controller);
    if (!membership) continue;
    FUZZ_CHECK(membership->version == 1 || membership->version == 2);
    const auto folders = cgroup_folders(mounts, *membership, controller);
    if (folders.empty()) continue;
    const std::string& top = folders.back();
    bool mounted = false;
    for (const Mount& mount : mounts) mounted = mounted || mount.mount_point == top;
    FUZZ_CHECK(mounted);
    for (const std::string& folder : folders) {
      FUZZ_CHECK(folder.compare(0, top.size(), top) == 0);
      FUZZ_CHECK(folder.find("/../", top.size()) == std::string::npos);
    }
  }
  if (const auto limit = parse_memory_limit(text)) FUZZ_CHECK(*limit < (std::uint64_t{1} << 62));
  if (const auto quota = parse_cpu_quota(text)) FUZZ_CHECK(*quota >= 0);
  if (const auto cpus = parse_cpu_list(text)) {
    FUZZ_CHECK(cpus->size() <= 65536);
    for (std::size_t i = 1; i < cpus->size(); ++i) FUZZ_CHECK((*cpus)[i - 1] < (*cpus)[i]);
  }
  return 0;
}

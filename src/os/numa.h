// Placement of memory and threads on machines with several NUMA nodes.
//
// Threads: every call from any thread.
#pragma once

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace headrace::os {

// Prefers pages of `node` for a mapping that has no pages yet; if that is refused, pages come from any node. A raw
// system call, since libnuma writes to stderr if a container refuses it, and its static library is not
// position-independent.
inline void prefer_numa_node(void* begin, std::size_t bytes, int node) noexcept {
  std::array<unsigned long, 16> mask{};
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  const auto n = static_cast<std::size_t>(node);
  if (n >= mask.size() * kBits) return;
  mask[n / kBits] = 1ul << (n % kBits);
  (void)::syscall(SYS_mbind, begin, bytes, MPOL_PREFERRED, mask.data(), mask.size() * kBits, 0);
}

// The CPUs that the calling thread may run on, ascending, within its cpuset. Nothing if the kernel does
// not report them.
std::optional<std::vector<unsigned>> thread_cpus();
// Restricts the calling thread to these CPUs. Returns errno: EINVAL if it may use none of them.
int set_thread_cpus(const std::vector<unsigned>& cpus) noexcept;

// The CPUs near a device, out of those allowed.
struct NearCpus {
  std::vector<unsigned> cpus;  // ascending; empty: none, or unknown
  std::string why_not;         // why binding threads to them would not help; empty: it would
};

// `node`: the device's, -1 if unknown. `allowed`: ascending. The content of /sys is validated; `root` is its parent
// tree, for tests.
NearCpus near_cpus(int node, const std::vector<unsigned>& allowed, const std::string& root = "");

}  // namespace headrace::os

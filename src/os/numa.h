// Where memory lies and threads run on a machine of several NUMA nodes.
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

// Asks for pages of `node` for a mapping whose pages do not exist yet; where that is refused they come from anywhere.
// The system call itself: libnuma writes to stderr when a container refuses it, and its static form has no
// position-independent code.
inline void prefer_numa_node(void* begin, std::size_t bytes, int node) noexcept {
  std::array<unsigned long, 16> mask{};
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  const auto n = static_cast<std::size_t>(node);
  if (n >= mask.size() * kBits) return;
  mask[n / kBits] = 1ul << (n % kBits);
  (void)::syscall(SYS_mbind, begin, bytes, MPOL_PREFERRED, mask.data(), mask.size() * kBits, 0);
}

// The CPUs that the calling thread may run on, ascending; what a cpuset leaves of them. Nothing where the kernel does
// not tell.
std::optional<std::vector<unsigned>> thread_cpus();
// Lets the calling thread run on these CPUs only. errno; EINVAL where it may use none of them.
int set_thread_cpus(const std::vector<unsigned>& cpus) noexcept;

// Those of some CPUs that are near a device.
struct NearCpus {
  std::vector<unsigned> cpus;  // ascending; empty: none, or not known which
  std::string why_not;         // why threads gain nothing from being kept on them; empty: they do
};

// `node`: the device's, -1 if not known. `allowed`: ascending. What /sys tells is not trusted to make sense; `root` is
// the tree it lies in, for tests.
NearCpus near_cpus(int node, const std::vector<unsigned>& allowed, const std::string& root = "");

}  // namespace headrace::os

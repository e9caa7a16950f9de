// Where memory lies on a machine of several NUMA nodes.
#pragma once

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace headrace::base {

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

}  // namespace headrace::base

#include "os/numa.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/fault.h"
#include "os/proc_text.h"

namespace headrace::os {
namespace {

// More CPUs than any kernel supports: sched_getaffinity fails if the mask is shorter than the kernel's.
constexpr std::size_t kMaxCpus = 65536;
constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
using Mask = std::array<unsigned long, kMaxCpus / kWordBits>;

std::optional<std::vector<unsigned>> read_cpu_list(const std::string& path) {
  const auto text = read_first_line(path);
  return text ? parse_cpu_list(*text) : std::nullopt;
}

}  // namespace

std::optional<std::vector<unsigned>> thread_cpus() {
  Mask mask{};
  if (::sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) != 0) return std::nullopt;
  std::vector<unsigned> cpus;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::size_t bit = 0; mask[word] >> bit != 0; ++bit) {
      if ((mask[word] >> bit & 1) != 0) cpus.push_back(static_cast<unsigned>(word * kWordBits + bit));
      if (bit + 1 == kWordBits) break;
    }
  }
  return cpus;
}

int set_thread_cpus(const std::vector<unsigned>& cpus) noexcept {
  Mask mask{};
  for (const unsigned cpu : cpus) {
    if (cpu < kMaxCpus) mask[cpu / kWordBits] |= 1ul << (cpu % kWordBits);
  }
  std::int64_t result = HEADRACE_FAULT("base.set_affinity", 0);
  if (result == 0 && ::sched_setaffinity(0, sizeof mask, reinterpret_cast<const cpu_set_t*>(mask.data())) != 0) {
    result = -errno;
  }
  return static_cast<int>(-result);
}

NearCpus near_cpus(int node, const std::vector<unsigned>& allowed, const std::string& root) {
  const std::string nodes = root + "/sys/devices/system/node/";
  const auto online = read_cpu_list(nodes + "online");
  if (!online || online->size() < 2) return {{}, "the machine has one NUMA node"};
  if (node < 0) return {{}, "its NUMA node is not known"};
  const std::string name = "NUMA node " + std::to_string(node);
  const auto here = read_cpu_list(nodes + "node" + std::to_string(node) + "/cpulist");
  if (!here) return {{}, "the CPUs of " + name + " are unknown"};
  NearCpus near;
  std::set_intersection(allowed.begin(), allowed.end(), here->begin(), here->end(), std::back_inserter(near.cpus));
  if (near.cpus.empty()) {
    near.why_not = "this process may not run on any CPU of " + name;
  } else if (near.cpus.size() == allowed.size()) {
    near.why_not = "every CPU that this process may run on is near it";
  }
  return near;
}

}  // namespace headrace::os

#include "os/page_buffer.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/checked.h"
#include "base/fault.h"

namespace headrace::os {

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) ::munmap(data_, capacity_);
}

std::span<std::byte> PageBuffer::reserve(std::size_t bytes) noexcept {
  if (bytes <= capacity_ && data_ != nullptr) return {data_, bytes};
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t wanted =
      base::align_up(std::max<std::size_t>(bytes, 1), bytes >= kHugePage ? kHugePage : std::size_t{4096});
  if (HEADRACE_FAULT("base.page_mmap", 0) < 0) return {};
  void* memory = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  if (wanted >= kHugePage) ::madvise(memory, wanted, MADV_HUGEPAGE);
  if (data_ != nullptr) ::munmap(data_, capacity_);
  data_ = static_cast<std::byte*>(memory);
  capacity_ = wanted;
  return {data_, bytes};
}

unsigned usable_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace headrace::os

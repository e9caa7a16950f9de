#include "host_memory.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/checked.h"
#include "base/fault.h"
#include "base/fork.h"
#include "os/numa.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace headrace::device {
namespace {

enum class Guard { kOff, kAligned, kRight, kLeft };

Guard guard_mode() noexcept {
  static const Guard mode = [] {
    const char* text = ::secure_getenv("HEADRACE_HOST_GUARD");
    const std::string_view name = text != nullptr ? text : "";
    if (name == "off") return Guard::kOff;
    if (name == "aligned") return Guard::kAligned;
    if (name == "right") return Guard::kRight;
    if (name == "left") return Guard::kLeft;
    return base::kFaultPointsCompiled ? Guard::kAligned : Guard::kOff;
  }();
  return mode;
}

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPoisonLimit = std::size_t{64} << 20;  // poisoning more would make huge allocations very slow

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

struct Mapping {
  void* base = nullptr;
  std::size_t mapped_bytes = 0;
  std::size_t bytes = 0;
};

struct Ledger {
  std::mutex mutex;
  std::unordered_map<std::byte*, Mapping> device, pinned;  // guarded by mutex
  HostMemoryCounts counts;                                 // guarded by mutex
  std::uint64_t device_limit = 0;                          // guarded by mutex
  // Address ranges of freed device memory, inaccessible. The newest replaces the oldest.
  std::array<Mapping, 64> quarantine;
  std::size_t next_quarantined = 0;
};

Ledger& ledger() {
  static base::PerProcess<Ledger> all;  // never destroyed: its entries may outlive static destructors
  return all.get();
}

struct Registered {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> ranges;  // guarded by mutex; disjoint, by first byte
};

Registered& registered() {
  static base::PerProcess<Registered> all;  // never destroyed: its entries may outlive static destructors
  return all.get();
}

struct StagedMemory {
  std::atomic<std::size_t> count{0};
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> ranges;  // guarded by mutex
};

StagedMemory& staged_memory() {
  static base::PerProcess<StagedMemory> all;  // never destroyed: its entries may outlive static destructors
  return all.get();
}

Status no_memory(const char* what, std::size_t bytes, int error) {
  return Status(Code::kResourceExhausted, Layer::kDevice,
                "cannot allocate " + std::to_string(bytes) + " bytes of " + what)
      .with_errno(error);
}

int injected([[maybe_unused]] const char* point) noexcept {
  const std::int64_t result = HEADRACE_FAULT(point, 0);
  return result < 0 ? static_cast<int>(-result) : 0;
}

void advise_huge(void* base, std::size_t bytes) noexcept {
  if (bytes >= kHugePage) madvise(base, bytes, MADV_HUGEPAGE);  // may fail, which is harmless
}

// An anonymous mapping aligned to `align`.
void* map_aligned(std::size_t bytes, std::size_t align) noexcept {
  if (align <= page_bytes()) {
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return base == MAP_FAILED ? nullptr : base;
  }
  void* base = mmap(nullptr, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t aligned = base::align_up<std::uintptr_t>(start, align);
  if (aligned > start) munmap(base, aligned - start);
  const std::uintptr_t end = start + bytes + align;
  if (end > aligned + bytes) munmap(reinterpret_cast<void*>(aligned + bytes), end - aligned - bytes);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

HostMemoryCounts host_memory_counts() noexcept {
  std::lock_guard lock(ledger().mutex);
  return ledger().counts;
}

void limit_device_memory(std::uint64_t bytes) noexcept {
  std::lock_guard lock(ledger().mutex);
  ledger().device_limit = bytes;
}

std::optional<std::uint64_t> free_device_memory() noexcept {
  std::lock_guard lock(ledger().mutex);
  if (ledger().device_limit == 0) return std::nullopt;
  return ledger().device_limit - std::min(ledger().device_limit, ledger().counts.device_bytes);
}

Result<std::byte*> map_device_memory(std::size_t bytes) {
  if (int error = injected("dev_host.allocate"); error != 0) return no_memory("device memory", bytes, error);
  if (const auto free = free_device_memory(); free && *free < bytes) return no_memory("device memory", bytes, ENOMEM);
  const std::size_t page = page_bytes();
  if (bytes / page > static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)))
    return no_memory("device memory", bytes, ENOMEM);
  const Guard guard = guard_mode();
  const std::size_t body = base::align_up(bytes == 0 ? std::size_t{1} : bytes, page);
  const std::size_t fence = guard == Guard::kOff ? 0 : page;
  // From half a huge page up: disks read into huge pages faster (docs/design/files.md), and this at most doubles the
  // size.
  const bool huge = guard == Guard::kOff && body >= kHugePage / 2;
  Mapping mapping{nullptr, huge ? base::align_up(body, kHugePage) : body + 2 * fence, bytes};
  // Not NORESERVE: memory that does not exist must be refused here, not lead to an OOM kill later.
  mapping.base = map_aligned(mapping.mapped_bytes, huge ? kHugePage : page);
  if (mapping.base == nullptr) return no_memory("device memory", bytes, errno);
  auto* first = static_cast<std::byte*>(mapping.base) + fence;
  std::byte* memory = first;
  advise_huge(first, mapping.mapped_bytes - 2 * fence);
  if (guard != Guard::kOff) {
    if (mprotect(mapping.base, fence, PROT_NONE) != 0 || mprotect(first + body, fence, PROT_NONE) != 0) {
      const int error = errno;
      munmap(mapping.base, mapping.mapped_bytes);
      return no_memory("device memory", bytes, error);
    }
    if (guard == Guard::kRight) memory = first + (body - bytes);
    if (guard == Guard::kAligned) memory = first + base::align_down(body - bytes, std::size_t{256});
    std::memset(memory, 0xA5, bytes < kPoisonLimit ? bytes : kPoisonLimit);
  }
  try {
    std::lock_guard lock(ledger().mutex);
    ledger().device.emplace(memory, mapping);
    ++ledger().counts.device_allocations;
    ledger().counts.device_bytes += bytes;
  } catch (...) {
    munmap(mapping.base, mapping.mapped_bytes);
    return Status::out_of_memory();
  }
  return memory;
}

bool unmap_device_memory(std::byte* memory, std::size_t bytes) noexcept {
  Mapping gone;
  std::lock_guard lock(ledger().mutex);
  auto found = ledger().device.find(memory);
  if (found == ledger().device.end() || found->second.bytes != bytes) return false;
  gone = found->second;
  ledger().device.erase(found);
  --ledger().counts.device_allocations;
  ledger().counts.device_bytes -= bytes;
  if (guard_mode() != Guard::kOff && mprotect(gone.base, gone.mapped_bytes, PROT_NONE) == 0) {
    madvise(gone.base, gone.mapped_bytes, MADV_DONTNEED);
    std::swap(gone, ledger().quarantine[ledger().next_quarantined]);
    ledger().next_quarantined = (ledger().next_quarantined + 1) % ledger().quarantine.size();
  }
  if (gone.base != nullptr) munmap(gone.base, gone.mapped_bytes);
  return true;
}

void note_staged_memory(const std::byte* memory, std::size_t bytes) {
  std::lock_guard lock(staged_memory().mutex);
  staged_memory().ranges[memory] = bytes;
  staged_memory().count.store(staged_memory().ranges.size(), std::memory_order_release);
}

void forget_staged_memory(const std::byte* memory) noexcept {
  std::lock_guard lock(staged_memory().mutex);
  staged_memory().ranges.erase(memory);
  staged_memory().count.store(staged_memory().ranges.size(), std::memory_order_release);
}

bool has_staged_memory() noexcept { return staged_memory().count.load(std::memory_order_acquire) != 0; }

void find_staged_memory(const void* address, const std::byte*& base, std::size_t& bytes) noexcept {
  base = nullptr;
  bytes = 0;
  if (staged_memory().count.load(std::memory_order_acquire) == 0) return;
  const auto* wanted = static_cast<const std::byte*>(address);
  std::lock_guard lock(staged_memory().mutex);
  auto after = staged_memory().ranges.upper_bound(wanted);
  if (after == staged_memory().ranges.begin()) return;
  --after;
  if (wanted >= after->first + after->second) return;
  base = after->first;
  bytes = after->second;
}

Result<std::byte*> map_pinned_memory(std::size_t bytes, int numa_node) {
  if (int error = injected("dev_host.allocate_pinned"); error != 0) return no_memory("staging memory", bytes, error);
  const std::size_t page = page_bytes();
  // With overcommit, mmap would succeed and the kernel would kill the process while its pages are faulted in.
  if (bytes / page > static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)))
    return no_memory("staging memory", bytes, ENOMEM);
  const std::size_t body = base::align_up(bytes == 0 ? std::size_t{1} : bytes, page);
  Mapping mapping{nullptr, body, bytes};
  mapping.base = map_aligned(body, body >= kHugePage ? kHugePage : page);
  if (mapping.base == nullptr) return no_memory("staging memory", bytes, errno);
  advise_huge(mapping.base, body);
  if (numa_node >= 0) os::prefer_numa_node(mapping.base, body, numa_node);
  // Slabs are reused: take their page faults once, here; on older kernels the first use takes them.
  if (madvise(mapping.base, body, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    const int error = errno;
    munmap(mapping.base, body);
    return no_memory("staging memory", bytes, error);
  }
  auto* memory = static_cast<std::byte*>(mapping.base);
  try {
    std::lock_guard lock(ledger().mutex);
    ledger().pinned.emplace(memory, mapping);
    ++ledger().counts.pinned_allocations;
    ledger().counts.pinned_bytes += bytes;
  } catch (...) {
    munmap(mapping.base, body);
    return Status::out_of_memory();
  }
  return memory;
}

bool unmap_pinned_memory(std::byte* memory, std::size_t bytes) noexcept {
  Mapping gone;
  {
    std::lock_guard lock(ledger().mutex);
    auto found = ledger().pinned.find(memory);
    if (found == ledger().pinned.end() || found->second.bytes != bytes) return false;
    gone = found->second;
    ledger().pinned.erase(found);
    --ledger().counts.pinned_allocations;
    ledger().counts.pinned_bytes -= bytes;
  }
  munmap(gone.base, gone.mapped_bytes);
  return true;
}

bool is_pinned_memory(const std::byte* memory, std::size_t bytes) noexcept {
  std::lock_guard lock(ledger().mutex);
  return std::ranges::any_of(ledger().pinned, [&](const auto& one) {
    const std::byte* const begin = one.first;
    return memory >= begin && memory + bytes <= begin + one.second.bytes;
  });
}

Status add_registered_mapping(const std::byte* mapping, std::size_t bytes) {
  // Probe the call once here, so that a sandbox that forbids it refuses the mapping rather than a later copy.
  std::byte probe{};
  iovec to{&probe, 1}, from{const_cast<std::byte*>(mapping), 1};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) {
    const int error = errno;
    return Status(error == EFAULT ? Code::kIo : Code::kUnsupported, Layer::kDevice,
                  "the kernel does not copy from this file mapping")
        .with_errno(error);
  }
  try {
    std::lock_guard lock(registered().mutex);
    registered().ranges[mapping] = bytes;
    return {};
  } catch (...) {
    return Status::out_of_memory();
  }
}

void remove_registered_mapping(const std::byte* mapping, std::size_t) noexcept {
  std::lock_guard lock(registered().mutex);
  registered().ranges.erase(mapping);
}

bool is_registered_mapping(const std::byte* address) noexcept {
  std::lock_guard lock(registered().mutex);
  auto after = registered().ranges.upper_bound(address);
  if (after == registered().ranges.begin()) return false;
  --after;
  return address < after->first + after->second;
}

void copy_from_mapping(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept {
  while (bytes > 0) {
    iovec to{dst, bytes}, from{const_cast<std::byte*>(src), bytes};
    const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    dst += got;
    src += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

int current_numa_node() noexcept {
  if (access("/sys/devices/system/node/node1", F_OK) != 0) return -1;
  unsigned cpu = 0, node = 0;
  return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : -1;
}

}  // namespace headrace::device

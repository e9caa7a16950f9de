// Memory of the host device: guarded and poisoned for finding bugs, or plain and fast.
//
// With guards, an allocation ends as close to an unmapped page as its alignment allows, is filled with 0xA5, and stays
// unmapped for a while after it is freed. So an overrun or a late write faults at once, in any build.
//
// HEADRACE_HOST_GUARD=aligned  256-byte alignment kept (default of builds with fault points)
//                     right    the last byte touches the guard page; alignment 1
//                     left     the first byte follows a guard page
//                     off      page aligned, no guards (default otherwise)
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace headrace::device {

// Current allocations of all host devices of the process. All are 0 when nothing leaks.
struct HostMemoryCounts {
  std::uint64_t device_allocations = 0, device_bytes = 0;
  std::uint64_t pinned_allocations = 0, pinned_bytes = 0;
};
HostMemoryCounts host_memory_counts() noexcept;

// Simulates a device with this much memory: map_device_memory() fails beyond it. 0: no limit.
void limit_device_memory(std::uint64_t bytes) noexcept;
// The unallocated part of that limit; nothing if there is no limit.
std::optional<std::uint64_t> free_device_memory() noexcept;

Result<std::byte*> map_device_memory(std::size_t bytes);
// False, and frees nothing, if map_device_memory() did not return `memory` for this size.
bool unmap_device_memory(std::byte* memory, std::size_t bytes) noexcept;

// Records memory of the simulated GPU, so that its addresses can be recognised. While none exists, a check costs one
// load.
void note_staged_memory(const std::byte* memory, std::size_t bytes);
void forget_staged_memory(const std::byte* memory) noexcept;
bool has_staged_memory() noexcept;
// The allocation that contains `address`, or null and 0.
void find_staged_memory(const void* address, const std::byte*& base, std::size_t& bytes) noexcept;

// Page-aligned, resident, huge pages if possible; on `numa_node` unless that is -1.
Result<std::byte*> map_pinned_memory(std::size_t bytes, int numa_node);
bool unmap_pinned_memory(std::byte* memory, std::size_t bytes) noexcept;
// Whether the whole range lies in one such allocation. Scans all allocations; for tests.
bool is_pinned_memory(const std::byte* memory, std::size_t bytes) noexcept;

// Ranges of file mappings that a staged device may read, as a GPU reads registered ones. The kernel does the copying: a
// page that no longer exists leaves the destination unchanged instead of raising SIGBUS.
Status add_registered_mapping(const std::byte* mapping, std::size_t bytes);
void remove_registered_mapping(const std::byte* mapping, std::size_t bytes) noexcept;
bool is_registered_mapping(const std::byte* address) noexcept;
void copy_from_mapping(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept;

// NUMA node of the calling thread if the machine has several, otherwise -1.
int current_numa_node() noexcept;

}  // namespace headrace::device

// Memory of the host device: guarded and poisoned where bugs are hunted, plain and fast where they are not.
//
// With guards, an allocation's last byte lies as near to an unmapped page as its alignment allows, poisoned with 0xA5,
// and freed memory stays unmapped for a while: an overrun or a late write is a fault at once, in any build.
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

// What is allocated now, over all host devices of the process. Both are 0 when nothing leaks.
struct HostMemoryCounts {
  std::uint64_t device_allocations = 0, device_bytes = 0;
  std::uint64_t pinned_allocations = 0, pinned_bytes = 0;
};
HostMemoryCounts host_memory_counts() noexcept;

// As if the process's device memory were so much, of which map_device_memory() gives no more. 0: no limit.
void limit_device_memory(std::uint64_t bytes) noexcept;
// Of that limit, what is not allocated; none: there is no limit.
std::optional<std::uint64_t> free_device_memory() noexcept;

Result<std::byte*> map_device_memory(std::size_t bytes);
// False if `memory` was not mapped by map_device_memory with this size: nothing is freed then.
bool unmap_device_memory(std::byte* memory, std::size_t bytes) noexcept;

// Memory of the device that simulates a GPU, so that an address can be told to be its; one load while there is none.
void note_staged_memory(const std::byte* memory, std::size_t bytes);
void forget_staged_memory(const std::byte* memory) noexcept;
bool has_staged_memory() noexcept;
// The allocation around `address`, or null and 0.
void find_staged_memory(const void* address, const std::byte*& base, std::size_t& bytes) noexcept;

// Page aligned and resident; huge pages asked for; on `numa_node` where that is not -1.
Result<std::byte*> map_pinned_memory(std::size_t bytes, int numa_node);
bool unmap_pinned_memory(std::byte* memory, std::size_t bytes) noexcept;
// Whether all of it lies in one such allocation. Looks at each: for tests.
bool is_pinned_memory(const std::byte* memory, std::size_t bytes) noexcept;

// Ranges of file mappings that a staged device reads, as a GPU reads registered ones. The kernel does the copying: a
// page that has gone leaves the destination as it was instead of raising SIGBUS.
Status add_registered_mapping(const std::byte* mapping, std::size_t bytes);
void remove_registered_mapping(const std::byte* mapping, std::size_t bytes) noexcept;
bool is_registered_mapping(const std::byte* address) noexcept;
void copy_from_mapping(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept;

// NUMA node of the calling thread where the machine has several, else -1.
int current_numa_node() noexcept;

}  // namespace headrace::device

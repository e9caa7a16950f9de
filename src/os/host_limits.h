// The resources of this machine and the process's limits on them.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headrace::os {

std::string kernel_name();  // "Linux 6.8.0 x86_64"
unsigned online_cpus() noexcept;
unsigned numa_node_count();  // at least 1

struct MemoryAmount {
  std::uint64_t total_bytes = 0, available_bytes = 0;  // 0: unknown
};
MemoryAmount host_memory();
std::uint64_t machine_memory_bytes() noexcept;  // total_bytes alone, without reading a file
// Bytes pinned by drivers for any process, so that devices can access them. 0 if the kernel does not count
// them (before 5.7).
std::uint64_t pinned_bytes();

// Soft limits; nothing for "unlimited".
std::optional<std::uint64_t> memlock_limit_bytes() noexcept;
std::optional<std::uint64_t> open_files_limit() noexcept;

// Enlarges the process's descriptor table to the open-files limit, but at most to `most` entries. In a multi-threaded
// process that takes the kernel up to tens of milliseconds each time the table grows, for which every open() waits that
// finds the table full.
void reserve_open_files(std::uint64_t most) noexcept;
// Whether no other thread has ever run in this process; false if the C library cannot tell.
bool has_one_thread() noexcept;

// kernel.io_uring_disabled; nothing if the kernel has no such setting (before 6.6).
std::optional<unsigned> io_uring_disabled();

// The file that the dynamic linker finds for `name`; empty if none. Briefly loads the library.
std::string shared_library_path(const char* name);

// The version of NVIDIA's kernel driver; empty if it is not loaded.
std::string nvidia_driver_version();
// Parses the text of /proc/driver/nvidia/version.
std::string_view parse_nvidia_driver(std::string_view text) noexcept;

// Whether a kernel module is loaded, from the text of /proc/modules, where names have underscores.
bool module_listed(std::string_view proc_modules, std::string_view name) noexcept;

}  // namespace headrace::os

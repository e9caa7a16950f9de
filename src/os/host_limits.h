// What this machine has and this process may use of it.
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
  std::uint64_t total_bytes = 0, available_bytes = 0;  // 0: not known
};
MemoryAmount host_memory();
std::uint64_t machine_memory_bytes() noexcept;  // its total_bytes alone, without a file
// Pages that devices of the machine reach, times the page size: held in memory by drivers for whatever process. 0 where
// the kernel does not count them (before 5.7).
std::uint64_t pinned_bytes();

// Soft limits; nothing for "unlimited".
std::optional<std::uint64_t> memlock_limit_bytes() noexcept;
std::optional<std::uint64_t> open_files_limit() noexcept;

// Makes room in the process's table of open files for as many as the limit allows, but for at most `most`. Where
// several threads run, the kernel stops every open() for tens of milliseconds whenever it has to make the table larger.
void reserve_open_files(std::uint64_t most) noexcept;

// kernel.io_uring_disabled; nothing where the kernel has no such setting (before 6.6).
std::optional<unsigned> io_uring_disabled();

// The file that the dynamic linker finds for `name`; empty if it finds none. Loads the library for a moment.
std::string shared_library_path(const char* name);

// The version of NVIDIA's kernel driver, empty where it is not loaded.
std::string nvidia_driver_version();
// From the text of /proc/driver/nvidia/version.
std::string_view parse_nvidia_driver(std::string_view text) noexcept;

// Whether a kernel module is loaded: in the text of /proc/modules, names have underscores.
bool module_listed(std::string_view proc_modules, std::string_view name) noexcept;

}  // namespace headrace::os

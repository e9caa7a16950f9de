// Read-only shared mappings of files for devices to read. The CPU never accesses them, since truncating the file would
// turn the access into SIGBUS.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::os {

std::size_t page_bytes() noexcept;

// Reserves address space; files must be mapped over it before use. From 2 MiB up it is 2 MiB aligned, so that huge
// pages of the page cache can be mapped as such. Null: none left.
std::byte* reserve_addresses(std::size_t bytes) noexcept;
// Maps [offset, offset + bytes) of a file over reserved addresses, both page-aligned. Returns errno, or 0 on success.
int map_file_at(std::byte* address, std::size_t bytes, int fd, std::uint64_t offset) noexcept;
// Fills the page tables of a mapping with what the page cache holds (Linux 5.14; no-op before). May read the file.
void populate(std::byte* address, std::size_t bytes) noexcept;
void unmap(std::byte* address, std::size_t bytes) noexcept;

// Maximum number of mappings of a process (vm.max_map_count).
std::size_t mapping_limit() noexcept;

}  // namespace headrace::os

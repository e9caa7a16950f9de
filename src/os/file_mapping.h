// Read-only shared mappings of files for a device's eyes: the CPU never touches them, since a file cut short would turn
// the access into SIGBUS.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::os {

std::size_t page_bytes() noexcept;

// Address space with nothing in it; pages of it must be given to files before use. From 2 MiB up it begins at a
// multiple of that, so that large pages of the cache can stay large for whoever maps them. Null: none left.
std::byte* reserve_addresses(std::size_t bytes) noexcept;
// Maps [offset, offset + bytes) of a file over reserved addresses, both multiples of a page. errno, 0 if it worked.
int map_file_at(std::byte* address, std::size_t bytes, int fd, std::uint64_t offset) noexcept;
// Fills the page tables of a mapping with what the page cache holds (Linux 5.14; does nothing before). May read.
void populate(std::byte* address, std::size_t bytes) noexcept;
void unmap(std::byte* address, std::size_t bytes) noexcept;

// Mappings this process may have (vm.max_map_count).
std::size_t mapping_limit() noexcept;

}  // namespace headrace::os

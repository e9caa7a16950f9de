// Read-only shared mappings of files for a device's eyes: the CPU never touches them, since a file cut short would turn
// the access into SIGBUS.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace headrace::base {

std::size_t page_bytes() noexcept;

// Address space with nothing in it; pages of it must be given to files before use. Null: none left.
std::byte* reserve_addresses(std::size_t bytes) noexcept;
// Maps [offset, offset + bytes) of a file over reserved addresses, both multiples of a page. errno, 0 if it worked.
int map_file_at(std::byte* address, std::size_t bytes, int fd, std::uint64_t offset) noexcept;
void unmap(std::byte* address, std::size_t bytes) noexcept;

// How many bytes of a range the page cache holds: by cachestat(2), else estimated from a few reads that may not wait
// (RWF_NOWAIT), else by mincore(2) on `mapping` (of the same range, page aligned; null: not tried). nullopt where the
// kernel tells none of them to this user.
std::optional<std::uint64_t> resident_bytes(int fd, std::uint64_t offset, std::uint64_t length,
                                            const std::byte* mapping = nullptr) noexcept;

// Mappings this process may have (vm.max_map_count).
std::size_t mapping_limit() noexcept;

}  // namespace headrace::base

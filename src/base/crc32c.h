// CRC-32C (Castagnoli): reflected, initial value and final xor all ones, as in RFC 3720 and the Zarr crc32c codec.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::base {

std::uint32_t crc32c(const std::byte* data, std::size_t bytes) noexcept;
// Table-driven version: the reference for the CPU instruction, and the fallback without it.
std::uint32_t crc32c_portable(const std::byte* data, std::size_t bytes) noexcept;

}  // namespace headrace::base

// Fletcher-32 as HDF5 and numcodecs compute it: 16-bit big-endian words; an odd last byte is the upper half of one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::codec {

std::uint32_t fletcher32(const std::byte* data, std::size_t bytes) noexcept;

}  // namespace headrace::codec

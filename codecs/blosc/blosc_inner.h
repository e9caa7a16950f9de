// The two inner formats of Blosc for which headrace has its own decoder: BloscLZ and raw Snappy.
//
// c-blosc offers them only as a whole container, with an allocation each; these decode one stream of a block. Both
// return false for anything but a well-formed stream of exactly dst_bytes, and never leave the two ranges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::codec {

bool decode_blosclz(const std::byte* src, std::size_t src_bytes, std::byte* dst, std::size_t dst_bytes) noexcept;
bool decode_snappy(const std::byte* src, std::size_t src_bytes, std::byte* dst, std::size_t dst_bytes) noexcept;

}  // namespace headrace::codec

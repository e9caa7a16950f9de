// Decoders for two inner formats of Blosc: BloscLZ and raw Snappy.
//
// c-blosc decodes these only within a whole container, with an allocation for each; these functions decode one stream
// of a block. Both return false unless the stream is well-formed and decodes to exactly dst_bytes, and never access
// memory outside the two ranges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::codec {

bool decode_blosclz(const std::byte* src, std::size_t src_bytes, std::byte* dst, std::size_t dst_bytes) noexcept;
bool decode_snappy(const std::byte* src, std::size_t src_bytes, std::byte* dst, std::size_t dst_bytes) noexcept;

}  // namespace headrace::codec

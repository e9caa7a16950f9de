// Byte shuffle: the reverse of unshuffle().
#pragma once

#include <cstddef>

namespace headrace::codec {

// dst[j * items + i] = src[i * item_bytes + j] for the items = bytes / item_bytes whole elements; the remaining bytes
// are copied after them. REQUIRES: no overlap; item_bytes > 0.
void shuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst) noexcept;

}  // namespace headrace::codec

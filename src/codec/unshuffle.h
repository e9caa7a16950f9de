// Byte and bit un-shuffle: undo the filters of blosc and of numcodecs' shuffle.
//
// Shuffled bytes lie in planes: plane j holds byte j of every element. Planes are given one by one because those that
// did not compress are read from the encoded stream where they are, without a copy.
#pragma once

#include <cstddef>

namespace headrace::codec {

// dst[i * item_bytes + j] = planes[j][i] for i < items. REQUIRES: dst does not overlap the planes; item_bytes > 0.
void unshuffle_planes(const std::byte* const* planes, std::size_t item_bytes, std::size_t items, std::byte* dst);

// The same with planes one after the other in src; what is left of `bytes` after the last whole element is copied.
void unshuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst);

// Working memory of bit_unshuffle: one plane tile for each byte of the element.
constexpr std::size_t kBitTileItems = 256;
constexpr std::size_t bit_tile_bytes(std::size_t item_bytes) { return item_bytes * kBitTileItems; }

// Blosc's bit-shuffle over a whole block: row 8 j + k holds bit k of byte j of every element, 8 elements a byte, lowest
// bit first. A block whose number of elements is no multiple of 8 was stored unfiltered and is copied; bytes after
// the last whole element are copied. REQUIRES: tile holds bit_tile_bytes(item_bytes) bytes, item_bytes <= 255.
void bit_unshuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst, std::byte* tile);

namespace internal {
// Switches vector kernels off so that tests compare every path. Not for use while other threads decode.
void force_portable_unshuffle(bool portable) noexcept;
}  // namespace internal

}  // namespace headrace::codec

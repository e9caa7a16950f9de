// Byte and bit unshuffle: reverse the filters of blosc and of numcodecs' shuffle.
//
// Shuffled bytes are organised in planes: plane j holds byte j of every element. Planes are passed individually because
// incompressible ones are read directly from the encoded stream, without a copy.
#pragma once

#include <cstddef>

namespace headrace::codec {

// dst[i * item_bytes + j] = planes[j][i] for i < items. REQUIRES: dst does not overlap the planes; item_bytes > 0.
void unshuffle_planes(const std::byte* const* planes, std::size_t item_bytes, std::size_t items, std::byte* dst);

// The same with consecutive planes in src; bytes after the last whole element are copied.
void unshuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst);

// Working memory of bit_unshuffle: one plane tile per byte of the element.
constexpr std::size_t kBitTileItems = 256;
constexpr std::size_t bit_tile_bytes(std::size_t item_bytes) { return item_bytes * kBitTileItems; }

// Blosc's bit-shuffle over a whole block: row 8 j + k holds bit k of byte j of every element, 8 elements per byte,
// lowest bit first. If the number of elements is not a multiple of 8, the block was stored unfiltered and is
// copied. Bytes after the last whole element are copied. REQUIRES: tile holds bit_tile_bytes(item_bytes) bytes,
// item_bytes <= 255.
void bit_unshuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst, std::byte* tile);

namespace internal {
// Disables vector kernels, so that tests can compare all code paths. Not while other threads decode.
void force_portable_unshuffle(bool portable) noexcept;
}  // namespace internal

}  // namespace headrace::codec

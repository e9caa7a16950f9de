// Encodes a chunk's elements and decodes them again. Shares nothing with the library's codecs but the compression
// libraries.
#pragma once

#include <span>
#include <unordered_set>

#include "spec.h"

namespace headrace::stress {

constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // in an index: offset and length of a missing chunk

// What a reader must do with stored bytes.
enum class Verdict : std::uint8_t {
  kExact,    // return these elements
  kEither,   // return these elements, or an error
  kAny,      // unknown: return any elements, or an error
  kRefused,  // return an error
};

class ChunkCode {
 public:
  explicit ChunkCode(const ArraySpec& spec) : spec_(spec) {}

  // Encodes `elements` of a chunk of `extent`; they are in C order, little-endian.
  Bytes encode(Bytes elements, const Shape& extent);
  // Decodes; `elements` is set for kExact and kEither.
  Verdict decode(std::span<const std::byte> stored, const Shape& extent, Bytes& elements) const;

  // A shard's index (offset and length per entry).
  static Bytes encode_index(const std::vector<std::uint64_t>& words, const Level& level);
  static std::size_t index_bytes(std::uint64_t entries, const Level& level) {
    return static_cast<std::size_t>(16 * entries + (level.index_checked ? 4 : 0));
  }
  // Empty if the checksum is wrong.
  static std::vector<std::uint64_t> decode_index(std::span<const std::byte> stored, const Level& level);

 private:
  Bytes squeeze(const Bytes& plain);
  Verdict unsqueeze(std::span<const std::byte> stored, std::size_t bytes, Bytes& plain) const;
  void swap_order(Bytes& elements) const;

  const ArraySpec spec_;
  std::unordered_set<std::uint64_t> made_;  // Blosc streams made here; only c-blosc could judge others
};

// Permutes the axes of `extent` and the elements by a transpose, or undoes it.
Shape transposed(const Shape& extent, const std::vector<std::size_t>& order);
Bytes transpose_elements(const Bytes& elements, const Shape& extent, const std::vector<std::size_t>& order,
                         std::size_t item_bytes, bool back);

}  // namespace headrace::stress

// A chunk's bytes from its elements, and back: an encoder and a reader that share nothing with the library's codecs but
// the compression libraries.
#pragma once

#include <span>
#include <unordered_set>

#include "spec.h"

namespace headrace::stress {

constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // in an index: offset and length of a chunk that is not there

// What a reader must make of stored bytes.
enum class Verdict : std::uint8_t {
  kExact,    // these elements
  kEither,   // these elements, or an error
  kAny,      // nobody can say: elements of any value, or an error
  kRefused,  // an error
};

class ChunkCode {
 public:
  explicit ChunkCode(const ArraySpec& spec) : spec_(spec) {}

  // `elements` of a chunk of `extent`, C order, little-endian.
  Bytes encode(Bytes elements, const Shape& extent);
  // The way back; `elements` is set for kExact and kEither.
  Verdict decode(std::span<const std::byte> stored, const Shape& extent, Bytes& elements) const;

  // Of a shard's index (offset and length an entry).
  static Bytes encode_index(const std::vector<std::uint64_t>& words, const Level& level);
  static std::size_t index_bytes(std::uint64_t entries, const Level& level) {
    return static_cast<std::size_t>(16 * entries + (level.index_checked ? 4 : 0));
  }
  // Empty where the checksum is wrong.
  static std::vector<std::uint64_t> decode_index(std::span<const std::byte> stored, const Level& level);

 private:
  Bytes squeeze(const Bytes& plain);
  Verdict unsqueeze(std::span<const std::byte> stored, std::size_t bytes, Bytes& plain) const;
  void swap_order(Bytes& elements) const;

  const ArraySpec spec_;
  std::unordered_set<std::uint64_t> made_;  // Blosc streams: what else there is of them only c-blosc could tell
};

// Axes of `extent` and elements in the order that a transpose gives, or takes back.
Shape transposed(const Shape& extent, const std::vector<std::size_t>& order);
Bytes transpose_elements(const Bytes& elements, const Shape& extent, const std::vector<std::size_t>& order,
                         std::size_t item_bytes, bool back);

}  // namespace headrace::stress

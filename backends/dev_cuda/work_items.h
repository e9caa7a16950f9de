// Input of the kernels: pieces to move, and boxes divided into units of work for thread blocks.
//
// The host turns every box into words of 1 to 16 bytes that are aligned on both sides, so that the kernels have few
// cases: rows, words, tiles. Plain C++, shared with the kernels and tested on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/box.h"

namespace headrace::device::cuda {

struct PieceItem {
  const unsigned char* src;
  unsigned char* dst;
  std::uint64_t bytes;
};

// A warp's share of a piece: long enough to amortise its descriptor, short enough to balance.
inline constexpr std::uint32_t kPieceSegmentBytes = 8192;

enum class BoxMode : std::uint32_t {
  kRows,   // the last dimension is contiguous on both sides and long: one warp per segment of a row
  kWords,  // one thread per word
  kTiles,  // destination contiguous along the last dimension, source along the one before: via shared memory
};

inline constexpr int kItemRank = 6;
inline constexpr std::uint32_t kRowSegmentBytes = 8192;
inline constexpr std::uint32_t kRowUnitBytes = 32768;
inline constexpr std::uint32_t kMaxRowsPerUnit = 64;
inline constexpr std::uint32_t kWordsPerUnit = 2048;
inline constexpr std::uint32_t kShortestRowBytes = 512;
// The same for conversion, in elements.
inline constexpr std::uint32_t kConvertSegment = 2048;
inline constexpr std::uint32_t kConvertUnit = 16384;
inline constexpr std::uint32_t kShortestConvertedRow = 64;
inline constexpr std::uint32_t kConvertTileSide = 32;

// Side of a square tile in words: narrow words need a larger tile to fill a memory sector.
constexpr std::uint32_t tile_side(std::uint32_t word_bytes) { return word_bytes >= 4 ? 32 : 64; }

struct BoxItem {
  const unsigned char* src;  // null: fill
  unsigned char* dst;
  std::uint64_t count;          // row segments, words or tiles
  std::uint32_t mode;           // BoxMode
  std::uint32_t word_bytes;     // 1, 2, 4, 8 or 16; divides every address and stride. Converting: of a source element
  std::uint32_t swap_width;     // 1, or the width of the groups within a word whose bytes are reversed
  std::uint32_t rank;           // >= 1; tiles: >= 2
  std::uint32_t pattern_words;  // fill: period of the pattern along the last dimension, in words
  std::uint32_t segments;       // rows: segments per row
  std::uint32_t per_unit;       // rows: segments per unit
  std::uint32_t result_bytes;   // converting: size of a destination element
  std::uint64_t extent[kItemRank];
  std::int64_t src_stride[kItemRank];
  std::int64_t dst_stride[kItemRank];
};

// The boxes of one launch. Reused between launches, so that it stops allocating once it has reached its largest size.
struct BoxList {
  std::vector<BoxItem> items;
  std::vector<std::uint32_t> first_unit;  // first unit of each item, and the total at the end
  std::vector<std::byte> pattern;         // the fill element, repeated to 16 bytes or more

  void clear();
  void set_pattern(const std::byte* fill, std::uint32_t element_bytes);
  // Throws std::bad_alloc. Empty boxes add nothing.
  void add(const Box& box, const ElementOp& op);
  // For the converting kernel: items are elements at any address. Not for fills, whose element is already in its final
  // form. A list holds only one kind of item.
  void add_converting(const Box& box, const ElementOp& op);
  std::uint32_t units() const { return first_unit.back(); }

 private:
  void append_item(const BoxItem& item, std::uint64_t units);
  void add_words(Box& box, std::uint32_t word_bytes, std::uint32_t swap_width, std::uint32_t pattern_words);
};

}  // namespace headrace::device::cuda

// ArraySpec: an array's metadata, in a form that a case can draw, change and write as a document.
#pragma once

#include <string>
#include <vector>

#include "dice.h"

namespace headrace::stress {

struct ElementType {
  const char* v3;
  const char* v2;        // without the byte order
  unsigned bytes, word;  // word: the unit that byte order swaps
  bool integer;
};

enum class Squeeze : std::uint8_t { kNone, kZstd, kLz4, kGzip, kZlib, kBlosc };

// The encoding of a chunk's elements, in this order.
struct Codecs {
  std::vector<std::size_t> order;  // a transpose; empty: none. v2: all axes reversed, or none
  bool big_endian = false;
  bool delta = false;          // v2, little-endian integers
  unsigned shuffle_bytes = 0;  // 0: none
  Squeeze squeeze = Squeeze::kNone;
  const char* blosc_codec = "lz4";
  int blosc_shuffle = 0;
  bool checked = false;  // crc32c, v3
};

// One level of shards.
struct Level {
  std::vector<std::size_t> order;  // a transpose before it; empty: none
  Shape inner;                     // in the axis order after it
  bool at_end = true, index_checked = true, index_big = false;
};

struct ArraySpec {
  int format = 3;
  Shape shape, chunk;
  std::vector<Shape> edges;  // grid "rectilinear": lengths of the chunks along each axis; empty: regular
  std::vector<Level> levels;
  Codecs codecs;
  ElementType type{};
  std::string fill_text;
  Bytes fill;               // one element, little-endian
  bool slash = true;        // whether '/' separates the numbers of a key
  bool plain_keys = false;  // v3: keys without "c"

  std::string document() const;
  std::string document_key() const { return format == 2 ? ".zarray" : "zarr.json"; }
  std::string chunk_key(const Shape& at) const;
  std::uint64_t elements() const { return product(shape); }
  // Number of chunks along each axis; a chunk's first element and its extent.
  Shape grid() const;
  Shape chunk_begin(const Shape& at) const;
  Shape chunk_extent(const Shape& at) const;
};

struct SpecOptions {
  std::uint64_t min_elements = 0, max_elements = 1500, max_chunks = 40;
  bool sharded_only = false;
  unsigned raw_one_in = 0;  // additionally, one array in so many has raw chunks; 0: none
};

ArraySpec make_spec(Dice& dice, const SpecOptions& options);

// Sets a fill value that the type can represent, as text and bytes.
void set_fill(ArraySpec& spec, unsigned value);

std::string json_list(const Shape& values);

}  // namespace headrace::stress

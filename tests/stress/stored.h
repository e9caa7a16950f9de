// Stored: the objects of an array. Meaning: what a reader must find in them, computed by a short independent reader.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "chunk_code.h"

namespace headrace::stress {

struct Object {
  Bytes bytes;
  // Faults outside its bytes: it cannot be read, or may be refused.
  Verdict verdict = Verdict::kExact;
};

// A meaningful part of an object: a shard's index, or a chunk.
struct Site {
  std::string key;
  bool is_index = false;
  std::uint64_t at = 0, bytes = 0;  // in the object
  std::uint64_t base = 0;           // index: start of its shard
  std::uint64_t shard_bytes = 0;    // index: the shard's length
  std::size_t level = 0;            // index: level of its shard
};

struct Stored {
  std::map<std::string, Object> objects;  // chunks and shards by key
  std::vector<Site> sites;

  std::vector<Site> of_kind(bool index) const {
    std::vector<Site> out;
    for (const Site& site : sites) {
      if (site.is_index == index) out.push_back(site);
    }
    return out;
  }
};

struct WriteOptions {
  std::uint64_t values_seed = 1;
  std::uint64_t layout_seed = 1;  // order of the chunks in a shard, and gaps
  unsigned missing_one_in = 0;    // one of so many chunks is missing
  bool gaps = true;
};

// Encodes an array whose elements are derived from the seed.
Stored write_array(const ArraySpec& spec, ChunkCode& code, const WriteOptions& options);

struct Unit {
  Verdict verdict = Verdict::kExact;
  std::string key;
};

struct Meaning {
  Shape shape;
  std::size_t item_bytes = 1;
  Bytes elements;                   // C order
  std::vector<std::uint32_t> unit;  // for each element: its index in `units`
  std::vector<Unit> units;
};

Meaning read_meaning(const ArraySpec& spec, const ChunkCode& code, const std::map<std::string, Object>& objects);

}  // namespace headrace::stress

#include <charconv>

#include "zarr/metadata/metadata.h"

namespace headrace::zarr {

void append_chunk_key(const ChunkKeyEncoding& encoding, const std::uint64_t* index, std::size_t rank,
                      std::string& key) {
  const bool prefixed = encoding.kind == ChunkKeyEncoding::Kind::kDefault;
  if (prefixed) {
    key += 'c';
  } else if (rank == 0) {
    key += '0';
  }
  char digits[20];  // 2^64 - 1 has 20
  for (std::size_t i = 0; i < rank; ++i) {
    if (prefixed || i > 0) key += encoding.separator;
    const char* end = std::to_chars(digits, digits + sizeof digits, index[i]).ptr;
    key.append(digits, static_cast<std::size_t>(end - digits));
  }
}

}  // namespace headrace::zarr

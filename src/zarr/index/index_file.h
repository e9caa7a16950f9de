// The file format of saved decode indices of an array's chunks.
//
// All numbers are little-endian. The file has three parts:
// - a header of 64 bytes: "hrindex" and a zero, version, number of records, bytes after the records, the codec's name,
//   and a checksum of the rest of the file;
// - a record of 32 bytes per chunk: number of the stored object in the array's grid, the chunk's offset in it, its
//   encoded bytes, and the bytes of its index;
// - the indices, concatenated in the records' order. Their format is the codec's own.
//
// Parsing is safe for any bytes: it reads nothing outside them, and allocates only for as many records as fit. A
// well-formed file with wrong contents costs time, not correctness, because an index is verified as it is used.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::zarr {

struct IndexRecord {
  std::uint64_t object = 0, offset = 0, encoded_bytes = 0;
  std::uint64_t at = 0;     // offset in the indices
  std::uint32_t bytes = 0;  // 0: the chunk needs none
};

struct IndexFile {
  std::string codec;
  std::vector<IndexRecord> records;
  std::span<const std::byte> indices;  // views the parsed bytes
  std::span<const std::byte> index(const IndexRecord& record) const { return indices.subspan(record.at, record.bytes); }
};

// REQUIRES: `at` and `bytes` of the records cover `indices` contiguously and in order. Throws std::bad_alloc.
std::vector<std::byte> write_index_file(std::string_view codec, std::span<const IndexRecord> records,
                                        std::span<const std::byte> indices);
// kCorrupt; kUnsupported: another version. Throws std::bad_alloc.
Result<IndexFile> parse_index_file(std::span<const std::byte> bytes);

}  // namespace headrace::zarr

// The file that decode indices of an array's chunks are saved in.
//
// Little-endian: a header of 64 bytes ("hrindex" and a zero, version, number of records, bytes behind the records, the
// codec's name, a checksum of all the rest), a record of 32 bytes for each chunk (number of the stored object in the
// array's grid, where the chunk begins in it, how many bytes it has encoded, bytes of its index), and the indices, one
// behind the other, in the records' order. What is in an index is the codec's own affair.
//
// Whatever the bytes are, parsing them reads nothing outside and takes memory for as many records as they have room
// for. A file that is well-formed and wrong costs time, not correctness: an index is verified as it is used.
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
  std::uint64_t at = 0;     // in the indices
  std::uint32_t bytes = 0;  // 0: the chunk needs none
};

struct IndexFile {
  std::string codec;
  std::vector<IndexRecord> records;
  std::span<const std::byte> indices;  // of the bytes that were parsed
  std::span<const std::byte> index(const IndexRecord& record) const { return indices.subspan(record.at, record.bytes); }
};

// REQUIRES: each record's `at` and `bytes` lie in `indices`, one behind the other. Throws std::bad_alloc.
std::vector<std::byte> write_index_file(std::string_view codec, std::span<const IndexRecord> records,
                                        std::span<const std::byte> indices);
// kCorrupt, kUnsupported for another version. Throws std::bad_alloc.
Result<IndexFile> parse_index_file(std::span<const std::byte> bytes);

}  // namespace headrace::zarr

// Puts a FlatArray into a ZIP file.
#pragma once

#include <cstdint>
#include <string>

#include "support/flat_array.h"
#include "support/zip_writer.h"

namespace headrace::testing {

// For layouts without shards. The archive records a wrong CRC-32 for chunk `wrong`; -1: for none.
inline ZipWriter::Bytes zip_of(const FlatArray& array, bool deflate, std::int64_t wrong = -1) {
  ZipWriter writer;
  writer.add_text(array.metadata_key(), array.metadata());
  for (std::uint64_t i = 0; i < array.chunks; ++i) {
    const auto change = [&](ZipRecord& record) {
      if (static_cast<std::int64_t>(i) == wrong) record.crc32 = record.local_crc32 = record.crc32 ^ 1;
    };
    writer.pad(static_cast<std::size_t>(i % 7));  // entries begin at any offset
    writer.add(array.key(i), array.encoded(i), {.deflate = deflate, .change = change});
  }
  return writer.finish();
}

}  // namespace headrace::testing

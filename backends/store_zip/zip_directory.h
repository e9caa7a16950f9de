// The central directory of a ZIP file, read strictly (PKWARE APPNOTE.TXT 6.3.10, sections 4.3 and 4.4).
//
// Before anything is trusted, it checks that the end record's comment ends with the file; that directory, ZIP64 records
// and end record are adjacent; that the directory holds as many entries as the end record says; and that the header and
// data of each entry lie before the directory without overlapping another's. So memory is bounded by the file's size,
// and an archive whose entries share bytes (a zip bomb) is rejected. The directory's memory follows from its size and
// entry count, and is charged to the budget before the first entry is read.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/name_index.h"

namespace headrace::store {

struct ZipEntry {
  std::uint64_t header_at = 0;  // position of its local header in the file
  std::uint64_t packed_bytes = 0, size_bytes = 0;
  std::uint32_t crc32 = 0;
  std::uint16_t flags = 0, method = 0;

  static constexpr std::uint16_t kStored = 0, kDeflated = 8;
};

struct ZipDirectory {
  // Names relative to the requested folder. Of equal names the last counts, as in Python's zipfile. Names that are not
  // valid keys (absolute, with "..", backslash or NUL) are omitted.
  NameIndex names;
  std::vector<ZipEntry> entries;  // by number of the name; meaningless for empty folders
  std::uint64_t begin = 0;        // start of the directory in the file; all data lies before it
  bool packs = false;             // has deflated entries
  bool folder_exists = false;
  bool folder_is_file = false;
  base::Charge memory;  // for all of this
};

// Reads the directory of the file `fd` of `file_bytes` bytes. `folder`: "" or a valid key. kCorrupt, kUnsupported, kIo,
// kShort; kResourceExhausted if the budget of out.memory is too small. Throws std::bad_alloc.
Status read_zip_directory(int fd, std::uint64_t file_bytes, std::string_view folder, ZipDirectory& out);

// Compares the local header with the directory's entry and sets `data_at` to the position of the entry's data. The
// entry's name is folder + "/" + name, or just name without a folder.
Status check_zip_header(int fd, const ZipDirectory& directory, const ZipEntry& entry, std::string_view folder,
                        std::string_view name, std::uint64_t& data_at);

// OK if such entries can be read; otherwise an error that names the unsupported feature.
Status check_zip_method(const ZipEntry& entry);

}  // namespace headrace::store

// The central directory of a ZIP file, read strictly (PKWARE APPNOTE.TXT 6.3.10, sections 4.3 and 4.4).
//
// What is checked before anything is believed: that the end record's comment ends with the file; that directory, ZIP64
// records and end record lie one behind the other; that the directory holds as many entries as the end record says;
// that each entry's local header and data lie before the directory, and no two of them overlap. So memory is bounded by
// the file's size, and an archive whose entries share their bytes (a bomb) is refused. What the directory takes follows
// from its size and the number of its entries, and is taken from the budget before the first of them is read.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/name_index.h"

namespace headrace::store {

struct ZipEntry {
  std::uint64_t header_at = 0;  // its local header in the file
  std::uint64_t packed_bytes = 0, size_bytes = 0;
  std::uint32_t crc32 = 0;
  std::uint16_t flags = 0, method = 0;

  static constexpr std::uint16_t kStored = 0, kDeflated = 8;
};

struct ZipDirectory {
  // Of names below the folder that was asked for, without it. Of equal names the last counts, as for Python's zipfile.
  // Names that no key can have (absolute, with "..", backslash or NUL) are left out.
  NameIndex names;
  std::vector<ZipEntry> entries;  // by the names' numbers; those of empty folders mean nothing
  std::uint64_t begin = 0;        // where in the file the directory begins: all data lies before it
  bool packs = false;             // there are deflated entries
  bool folder_exists = false;
  bool folder_is_file = false;
  base::Charge memory;  // of all of this
};

// Reads the directory of the `file_bytes` long file `fd`. `folder`: "" or a valid key. kCorrupt, kUnsupported, kIo,
// kShort; kResourceExhausted where out.memory's budget has too little. Throws std::bad_alloc.
Status read_zip_directory(int fd, std::uint64_t file_bytes, std::string_view folder, ZipDirectory& out);

// Compares the local header with the directory's entry; `data_at` gets where the entry's data begins. The entry's name
// is folder + "/" + name, or name alone where there is no folder.
Status check_zip_header(int fd, const ZipDirectory& directory, const ZipEntry& entry, std::string_view folder,
                        std::string_view name, std::uint64_t& data_at);

// Why entries like this cannot be read, with the feature named; OK if they can.
Status check_zip_method(const ZipEntry& entry);

}  // namespace headrace::store

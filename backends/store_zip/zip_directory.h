// The central directory of a ZIP file, read strictly (PKWARE APPNOTE.TXT 6.3.10, sections 4.3 and 4.4).
//
// Before anything is trusted, it checks that the end record's comment ends with the file; that directory, ZIP64 records
// and end record are adjacent; that the directory holds as many entries as the end record says; and that the header and
// data of each entry lie before the directory without overlapping another's. So memory is bounded by the file's size,
// and an archive whose entries share bytes (a zip bomb) is rejected. The directory's memory follows from its size and
// entry count, and is charged to the budget before the first entry is read.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
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

// The archive's bytes, wherever they are.
class ZipInput {
 public:
  // Fills `out` from position `at`. kShort if the archive ends first.
  virtual Status read(std::uint64_t at, std::span<std::byte> out) const = 0;
  // How many bytes to read at once.
  virtual std::uint64_t window_bytes() const noexcept { return std::uint64_t{1} << 20; }

 protected:
  ~ZipInput() = default;
};

// Bytes in memory that begin at position `at`; kShort for others.
class ZipBytes final : public ZipInput {
 public:
  ZipBytes(std::uint64_t at, std::span<const std::byte> bytes) noexcept : at_(at), bytes_(bytes) {}
  Status read(std::uint64_t at, std::span<std::byte> out) const override;

 private:
  std::uint64_t at_;
  std::span<const std::byte> bytes_;
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

// The end record and its longest comment: with these last bytes the reading of a directory begins.
inline constexpr std::uint64_t kZipTailBytes = 22 + 65'535;

// Reads the directory of an archive of `file_bytes` bytes. `folder`: "" or a valid key. kCorrupt, kUnsupported, and
// errors of `input`; kResourceExhausted if the budget of out.memory is too small. Throws std::bad_alloc.
Status read_zip_directory(const ZipInput& input, std::uint64_t file_bytes, std::string_view folder, ZipDirectory& out);

// kNotFound or kInvalidArgument if the folder whose directory was read does not exist or is an object. `archive` names
// the archive in the message.
Status check_zip_folder(const ZipDirectory& directory, std::string_view folder, const std::string& archive);

// Compares the local header with the directory's entry and sets `data_at` to the position of the entry's data. The
// entry's name is folder + "/" + name, or just name without a folder. kShort: `input` ends before the header does.
Status check_zip_header(const ZipInput& input, const ZipDirectory& directory, const ZipEntry& entry,
                        std::string_view folder, std::string_view name, std::uint64_t& data_at);

// Bytes from the start of an entry's local header to the end of its name.
std::uint64_t zip_header_bytes(std::string_view folder, std::string_view name) noexcept;
// The length of a local header, of which `head` has the first zip_header_bytes() bytes or more.
std::uint64_t zip_header_length(std::span<const std::byte> head) noexcept;

// OK if such entries can be read; otherwise an error that names the unsupported feature.
Status check_zip_method(const ZipEntry& entry);

}  // namespace headrace::store

#include "zip_directory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

namespace headrace::store {
namespace {

constexpr std::uint32_t kHeaderMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr std::uint64_t kHeaderBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
static_assert(kZipTailBytes == kEndBytes + 65'535);
constexpr std::uint32_t kFull32 = 0xffffffffu;  // means that the value is in the ZIP64 field
constexpr std::uint16_t kFull16 = 0xffffu;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint16_t kEncrypted = 1u << 0, kSizesFollow = 1u << 3, kPatch = 1u << 5, kStrong = 1u << 6,
                        kMasked = 1u << 13;

Status corrupt(std::string what) { return Status(Code::kCorrupt, Layer::kStore, "ZIP: " + std::move(what)); }

std::uint64_t number(const std::byte* at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(at[i]);
  return value;
}
std::uint16_t u16(const std::byte* at) { return static_cast<std::uint16_t>(number(at, 2)); }
std::uint32_t u32(const std::byte* at) { return static_cast<std::uint32_t>(number(at, 4)); }
std::uint64_t u64(const std::byte* at) { return number(at, 8); }

// Reads a range of the file from front to back through a window.
class Reader {
 public:
  Reader(const ZipInput& input, std::uint64_t begin, std::uint64_t end) : input_(input), at_(begin), end_(end) {}
  std::uint64_t left() const { return end_ - at_; }
  std::uint64_t position() const { return at_; }
  void skip(std::uint64_t bytes) { at_ += bytes; }
  // The next `bytes` bytes, valid until the next call. REQUIRES: bytes <= left().
  Status peek(std::size_t bytes, const std::byte*& data) {
    if (at_ < window_at_ || at_ + bytes > window_at_ + window_.size()) {
      const std::uint64_t most = std::max<std::uint64_t>(bytes, input_.window_bytes());
      window_.resize(static_cast<std::size_t>(std::min(left(), most)));
      window_at_ = at_;
      HEADRACE_TRY(input_.read(at_, window_));
    }
    data = window_.data() + (at_ - window_at_);
    return {};
  }

 private:
  const ZipInput& input_;
  std::uint64_t at_, end_, window_at_ = 0;
  std::vector<std::byte> window_;
};

struct End {
  std::uint64_t entries = 0, directory_at = 0, directory_bytes = 0;
};

// Reads the end record (section 4.3.16), and the ZIP64 records before it, if any (4.3.14, 4.3.15).
Status find_end(const ZipInput& input, std::uint64_t file_bytes, End& end) {
  if (file_bytes < kEndBytes) return corrupt("the file is too short");
  const std::uint64_t tail_bytes = std::min(file_bytes, kZipTailBytes);
  std::vector<std::byte> tail(static_cast<std::size_t>(tail_bytes));
  HEADRACE_TRY(input.read(file_bytes - tail_bytes, tail));
  // The last record whose comment ends with the file.
  const std::byte* record = nullptr;
  for (std::uint64_t at = tail_bytes - kEndBytes + 1; at-- > 0 && record == nullptr;) {
    const std::byte* candidate = tail.data() + at;
    if (u32(candidate) == kEndMark && at + kEndBytes + u16(candidate + 20) == tail_bytes) record = candidate;
  }
  if (record == nullptr) {
    return corrupt("no end of central directory record: the file is cut short, or something follows the archive");
  }
  const std::uint64_t record_at = file_bytes - tail_bytes + static_cast<std::uint64_t>(record - tail.data());
  const std::uint16_t disk = u16(record + 4), directory_disk = u16(record + 6);
  const std::uint16_t entries_here = u16(record + 8), entries = u16(record + 10);
  end.entries = entries;
  end.directory_bytes = u32(record + 12);
  end.directory_at = u32(record + 16);
  std::uint64_t directory_end = record_at;
  std::byte locator[kLocatorBytes];
  bool zip64 = false;
  if (record_at >= kLocatorBytes) {
    HEADRACE_TRY(input.read(record_at - kLocatorBytes, locator));
    zip64 = u32(locator) == kLocatorMark;
  }
  const auto split = [] {
    return Status(Code::kUnsupported, Layer::kStore, "ZIP: archives split over several files are not supported");
  };
  if (!zip64) {
    if (disk != 0 || directory_disk != 0 || entries_here != entries) return split();
  } else {
    const std::uint64_t locator_at = record_at - kLocatorBytes, end64_at = u64(locator + 8);
    if (u32(locator + 4) != 0 || u32(locator + 16) > 1) return split();
    if (end64_at > locator_at || locator_at - end64_at < kEnd64Bytes) {
      return corrupt("the ZIP64 end record is not before its locator");
    }
    std::byte end64[kEnd64Bytes];
    HEADRACE_TRY(input.read(end64_at, end64));
    if (u32(end64) != kEnd64Mark) return corrupt("no ZIP64 end record where its locator points");
    if (u64(end64 + 4) != locator_at - end64_at - 12) return corrupt("the ZIP64 end record's size does not fit");
    if (u32(end64 + 16) != 0 || u32(end64 + 20) != 0 || u64(end64 + 24) != u64(end64 + 32)) return split();
    const std::uint64_t entries64 = u64(end64 + 32), bytes64 = u64(end64 + 40), at64 = u64(end64 + 48);
    const auto agree = [](std::uint64_t small, std::uint64_t full, std::uint64_t large) {
      return small == full || small == large;
    };
    if (!agree(entries, kFull16, entries64) || !agree(end.directory_bytes, kFull32, bytes64) ||
        !agree(end.directory_at, kFull32, at64)) {
      return corrupt("the ZIP64 end record contradicts the end record");
    }
    end = {entries64, at64, bytes64};
    directory_end = end64_at;
  }
  if (end.directory_at > directory_end || directory_end - end.directory_at != end.directory_bytes) {
    return corrupt("the central directory of " + std::to_string(end.directory_bytes) + " bytes at " +
                   std::to_string(end.directory_at) + " does not end where the end record begins (" +
                   std::to_string(directory_end) + "): the file is cut, or bytes were put before or into the archive");
  }
  if (end.entries > end.directory_bytes / kEntryBytes) {
    return corrupt("a central directory of " + std::to_string(end.directory_bytes) + " bytes cannot hold " +
                   std::to_string(end.entries) + " entries");
  }
  return {};
}

// Finds the ZIP64 field among the extra fields (4.5.3); nullopt: there is none.
Status find_zip64(std::span<const std::byte> extra, std::optional<std::span<const std::byte>>& out) {
  while (extra.size() >= 4) {
    const std::uint16_t id = u16(extra.data());
    const std::size_t bytes = u16(extra.data() + 2);
    if (bytes > extra.size() - 4) return corrupt("an extra field runs past its end");
    if (id == kZip64Field) {
      if (out) return corrupt("two ZIP64 fields");
      out = extra.subspan(4, bytes);
    }
    extra = extra.subspan(4 + bytes);
  }
  return {};  // up to three bytes of padding are common
}

// Takes a value that did not fit into 32 bits from the ZIP64 field; false: the field is too short.
bool take(std::span<const std::byte>& field, std::uint64_t& value) {
  if (value != kFull32) return true;
  if (field.size() < 8) return false;
  value = u64(field.data());
  field = field.subspan(8);
  return true;
}

Status parse_entry(const std::byte* record, std::size_t name_bytes, std::size_t extra_bytes, ZipEntry& entry) {
  entry.flags = u16(record + 8);
  entry.method = u16(record + 10);
  entry.crc32 = u32(record + 16);
  entry.packed_bytes = u32(record + 20);
  entry.size_bytes = u32(record + 24);
  entry.header_at = u32(record + 42);
  std::uint32_t disk = u16(record + 34);
  std::optional<std::span<const std::byte>> zip64;
  HEADRACE_TRY(find_zip64({record + kEntryBytes + name_bytes, extra_bytes}, zip64));
  if (zip64) {
    std::span<const std::byte> field = *zip64;
    if (!take(field, entry.size_bytes) || !take(field, entry.packed_bytes) || !take(field, entry.header_at)) {
      return corrupt("a ZIP64 field is too short");
    }
    if (disk == kFull16) {
      if (field.size() < 4) return corrupt("a ZIP64 field is too short");
      disk = u32(field.data());
    }
  }
  if (disk != 0) {
    return Status(Code::kUnsupported, Layer::kStore, "ZIP: archives split over several files are not supported");
  }
  return {};
}

// The checks that need no local header.
Status check_entry(const ZipEntry& entry, std::uint64_t name_bytes, std::uint64_t directory_at) {
  const std::uint64_t header = kHeaderBytes + name_bytes;
  if (entry.header_at > directory_at || directory_at - entry.header_at < header ||
      directory_at - entry.header_at - header < entry.packed_bytes) {
    return corrupt("an entry of " + std::to_string(entry.packed_bytes) + " bytes at " +
                   std::to_string(entry.header_at) + " does not lie before the central directory at " +
                   std::to_string(directory_at));
  }
  if ((entry.flags & kEncrypted) != 0) return {};
  if (entry.method == ZipEntry::kStored && entry.packed_bytes != entry.size_bytes) {
    return corrupt("a stored entry has two sizes, " + std::to_string(entry.packed_bytes) + " and " +
                   std::to_string(entry.size_bytes));
  }
  if (entry.method == ZipEntry::kDeflated) {
    // Deflate produces at most 258 bytes from two bits (RFC 1951, 3.2.5).
    constexpr std::uint64_t kMaxGain = 1032;
    if (entry.size_bytes / kMaxGain > entry.packed_bytes) {
      return corrupt(std::to_string(entry.packed_bytes) + " deflated bytes cannot hold " +
                     std::to_string(entry.size_bytes));
    }
  }
  return {};
}

struct Range {
  std::uint64_t begin, end;
};

Status check_overlaps(std::vector<Range>& ranges) {
  const auto before = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  if (!std::is_sorted(ranges.begin(), ranges.end(), before)) std::sort(ranges.begin(), ranges.end(), before);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      return corrupt("entries overlap at byte " + std::to_string(ranges[i].begin));
    }
  }
  return {};
}

// Charges the memory of the whole directory: names, entries, and a word that the store keeps for each; and, while
// reading, ranges.
Status take_memory(const End& end, std::uint64_t window_bytes, base::Charge& kept, base::Charge& reading,
                   ZipDirectory& out) {
  const std::uint64_t names = end.directory_bytes - end.entries * kEntryBytes;
  constexpr std::uint64_t kKept = sizeof(ZipEntry) + sizeof(std::uint64_t);
  const std::string what = "the directory of a ZIP file with " + std::to_string(end.entries) + " entries";
  HEADRACE_TRY(kept.take(NameIndex::bytes_of(end.entries, names) + end.entries * kKept, what));
  HEADRACE_TRY(reading.take(end.entries * sizeof(Range) + std::min(window_bytes, end.directory_bytes), what));
  if (kept.budget() == nullptr) return {};  // without a budget, the sizes are unverified: reserve nothing
  out.names.reserve(end.entries, names);
  out.entries.reserve(static_cast<std::size_t>(end.entries));
  return {};
}

}  // namespace

Status ZipBytes::read(std::uint64_t at, std::span<std::byte> out) const {
  if (at < at_ || at - at_ > bytes_.size() || out.size() > bytes_.size() - (at - at_)) {
    return Status(Code::kShort, Layer::kStore, "ZIP: the archive ends within a record");
  }
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + (at - at_), out.size());
  return {};
}

Status check_zip_folder(const ZipDirectory& directory, std::string_view folder, const std::string& archive) {
  if (directory.folder_exists) return {};
  const bool is_file = directory.folder_is_file;
  return Status(is_file ? Code::kInvalidArgument : Code::kNotFound, Layer::kStore,
                is_file ? "a store must be a folder of the archive, not one of its objects"
                        : "no such folder in the archive " + archive)
      .with_key(folder);
}

Status read_zip_directory(const ZipInput& input, std::uint64_t file_bytes, std::string_view folder, ZipDirectory& out) {
  End end;
  HEADRACE_TRY(find_end(input, file_bytes, end));
  out.begin = end.directory_at;
  out.folder_exists = folder.empty();
  Reader reader(input, end.directory_at, end.directory_at + end.directory_bytes);
  std::vector<Range> ranges;
  base::Charge reading(out.memory.budget());
  HEADRACE_TRY(take_memory(end, input.window_bytes(), out.memory, reading, out));
  if (reading.budget() != nullptr) ranges.reserve(static_cast<std::size_t>(end.entries));
  for (std::uint64_t i = 0; i < end.entries; ++i) {
    const std::byte* record = nullptr;
    const auto where = [&](Status status) {
      return std::move(status).with_range(reader.position(), std::min(reader.left(), kEntryBytes));
    };
    if (reader.left() < kEntryBytes) return where(corrupt("the central directory ends within an entry"));
    HEADRACE_TRY(reader.peek(kEntryBytes, record));
    if (u32(record) != kEntryMark) return where(corrupt("no entry where the central directory continues"));
    const std::size_t name_bytes = u16(record + 28), extra_bytes = u16(record + 30), comment_bytes = u16(record + 32);
    const std::uint64_t record_bytes = kEntryBytes + name_bytes + extra_bytes + comment_bytes;
    if (record_bytes > reader.left()) return where(corrupt("the central directory ends within an entry"));
    HEADRACE_TRY(reader.peek(static_cast<std::size_t>(record_bytes), record));
    ZipEntry entry;
    std::string_view name(reinterpret_cast<const char*>(record) + kEntryBytes, name_bytes);
    Status status = parse_entry(record, name_bytes, extra_bytes, entry);
    if (status.ok()) status = check_entry(entry, name_bytes, end.directory_at);
    if (!status.ok()) return where(std::move(status)).with_key(name.substr(0, 200));
    ranges.push_back({entry.header_at, entry.header_at + kHeaderBytes + name_bytes + entry.packed_bytes});
    reader.skip(record_bytes);

    const bool is_folder = !name.empty() && name.back() == '/';
    if (!valid_key(is_folder ? name.substr(0, name.size() - 1) : name)) continue;
    if (!folder.empty()) {
      if (name == folder) out.folder_is_file = true;
      if (name.size() <= folder.size() || name.substr(0, folder.size()) != folder || name[folder.size()] != '/') {
        continue;
      }
      out.folder_exists = true;
      name.remove_prefix(folder.size() + 1);
      if (name.empty()) continue;
    }
    bool is_new = false;
    const std::uint32_t number = out.names.add(name, is_new);
    if (number == NameIndex::kNone) {
      return Status(Code::kResourceExhausted, Layer::kStore, "ZIP: more entries than can be held");
    }
    out.packs = out.packs || entry.method == ZipEntry::kDeflated;
    if (is_new) {
      out.entries.push_back(entry);
    } else {
      out.entries[number] = entry;
    }
  }
  if (reader.left() != 0) {
    return corrupt("the central directory has " + std::to_string(reader.left()) + " bytes after its " +
                   std::to_string(end.entries) + " entries");
  }
  return check_overlaps(ranges);
}

std::uint64_t zip_header_bytes(std::string_view folder, std::string_view name) noexcept {
  return kHeaderBytes + name.size() + (folder.empty() ? 0 : folder.size() + 1);
}

std::uint64_t zip_header_length(std::span<const std::byte> head) noexcept {
  return kHeaderBytes + u16(head.data() + 26) + u16(head.data() + 28);
}

// Section 4.3.7.
Status check_zip_header(const ZipInput& input, const ZipDirectory& directory, const ZipEntry& entry,
                        std::string_view folder, std::string_view name, std::uint64_t& data_at) {
  std::byte header[kHeaderBytes + 2 * 4097];
  const auto name_bytes = static_cast<std::size_t>(zip_header_bytes(folder, name) - kHeaderBytes);
  if (name_bytes > sizeof header - kHeaderBytes) return corrupt("an entry's name is too long");
  HEADRACE_TRY(input.read(entry.header_at, {header, kHeaderBytes + name_bytes}));
  const auto differs = [&](const char* what) {
    return corrupt(std::string("the ") + what + " in the local header differs from the central directory")
        .with_range(entry.header_at, kHeaderBytes);
  };
  if (u32(header) != kHeaderMark) return corrupt("no local header where the central directory says");
  const char* stored = reinterpret_cast<const char*>(header) + kHeaderBytes;
  if (u16(header + 26) != name_bytes) return differs("name");
  if (!folder.empty()) {
    if (std::memcmp(stored, folder.data(), folder.size()) != 0 || stored[folder.size()] != '/') return differs("name");
    stored += folder.size() + 1;
  }
  if (!name.empty() && std::memcmp(stored, name.data(), name.size()) != 0) return differs("name");
  constexpr std::uint16_t kMeaningful = kEncrypted | kSizesFollow | kPatch | kStrong | kMasked;
  const std::uint16_t flags = u16(header + 6);
  if (((flags ^ entry.flags) & kMeaningful) != 0) return differs("set of flags");
  if (u16(header + 8) != entry.method) return differs("method");
  const std::uint16_t extra_bytes = u16(header + 28);
  const std::uint64_t header_end = entry.header_at + kHeaderBytes + name_bytes + extra_bytes;
  if (header_end > directory.begin || directory.begin - header_end < entry.packed_bytes) {
    return corrupt("an entry's data runs into the central directory").with_range(entry.header_at, kHeaderBytes);
  }
  const std::uint32_t crc32 = u32(header + 14);
  std::uint64_t packed = u32(header + 18), size = u32(header + 22);
  if (packed == kFull32 || size == kFull32) {
    std::vector<std::byte> extra(extra_bytes);
    HEADRACE_TRY(input.read(entry.header_at + kHeaderBytes + name_bytes, extra));
    std::optional<std::span<const std::byte>> zip64;
    HEADRACE_TRY(find_zip64(extra, zip64));
    // Here the field has both sizes, the unpacked one first (4.5.3).
    if (zip64 && (!take(*zip64, size) || !take(*zip64, packed))) return corrupt("a ZIP64 field is too short");
  }
  // If the header was written before the data was known, they are zero, and a descriptor after the data has them
  // (4.4.4, bit 3).
  const bool unknown = (flags & kSizesFollow) != 0;
  if (crc32 != entry.crc32 && !(unknown && crc32 == 0)) return differs("CRC-32");
  if (packed != entry.packed_bytes && !(unknown && packed == 0)) return differs("packed size");
  if (size != entry.size_bytes && !(unknown && size == 0)) return differs("size");
  data_at = header_end;
  return {};
}

Status check_zip_method(const ZipEntry& entry) {
  if (entry.method == ZipEntry::kStored || entry.method == ZipEntry::kDeflated) {
    if ((entry.flags & (kEncrypted | kStrong | kMasked | kPatch)) == 0) return {};
  }
  const auto unsupported = [](const std::string& what) {
    return Status(Code::kUnsupported, Layer::kStore,
                  "ZIP: " + what + " entries are not supported: write the archive with stored entries");
  };
  if ((entry.flags & (kEncrypted | kStrong | kMasked)) != 0 || entry.method == 99) return unsupported("encrypted");
  if ((entry.flags & kPatch) != 0) return unsupported("patched");
  switch (entry.method) {
    case 1:
      return unsupported("shrunk");
    case 6:
      return unsupported("imploded");
    case 9:
      return unsupported("Deflate64");
    case 12:
      return unsupported("bzip2");
    case 14:
      return unsupported("LZMA");
    case 93:
      return unsupported("Zstandard");
    case 95:
      return unsupported("XZ");
    case 98:
      return unsupported("PPMd");
    default:
      return unsupported("method " + std::to_string(entry.method));
  }
}

}  // namespace headrace::store

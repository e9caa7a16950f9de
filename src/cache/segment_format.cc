#include "cache/segment_format.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "base/crc32c.h"

namespace headrace::cache {
namespace {

constexpr char kSegmentMagic[8] = {'h', 'r', 'c', 'a', 'c', 'h', 'e', '1'};
constexpr std::uint32_t kRecordMagic = 0x52435248, kSealMagic = 0x53435248;  // "HRCR", "HRCS"

template <class Part>
std::uint32_t trailing_crc(const Part& part, std::size_t from) noexcept {
  static_assert(std::is_trivially_copyable_v<Part>);
  return base::crc32c(reinterpret_cast<const std::byte*>(&part) + from, sizeof part - from);
}

std::uint32_t crc_of(const SegmentHead& head) noexcept {
  return base::crc32c(reinterpret_cast<const std::byte*>(&head), offsetof(SegmentHead, crc));
}

template <class Part>
bool read_part(const ReadSegment& read, std::uint64_t position, Part& part) {
  return read(position, std::as_writable_bytes(std::span(&part, 1))) == sizeof part;
}

// Reads the list of a sealed segment; false: it has no valid one.
bool scan_list(const ReadSegment& read, std::uint64_t size, std::uint64_t fingerprint, std::uint64_t from,
               const NoteRecord& note, SegmentScan& scan) {
  SegmentSeal seal;
  if (size < 2 * kSegmentUnit || size % kSegmentUnit != 0 || !read_part(read, size - sizeof seal, seal)) return false;
  if (seal.magic != kSealMagic || seal.crc != trailing_crc(seal, 8) || seal.fingerprint != fingerprint) return false;
  if (seal.list_at < kSegmentUnit || seal.list_at > size || seal.count > size / sizeof(ListedRecord) ||
      seal.list_at + seal_bytes(seal.count) != size) {
    return false;
  }
  scan.sealed = true;
  scan.end = seal.list_at;
  ListedRecord some[128];
  for (std::uint64_t done = 0; done < seal.count;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(std::size(some), seal.count - done));
    const std::span rows = std::span(some).first(count);
    if (read(seal.list_at + done * sizeof(ListedRecord), std::as_writable_bytes(rows)) != rows.size_bytes()) break;
    done += count;
    for (const ListedRecord& row : rows) {
      const std::uint64_t at = row.unit * kSegmentUnit;
      const bool inside =
          at >= kSegmentUnit && row.data_bytes <= kMaxRecordBytes && at + record_bytes(row.data_bytes) <= seal.list_at;
      if (inside && at >= from && !note(row)) return true;
    }
  }
  return true;
}

}  // namespace

std::uint32_t version_tag(std::string_view version, std::uint64_t object_bytes) noexcept {
  const std::uint32_t of_text = base::crc32c(reinterpret_cast<const std::byte*>(version.data()), version.size());
  return of_text ^ base::crc32c(reinterpret_cast<const std::byte*>(&object_bytes), sizeof object_bytes);
}

SegmentHead make_segment_head(std::uint64_t fingerprint, std::uint64_t created_ns) noexcept {
  SegmentHead head;
  std::memcpy(head.magic, kSegmentMagic, sizeof kSegmentMagic);
  head.fingerprint = fingerprint;
  head.created_ns = created_ns;
  head.crc = crc_of(head);
  return head;
}

RecordHead make_record_head(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
                            std::span<const std::byte> data) noexcept {
  RecordHead head;
  head.magic = kRecordMagic;
  head.id = id;
  head.object_bytes = object_bytes;
  head.data_bytes = data.size();
  head.data_crc = base::crc32c(data.data(), data.size());
  head.version_bytes = static_cast<std::uint32_t>(version.size());
  std::memcpy(head.version, version.data(), version.size());
  head.crc = trailing_crc(head, offsetof(RecordHead, id));
  return head;
}

SegmentSeal make_segment_seal(std::uint64_t fingerprint, std::uint64_t list_at, std::uint64_t count) noexcept {
  SegmentSeal seal;
  seal.magic = kSealMagic;
  seal.fingerprint = fingerprint;
  seal.list_at = list_at;
  seal.count = count;
  seal.crc = trailing_crc(seal, 8);
  return seal;
}

bool is_record(const RecordHead& head) noexcept {
  return head.magic == kRecordMagic && head.crc == trailing_crc(head, offsetof(RecordHead, id)) &&
         head.data_bytes <= kMaxRecordBytes && head.version_bytes <= kMaxVersionBytes &&
         head.data_bytes <= head.object_bytes;
}

std::uint64_t record_bytes(std::uint64_t data_bytes) noexcept {
  return sizeof(RecordHead) + base::align_up(data_bytes, kSegmentUnit);
}

std::uint64_t seal_bytes(std::uint64_t count) noexcept {
  return base::align_up(count * sizeof(ListedRecord), kSegmentUnit) + sizeof(SegmentSeal);
}

SegmentScan scan_segment(const ReadSegment& read, std::uint64_t size, std::uint64_t fingerprint, std::uint64_t from,
                         const NoteRecord& note) {
  SegmentScan scan;
  SegmentHead first;
  if (size > kMaxSegmentBytes || !read_part(read, 0, first)) return scan;
  if (std::memcmp(first.magic, kSegmentMagic, sizeof kSegmentMagic) != 0 || first.crc != crc_of(first) ||
      first.fingerprint != fingerprint) {
    return scan;
  }
  scan.ours = true;
  scan.created_ns = first.created_ns;
  scan.end = std::max(from, kSegmentUnit);
  if (scan_list(read, size, fingerprint, from, note, scan)) return scan;
  // One read covers several small records.
  alignas(RecordHead) std::byte window[16 << 10];
  std::uint64_t window_at = 0;
  std::size_t in_window = 0;
  while (scan.end + sizeof(RecordHead) <= size) {
    if (scan.end < window_at || scan.end + sizeof(RecordHead) > window_at + in_window) {
      window_at = scan.end;
      in_window = read(window_at, window);
      if (in_window < sizeof(RecordHead)) return scan;
    }
    RecordHead head;
    std::memcpy(&head, window + (scan.end - window_at), sizeof head);
    if (!is_record(head) || record_bytes(head.data_bytes) > size - scan.end) return scan;
    const ListedRecord record{head.id, static_cast<std::uint32_t>(scan.end / kSegmentUnit),
                              static_cast<std::uint32_t>(head.data_bytes),
                              version_tag(head.version_text(), head.object_bytes), 0};
    scan.end += record_bytes(head.data_bytes);
    if (!note(record)) return scan;
  }
  return scan;
}

}  // namespace headrace::cache

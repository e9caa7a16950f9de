// What a cache's segment file is made of: a head, records one behind the other, and, once it is sealed, a list of them.
//
// A record is a head of 128 bytes and the data, filled up to 64. Its head names the range by the keyed hash, the
// version of the object, and both checksums; so a record says by itself whether it is what is looked for. What lies
// behind the last whole record (of a process that was killed) is no record and is cut off by who appends next. The list
// of a sealed segment only says where records are: nothing is served that the record's own head does not confirm.
//
// Threads: pure functions.
// Fails:   whatever the bytes, nothing beyond them is looked at, and nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "cache/keyed_hash.h"

namespace headrace::cache {

inline constexpr std::uint64_t kSegmentUnit = 64;                            // records begin at multiples of it
inline constexpr std::uint64_t kMostRecordBytes = std::uint64_t{256} << 20;  // of data
inline constexpr std::uint64_t kMostSegmentBytes = std::uint64_t{4} << 30;
inline constexpr std::size_t kMostVersionBytes = 80;

struct SegmentHead {
  char magic[8] = {};
  std::uint64_t fingerprint = 0;  // of the directory's secret
  std::uint64_t made_ns = 0;      // since 1970
  std::uint64_t unused[4] = {};
  std::uint32_t crc = 0, zero = 0;
};
static_assert(sizeof(SegmentHead) == kSegmentUnit);

struct RecordHead {
  std::uint32_t magic = 0, crc = 0;  // crc: of all that follows
  CacheKey id;
  std::uint64_t object_bytes = 0, data_bytes = 0;
  std::uint32_t data_crc = 0, version_bytes = 0;
  char version[kMostVersionBytes] = {};

  std::string_view version_text() const noexcept { return {version, version_bytes}; }
};
static_assert(sizeof(RecordHead) == 2 * kSegmentUnit);

// A row of a sealed segment's list.
struct ListedRecord {
  CacheKey id;
  std::uint32_t unit = 0, data_bytes = 0;  // where it begins, in units
  std::uint32_t tag = 0, zero = 0;         // version_tag() of its version
};
static_assert(sizeof(ListedRecord) == 32);

// The last bytes of a sealed segment.
struct SegmentSeal {
  std::uint32_t magic = 0, crc = 0;
  std::uint64_t fingerprint = 0, list_at = 0, count = 0;
  std::uint64_t unused[4] = {};
};
static_assert(sizeof(SegmentSeal) == kSegmentUnit);

std::uint32_t version_tag(std::string_view version, std::uint64_t object_bytes) noexcept;

SegmentHead make_segment_head(std::uint64_t fingerprint, std::uint64_t made_ns) noexcept;
// REQUIRES: version.size() <= kMostVersionBytes, data.size() <= kMostRecordBytes.
RecordHead make_record_head(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
                            std::span<const std::byte> data) noexcept;
SegmentSeal make_segment_seal(std::uint64_t fingerprint, std::uint64_t list_at, std::uint64_t count) noexcept;
// Checksum and bounds; says nothing of the data.
bool is_record(const RecordHead& head) noexcept;
// What a record takes in its segment.
std::uint64_t record_bytes(std::uint64_t data_bytes) noexcept;
// What the list and the seal of so many records take.
std::uint64_t seal_bytes(std::uint64_t count) noexcept;

// Bytes of the segment from `position` on into `out`: how many there were.
using ReadSegment = std::function<std::size_t(std::uint64_t position, std::span<std::byte> out)>;
// Of each record, in their order. False: no more.
using NoteRecord = std::function<bool(const ListedRecord& record)>;

struct SegmentScan {
  bool ours = false;  // begins as a segment of this directory does
  bool sealed = false;
  std::uint64_t made_ns = 0;
  std::uint64_t end = 0;  // behind the last whole record
};

// Finds the records of a segment of `size` bytes from `from` on (0: all): by its list where it is sealed, else by
// walking from head to head. REQUIRES: `from` is 0 or an `end` of before.
SegmentScan scan_segment(const ReadSegment& read, std::uint64_t size, std::uint64_t fingerprint, std::uint64_t from,
                         const NoteRecord& note);

}  // namespace headrace::cache

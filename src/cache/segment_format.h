// The format of a cache's segment file: a head, consecutive records, and, once sealed, a list of them.
//
// A record is a 128-byte head and the data, padded to 64 bytes. The head contains the keyed hash of the range, the
// version of the object, and checksums of head and data, so a record identifies itself. Anything after the last
// complete record, left by a process that was killed, is not a record; the next process that appends truncates it. The
// list of a sealed segment only locates records: nothing is served unless the record's own head confirms it.
//
// Threads: pure functions.
// Fails:   whatever the bytes, no read goes out of bounds, and nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "cache/keyed_hash.h"

namespace headrace::cache {

inline constexpr std::uint64_t kSegmentUnit = 64;                           // records are aligned to it
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{256} << 20;  // of data
inline constexpr std::uint64_t kMaxSegmentBytes = std::uint64_t{4} << 30;
inline constexpr std::size_t kMaxVersionBytes = 80;

struct SegmentHead {
  char magic[8] = {};
  std::uint64_t fingerprint = 0;  // of the directory's secret
  std::uint64_t created_ns = 0;   // since 1970
  std::uint64_t unused[4] = {};
  std::uint32_t crc = 0, zero = 0;
};
static_assert(sizeof(SegmentHead) == kSegmentUnit);

struct RecordHead {
  std::uint32_t magic = 0, crc = 0;  // crc: of everything after it
  CacheKey id;
  std::uint64_t object_bytes = 0, data_bytes = 0;
  std::uint32_t data_crc = 0, version_bytes = 0;
  char version[kMaxVersionBytes] = {};

  std::string_view version_text() const noexcept { return {version, version_bytes}; }
};
static_assert(sizeof(RecordHead) == 2 * kSegmentUnit);

// An entry of a sealed segment's list.
struct ListedRecord {
  CacheKey id;
  std::uint32_t unit = 0, data_bytes = 0;  // unit: where the record begins, in units of kSegmentUnit
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

SegmentHead make_segment_head(std::uint64_t fingerprint, std::uint64_t created_ns) noexcept;
// REQUIRES: version.size() <= kMaxVersionBytes, data.size() <= kMaxRecordBytes.
RecordHead make_record_head(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
                            std::span<const std::byte> data) noexcept;
SegmentSeal make_segment_seal(std::uint64_t fingerprint, std::uint64_t list_at, std::uint64_t count) noexcept;
// Verifies the head's checksum and bounds, not the data.
bool is_record(const RecordHead& head) noexcept;
// Size of a record in its segment.
std::uint64_t record_bytes(std::uint64_t data_bytes) noexcept;
// Size of the list and the seal of `count` records.
std::uint64_t seal_bytes(std::uint64_t count) noexcept;

// Reads the segment from `position` into `out`; returns how many bytes it read.
using ReadSegment = std::function<std::size_t(std::uint64_t position, std::span<std::byte> out)>;
// Called for each record, in order. False: stop.
using NoteRecord = std::function<bool(const ListedRecord& record)>;

struct SegmentScan {
  bool ours = false;  // has a head of this directory
  bool sealed = false;
  std::uint64_t created_ns = 0;
  std::uint64_t end = 0;  // after the last complete record
};

// Finds the records of a segment of `size` bytes from `from` on (0: all): by its list if sealed, otherwise by walking
// from head to head. REQUIRES: `from` is 0 or the `end` of an earlier scan.
SegmentScan scan_segment(const ReadSegment& read, std::uint64_t size, std::uint64_t fingerprint, std::uint64_t from,
                         const NoteRecord& note);

}  // namespace headrace::cache

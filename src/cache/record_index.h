// RecordIndex: which ranges a cache directory holds, and where. A bounded hash table of 40 bytes a record.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cache/keyed_hash.h"

namespace headrace::cache {

struct RecordPlace {
  std::uint32_t segment = 0;  // never 0 for a record
  std::uint32_t unit = 0;     // position in the segment, in units of kSegmentUnit bytes
  std::uint32_t data_bytes = 0;
  std::uint32_t tag = 0;  // version_tag()
  bool operator==(const RecordPlace&) const = default;
};

class RecordIndex {
 public:
  static constexpr std::size_t kMaxSlots = std::size_t{1} << 23;  // 320 MiB

  // `max_slots`: a power of two.
  explicit RecordIndex(std::size_t max_slots = kMaxSlots) noexcept : max_slots_(max_slots) {}

  // A new record replaces an older one of the same id, which is returned in `replaced`. False: the table is full.
  bool put(const CacheKey& id, const RecordPlace& place, std::optional<RecordPlace>& replaced) noexcept;
  std::optional<RecordPlace> find(const CacheKey& id) const noexcept;
  // Erases the id if it still has this place.
  bool erase(const CacheKey& id, const RecordPlace& place) noexcept;
  // Notes that the record's checksum was verified, and for which version, if the id still has this place. `version`: a
  // hash, not 0.
  void note_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version) noexcept;
  bool is_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version) const noexcept;
  // Marks all of a segment's records as unverified.
  void forget_checked(std::uint32_t segment) noexcept;
  void erase_if(const std::function<bool(const RecordPlace&)>& removed) noexcept;
  std::size_t size() const noexcept { return size_; }

 private:
  struct Slot {
    CacheKey id;
    RecordPlace place;
    std::uint64_t checked_version = 0;  // 0: not verified
  };
  static_assert(sizeof(Slot) == 40);
  std::size_t slot_of(const CacheKey& id) const noexcept;
  bool grow() noexcept;
  void vacate(std::size_t slot) noexcept;

  const std::size_t max_slots_;
  std::vector<Slot> slots_;  // a power of two, or empty
  std::size_t size_ = 0;
};

}  // namespace headrace::cache

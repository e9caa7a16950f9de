// RecordIndex: which ranges a cache directory has, and where: a hash table of 40 bytes a record, bounded.
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
  std::uint32_t segment = 0;  // never 0 of a record
  std::uint32_t unit = 0;     // kSegmentUnit bytes each, from the segment's start
  std::uint32_t data_bytes = 0;
  std::uint32_t tag = 0;  // version_tag()
  bool operator==(const RecordPlace&) const = default;
};

class RecordIndex {
 public:
  static constexpr std::size_t kMostSlots = std::size_t{1} << 23;  // 320 MiB

  // `most_slots`: a power of two.
  explicit RecordIndex(std::size_t most_slots = kMostSlots) noexcept : most_slots_(most_slots) {}

  // The newer of two records of one id stays. False: there is no room for another. `replaced`: the older one.
  bool put(const CacheKey& id, const RecordPlace& place, std::optional<RecordPlace>& replaced) noexcept;
  std::optional<RecordPlace> find(const CacheKey& id) const noexcept;
  // Where it is still that record.
  bool erase(const CacheKey& id, const RecordPlace& place) noexcept;
  // Notes that its checksum was compared, and of which version it is, where it is still that record. `version`: a hash
  // that is not 0.
  void note_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version) noexcept;
  bool is_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version) const noexcept;
  // None of a segment's records counts as checked any more.
  void forget_checked(std::uint32_t segment) noexcept;
  void erase_if(const std::function<bool(const RecordPlace&)>& gone) noexcept;
  std::size_t size() const noexcept { return size_; }

 private:
  struct Slot {
    CacheKey id;
    RecordPlace place;
    std::uint64_t checked_version = 0;  // 0: it was not checked
  };
  static_assert(sizeof(Slot) == 40);
  std::size_t slot_of(const CacheKey& id) const noexcept;
  bool grow() noexcept;
  void vacate(std::size_t slot) noexcept;

  const std::size_t most_slots_;
  std::vector<Slot> slots_;  // a power of two, or none
  std::size_t size_ = 0;
};

}  // namespace headrace::cache

#include "cache/record_index.h"

#include <new>
#include <utility>

namespace headrace::cache {

// The slot of the id, or where it would go. REQUIRES: a slot is free.
std::size_t RecordIndex::slot_of(const CacheKey& id) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = id.low & mask;
  while (slots_[slot].place.segment != 0 && slots_[slot].id != id) slot = (slot + 1) & mask;
  return slot;
}

bool RecordIndex::grow() noexcept {
  const std::size_t count = slots_.empty() ? 1024 : 2 * slots_.size();
  if (count > max_slots_) return false;
  try {
    std::vector<Slot> before(count);
    before.swap(slots_);
    for (const Slot& slot : before) {
      if (slot.place.segment != 0) slots_[slot_of(slot.id)] = slot;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool RecordIndex::put(const CacheKey& id, const RecordPlace& place, std::optional<RecordPlace>& replaced) noexcept {
  replaced.reset();
  if (4 * (size_ + 1) > 3 * slots_.size() && !grow()) return false;
  Slot& slot = slots_[slot_of(id)];
  if (slot.place.segment != 0) {
    replaced = slot.place;
  } else {
    ++size_;
  }
  slot = {id, place, 0};
  return true;
}

std::optional<RecordPlace> RecordIndex::find(const CacheKey& id) const noexcept {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(id)];
  return slot.place.segment != 0 ? std::optional(slot.place) : std::nullopt;
}

bool RecordIndex::erase(const CacheKey& id, const RecordPlace& place) noexcept {
  if (slots_.empty()) return false;
  const std::size_t slot = slot_of(id);
  if (slots_[slot].place != place) return false;
  vacate(slot);
  return true;
}

void RecordIndex::note_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version) noexcept {
  if (slots_.empty()) return;
  Slot& slot = slots_[slot_of(id)];
  if (slot.place == place) slot.checked_version = version;
}

bool RecordIndex::is_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version) const noexcept {
  if (slots_.empty()) return false;
  const Slot& slot = slots_[slot_of(id)];
  return slot.place == place && slot.checked_version == version;
}

void RecordIndex::forget_checked(std::uint32_t segment) noexcept {
  for (Slot& slot : slots_) {
    if (slot.place.segment == segment) slot.checked_version = 0;
  }
}

// Entries that were displaced past this slot move up (backward-shift deletion).
void RecordIndex::vacate(std::size_t slot) noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = slot;
  for (std::size_t next = (hole + 1) & mask; slots_[next].place.segment != 0; next = (next + 1) & mask) {
    const std::size_t home = slots_[next].id.low & mask;
    if (((next - home) & mask) >= ((next - hole) & mask)) {
      slots_[hole] = slots_[next];
      hole = next;
    }
  }
  slots_[hole] = {};
  --size_;
}

void RecordIndex::erase_if(const std::function<bool(const RecordPlace&)>& removed) noexcept {
  for (std::size_t slot = 0; slot < slots_.size();) {
    // After vacate() another entry may be in this slot, so check it again.
    if (slots_[slot].place.segment != 0 && removed(slots_[slot].place)) {
      vacate(slot);
    } else {
      ++slot;
    }
  }
}

}  // namespace headrace::cache

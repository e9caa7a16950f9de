#include "transfer/plan/index_cache.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "device/decode.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kMinSlots = 256;
constexpr std::size_t kSlotShare = 4;  // the table may take one part in this many of the budget

std::size_t hash(const IndexKey& key) noexcept {
  std::uint64_t x = key.array * 0x9E3779B97F4A7C15u ^ key.object;
  x = (x ^ x >> 32) * 0xBF58476D1CE4E5B9u ^ key.offset;
  x = (x ^ x >> 29) * 0x94D049BB133111EBu;
  return static_cast<std::size_t>(x ^ x >> 31);
}

}  // namespace

std::uint64_t IndexCache::array_number(const std::string& url, const std::string& path) {
  if (!enabled()) return 0;
  std::lock_guard lock(mutex_);
  if (arrays_.size() >= kMaxArrays) arrays_.clear();  // open arrays keep their numbers
  const auto [place, is_new] = arrays_.try_emplace({url, path}, array_numbers_ + 1);
  if (is_new) ++array_numbers_;
  return place->second;
}

IndexCache::Slot* IndexCache::find_slot(const IndexKey& key) noexcept {
  if (slots_.empty()) return nullptr;
  for (std::size_t i = hash(key) & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
    Slot& slot = slots_[i];
    if (slot.state == State::kFree) return nullptr;
    if (slot.key == key) return &slot;
  }
}

// Keeps at least half of the slots free, so that a search ends. Live slots move to a new table, which is larger if many
// are alive and the budget allows it. If nearly all are alive but the table cannot grow, all are forgotten.
bool IndexCache::grow() {
  std::size_t live = 0;
  for (const Slot& slot : slots_) live += alive(slot) ? 1 : 0;
  std::size_t count = std::max(kMinSlots, slots_.size());
  const std::size_t most = std::max(budget_bytes_ / kSlotShare / sizeof(Slot), kMinSlots);
  if (live >= count / 4 && 2 * count <= most) {
    count *= 2;
  } else if (live >= count / 16 * 7) {
    std::fill(slots_.begin(), slots_.end(), Slot());
    slots_used_ = 0;
    return !slots_.empty();
  }
  std::vector<Slot> old(count);
  old.swap(slots_);
  slots_used_ = 0;
  for (const Slot& slot : old) {
    if (!alive(slot)) continue;
    std::size_t i = hash(slot.key) & (count - 1);
    while (slots_[i].state != State::kFree) i = (i + 1) & (count - 1);
    slots_[i] = slot;
    ++slots_used_;
  }
  return true;
}

IndexCache::Slot* IndexCache::make_slot(const IndexKey& key) {
  if (Slot* const slot = find_slot(key); slot != nullptr) return slot;
  if (2 * (slots_used_ + 1) > slots_.size() && !grow()) return nullptr;
  std::size_t i = hash(key) & (slots_.size() - 1);
  while (slots_[i].state != State::kFree) i = (i + 1) & (slots_.size() - 1);
  slots_[i].key = key;
  slots_[i].state = State::kDropped;
  ++slots_used_;
  return &slots_[i];
}

std::byte* IndexCache::take(std::size_t bytes, std::uint32_t& block, std::uint32_t& at) {
  if (bytes > budget_bytes_ / 2 || bytes > UINT32_MAX) return nullptr;
  for (;;) {
    if (current_ < blocks_.size() && bytes <= blocks_[current_].bytes - blocks_[current_].used) break;
    const std::size_t wanted = std::max(bytes, std::min(kBlockBytes, budget_bytes_ / 8));
    if (block_bytes_ + wanted <= budget_bytes_ - budget_bytes_ / kSlotShare) {
      std::size_t place = 0;  // the first freed block, if any
      while (place < blocks_.size() && blocks_[place].bytes != 0) ++place;
      if (place == blocks_.size()) blocks_.emplace_back();
      blocks_[place].memory = std::make_unique_for_overwrite<std::byte[]>(wanted);
      blocks_[place].bytes = wanted;
      blocks_[place].used = 0;
      blocks_[place].generation = ++generations_;
      block_bytes_ += wanted;
      current_ = place;
      continue;
    }
    Block* oldest = nullptr;
    for (Block& each : blocks_) {
      if (each.bytes != 0 && (oldest == nullptr || each.last_used < oldest->last_used)) oldest = &each;
    }
    if (oldest == nullptr) return nullptr;
    oldest->generation = ++generations_;
    oldest->used = 0;
    current_ = static_cast<std::size_t>(oldest - blocks_.data());
    if (oldest->bytes >= bytes) continue;
    block_bytes_ -= oldest->bytes;
    oldest->memory.reset();
    oldest->bytes = 0;
  }
  Block& own = blocks_[current_];
  block = static_cast<std::uint32_t>(current_);
  at = static_cast<std::uint32_t>(own.used);
  own.used += bytes;
  own.last_used = ++tick_;
  return own.memory.get() + at;
}

std::uint32_t IndexCache::Access::find(const IndexKey& key, std::uint64_t encoded_bytes, std::byte* to,
                                       std::uint64_t room) noexcept {
  const Slot* const slot = cache_.find_slot(key);
  if (slot == nullptr || !cache_.alive(*slot) || slot->encoded_bytes != encoded_bytes) return device::kIndexCollect;
  if (slot->state == State::kUseless) return device::kIndexNone;
  if (slot->bytes > room) return device::kIndexCollect;
  Block& block = cache_.blocks_[slot->block];
  block.last_used = ++cache_.tick_;
  std::memcpy(to, block.memory.get() + slot->at, slot->bytes);
  return slot->bytes;
}

void IndexCache::Access::keep(const IndexKey& key, std::uint64_t encoded_bytes,
                              std::span<const std::byte> index) noexcept {
  if (index.empty() || !cache_.enabled()) return;
  try {
    Slot* const slot = cache_.make_slot(key);
    if (slot == nullptr) return;
    std::uint32_t block = 0, at = 0;
    slot->state = State::kDropped;
    std::byte* const to = cache_.take(index.size(), block, at);
    if (to == nullptr) return;
    std::memcpy(to, index.data(), index.size());
    slot->encoded_bytes = encoded_bytes;
    slot->generation = cache_.blocks_[block].generation;
    slot->block = block;
    slot->at = at;
    slot->bytes = static_cast<std::uint32_t>(index.size());
    slot->state = State::kIndex;
  } catch (const std::bad_alloc&) {  // nothing is kept
  }
}

void IndexCache::Access::mark_useless(const IndexKey& key, std::uint64_t encoded_bytes) noexcept {
  if (!cache_.enabled()) return;
  try {
    Slot* const slot = cache_.make_slot(key);
    if (slot == nullptr) return;
    slot->encoded_bytes = encoded_bytes;
    slot->state = State::kUseless;
  } catch (const std::bad_alloc&) {  // the next decode collects it again
  }
}

void IndexCache::Access::drop(const IndexKey& key) noexcept {
  if (Slot* const slot = cache_.find_slot(key); slot != nullptr) slot->state = State::kDropped;
}

IndexCache::Usage IndexCache::Access::usage() const noexcept {
  Usage out;
  for (const Slot& slot : cache_.slots_) {
    if (slot.state != State::kIndex || !cache_.alive(slot)) continue;
    ++out.chunks;
    out.index_bytes += slot.bytes;
  }
  out.memory_bytes = cache_.block_bytes_ + cache_.slots_.size() * sizeof(Slot);
  return out;
}

void IndexCache::Access::each(
    std::uint64_t array,
    const std::function<void(const IndexKey&, std::uint64_t, std::span<const std::byte>)>& visit) const {
  for (const Slot& slot : cache_.slots_) {
    if (slot.state != State::kIndex || slot.key.array != array || !cache_.alive(slot)) continue;
    visit(slot.key, slot.encoded_bytes, {cache_.blocks_[slot.block].memory.get() + slot.at, slot.bytes});
  }
}

}  // namespace headrace::transfer

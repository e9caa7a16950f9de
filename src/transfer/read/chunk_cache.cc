#include "transfer/read/chunk_cache.h"

#include <algorithm>
#include <bit>
#include <new>
#include <optional>
#include <thread>

#include "base/checked.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 20;
constexpr std::size_t kMaxProbes = 64;

std::size_t hash_of(const ChunkCache::Key& key) noexcept {
  std::uint64_t x = key.object * 0x9e3779b97f4a7c15u + key.offset;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::size_t>(x ^ (x >> 31));
}

}  // namespace

ChunkCache::ChunkCache(std::shared_ptr<device::Device> device, Form form, const Limits& limits)
    : device_(std::move(device)),
      form_(form),
      limits_(limits),
      entries_(static_cast<std::size_t>(std::bit_ceil(2 * std::clamp<std::uint64_t>(limits.chunks, 1, kMaxEntries)))) {}

ChunkCache::~ChunkCache() {
  for (const std::span<std::byte> block : blocks_) device_->deallocate(block.data(), block.size());
}

// Calls `look` for each entry that may hold the key, until it returns a result.
template <class Look>
ChunkCache::Found ChunkCache::walk(const Key& key, const Look& look) const noexcept {
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = hash_of(key) & mask;
  for (std::size_t probes = 0; probes < kMaxProbes; ++probes, at = (at + 1) & mask) {
    if (const std::optional<Found> found = look(static_cast<std::uint32_t>(at))) return *found;
  }
  return {};
}

ChunkCache::Found ChunkCache::find(const Key& key, std::uint64_t bytes) noexcept {
  return walk(key, [&](std::uint32_t number) -> std::optional<Found> {
    Entry& entry = entries_[number];
    State state = entry.state.load(std::memory_order_acquire);
    bool claimed = false;
    while (!claimed && (state == State::kFree || state == State::kBusy)) {
      if (state == State::kBusy) {  // another thread allocates, for this chunk or another
        std::this_thread::yield();
        state = entry.state.load(std::memory_order_acquire);
        continue;
      }
      if (full_.load(std::memory_order_relaxed)) return Found();
      claimed = entry.state.compare_exchange_weak(state, State::kBusy, std::memory_order_acquire);
    }
    if (claimed) {
      const bool later = bytes == kUnknown;
      const std::span<std::byte> memory = later ? std::span<std::byte>() : take(bytes);
      if (memory.empty() && !later) {
        entry.state.store(State::kFree, std::memory_order_release);
        return Found();
      }
      entry.key = key;
      entry.memory = memory;
      entry.state.store(State::kFilling, std::memory_order_release);
      return Found{Found::What::kToKeep, memory, {}, number};
    }
    if (!entry.is_of(key)) return std::nullopt;
    if (entry.key.version != key.version) return Found();
    const bool any_size = bytes == kUnknown;
    if (state == State::kKept) {
      if (!any_size && entry.memory.size() != bytes) return Found();
      return kept_in(number);
    }
    if (state != State::kToKeep ||
        !entry.state.compare_exchange_strong(state, State::kFilling, std::memory_order_acquire)) {
      return Found();
    }
    if (!any_size && entry.memory.size() != bytes) {
      entry.state.store(State::kToKeep, std::memory_order_release);
      return Found();
    }
    return Found{Found::What::kToKeep, entry.memory, {}, number};
  });
}

ChunkCache::Found ChunkCache::look_up(const Key& key) const noexcept {
  return walk(key, [&](std::uint32_t number) -> std::optional<Found> {
    const Entry& entry = entries_[number];
    const State state = entry.state.load(std::memory_order_acquire);
    if (state == State::kFree) return Found();
    if (state == State::kBusy || !entry.is_of(key)) return std::nullopt;
    return state == State::kKept && entry.key.version == key.version ? kept_in(number) : Found();
  });
}

ChunkCache::Found ChunkCache::kept_in(std::uint32_t number) const noexcept {
  const Entry& entry = entries_[number];
  return {Found::What::kKept, entry.memory, {entry.head.get(), entry.head_bytes}, number};
}

std::span<std::byte> ChunkCache::take_room(std::uint32_t entry, std::uint64_t bytes) noexcept {
  std::span<std::byte>& memory = entries_[entry].memory;
  if (memory.empty()) memory = take(bytes);
  return memory.size() == bytes ? memory : std::span<std::byte>();
}

void ChunkCache::keep(std::uint32_t entry, std::span<const std::byte> head) noexcept {
  Entry& kept = entries_[entry];
  if (!head.empty()) kept.head.reset(new (std::nothrow) std::byte[head.size()]);
  if (kept.head != nullptr) {
    std::ranges::copy(head, kept.head.get());
    kept.head_bytes = head.size();
  }
  kept.state.store(State::kKept, std::memory_order_release);
}
void ChunkCache::abandon(std::uint32_t entry) noexcept {
  entries_[entry].state.store(State::kToKeep, std::memory_order_release);
}
void ChunkCache::drop(std::uint32_t entry) noexcept {
  entries_[entry].state.store(State::kDropped, std::memory_order_release);
}

// Unknown free memory counts as enough.
bool ChunkCache::leaves_enough(std::uint64_t bytes) const noexcept {
  if (limits_.leave_free_bytes == 0) return true;
  const std::optional<std::uint64_t> free = device_->free_bytes();
  return !free || (*free >= bytes && *free - bytes >= limits_.leave_free_bytes);
}

// Empty: none left.
std::span<std::byte> ChunkCache::take(std::uint64_t bytes) noexcept {
  const std::uint64_t room = base::align_up(bytes, kAlignment);
  const std::lock_guard lock(mutex_);
  if (bytes == 0 || room < bytes) return {};
  if (blocks_.empty() || room > blocks_.back().size() - block_used_) {
    const std::uint64_t used = used_bytes_.load(std::memory_order_relaxed), left = limits_.memory_bytes - used;
    const std::uint64_t block = std::min(std::max(kBlockBytes / room * room, room), left / room * room);
    Result<std::byte*> memory(Status::out_of_memory());
    try {
      blocks_.reserve(blocks_.size() + 1);
      if (block >= room && leaves_enough(block)) memory = device_->allocate(static_cast<std::size_t>(block));
    } catch (const std::bad_alloc&) {
    }
    if (!memory.ok()) {
      full_.store(true, std::memory_order_relaxed);
      return {};
    }
    blocks_.push_back({*memory, static_cast<std::size_t>(block)});
    block_used_ = 0;
    used_bytes_.store(used + block, std::memory_order_relaxed);
  }
  const std::span<std::byte> out =
      blocks_.back().subspan(static_cast<std::size_t>(block_used_), static_cast<std::size_t>(bytes));
  block_used_ += room;
  return out;
}

}  // namespace headrace::transfer

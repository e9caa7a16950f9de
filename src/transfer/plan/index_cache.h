// IndexCache: decode indices (device/decode.h) of all arrays of a Context, under a budget.
//
// A chunk is identified by its array, the stored object that contains it and its offset there. Its number of encoded
// bytes is kept too. Nothing more is known of a chunk without reading it, since devices may decode bytes that no CPU
// looks at. It is enough: a decode that is given the index of other bytes detects that, still decodes correctly, and
// the index is dropped.
//
// Indices are kept in blocks of memory. When the budget is used up, the least recently used block is emptied and
// reused, so that nothing more is allocated.
//
// Threads: one Access at a time, for all chunks of a wave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace headrace::transfer {

struct IndexKey {
  std::uint64_t array = 0;   // IndexCache::array_number()
  std::uint64_t object = 0;  // index of the stored object in the array's grid
  std::uint64_t offset = 0;  // of the chunk in the object
  bool operator==(const IndexKey&) const = default;
};

class IndexCache {
 public:
  explicit IndexCache(std::size_t budget_bytes) : budget_bytes_(budget_bytes) {}
  bool enabled() const noexcept { return budget_bytes_ > 0; }
  // The number of an array, by the store's URL and the path in it; 0 if the cache is disabled. Throws std::bad_alloc.
  std::uint64_t array_number(const std::string& url, const std::string& path);

  struct Usage {
    std::size_t chunks = 0, index_bytes = 0, memory_bytes = 0;
  };

  class Access {
   public:
    explicit Access(IndexCache& cache) : cache_(cache), lock_(cache.mutex_) {}
    // Returns the index word for the chunk's next decode. If there is an index, copies it to `to`, which has `room`
    // bytes.
    std::uint32_t find(const IndexKey& key, std::uint64_t encoded_bytes, std::byte* to, std::uint64_t room) noexcept;
    // Keeps an index that a decode has produced; does nothing if memory is short.
    void keep(const IndexKey& key, std::uint64_t encoded_bytes, std::span<const std::byte> index) noexcept;
    // Records that an index does not help the chunk.
    void mark_useless(const IndexKey& key, std::uint64_t encoded_bytes) noexcept;
    void drop(const IndexKey& key) noexcept;
    Usage usage() const noexcept;
    // Calls `visit` for every index of an array, in no particular order.
    void each(std::uint64_t array,
              const std::function<void(const IndexKey&, std::uint64_t encoded_bytes, std::span<const std::byte>)>&
                  visit) const;

   private:
    IndexCache& cache_;
    std::lock_guard<std::mutex> lock_;
  };

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
  static constexpr std::size_t kMaxArrays = 65536;
  enum class State : std::uint8_t { kFree, kDropped, kUseless, kIndex };
  struct Slot {
    IndexKey key;
    std::uint64_t encoded_bytes = 0;
    std::uint64_t generation = 0;  // of its block when it was added; if the block's differs now, the index is gone
    std::uint32_t block = 0, at = 0, bytes = 0;
    State state = State::kFree;
  };
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0, used = 0;
    std::uint64_t generation = 0, last_used = 0;
  };
  Slot* find_slot(const IndexKey& key) noexcept;
  Slot* make_slot(const IndexKey& key);
  bool grow();
  std::byte* take(std::size_t bytes, std::uint32_t& block, std::uint32_t& at);
  bool alive(const Slot& slot) const noexcept {
    return slot.state == State::kUseless ||
           (slot.state == State::kIndex && blocks_[slot.block].generation == slot.generation);
  }

  const std::size_t budget_bytes_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Slot> slots_;  // open addressing, a power of two of them
  std::size_t slots_used_ = 0;
  std::vector<Block> blocks_;
  std::size_t block_bytes_ = 0, current_ = 0;
  std::uint64_t generations_ = 0, tick_ = 0;
  std::map<std::pair<std::string, std::string>, std::uint64_t> arrays_;
  std::uint64_t array_numbers_ = 0;
};

}  // namespace headrace::transfer

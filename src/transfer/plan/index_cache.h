// IndexCache: decode indices (device/decode.h) of all arrays of a Context, under a budget.
//
// A chunk is known by three numbers: its array, the stored object it lies in and where it begins there; with them is
// kept how many bytes it has encoded. That is all that can be had of a chunk without reading it, as devices may take
// bytes that no CPU looks at, and it is enough: an index of other bytes is found out by the decode that uses it, which
// is right all the same, and dropped.
//
// Indices lie in blocks of memory. Where the budget is used up, the block that has not been used for longest is emptied
// and used again, so that nothing is allocated any more.
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
  std::uint64_t object = 0;  // number of the stored object in the array's grid
  std::uint64_t offset = 0;  // in it
  bool operator==(const IndexKey&) const = default;
};

class IndexCache {
 public:
  explicit IndexCache(std::size_t budget_bytes) : budget_bytes_(budget_bytes) {}
  bool enabled() const noexcept { return budget_bytes_ > 0; }
  // The number of an array, by the store's URL and the path in it; 0 where none are kept. Throws std::bad_alloc.
  std::uint64_t array_number(const std::string& url, const std::string& path);

  struct Usage {
    std::size_t chunks = 0, index_bytes = 0, memory_bytes = 0;
  };

  class Access {
   public:
    explicit Access(IndexCache& cache) : cache_(cache), lock_(cache.mutex_) {}
    // The word for the chunk's next decode; its index, if there is one, is copied to `to`, which has so much room.
    std::uint32_t find(const IndexKey& key, std::uint64_t encoded_bytes, std::byte* to, std::uint64_t room) noexcept;
    // Keeps what a decode has made; does nothing where there is no memory left.
    void keep(const IndexKey& key, std::uint64_t encoded_bytes, std::span<const std::byte> index) noexcept;
    // The chunk needs none.
    void keep_useless(const IndexKey& key, std::uint64_t encoded_bytes) noexcept;
    void drop(const IndexKey& key) noexcept;
    Usage usage() const noexcept;
    // Every index of an array, in no order.
    void each(std::uint64_t array,
              const std::function<void(const IndexKey&, std::uint64_t encoded_bytes, std::span<const std::byte>)>& tell)
        const;

   private:
    IndexCache& cache_;
    std::lock_guard<std::mutex> lock_;
  };

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
  static constexpr std::size_t kMostArrays = 65536;
  enum class State : std::uint8_t { kFree, kDropped, kUseless, kIndex };
  struct Slot {
    IndexKey key;
    std::uint64_t encoded_bytes = 0;
    std::uint64_t generation = 0;  // of its block when it was put there: another one's means that it is gone
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

// ReuseTracker: finds parts of files that are repeatedly read past the page cache although they would fit in it.
//
// A direct read caches nothing. That is right for data read once, but wasteful for data that is read every epoch and
// fits in memory. Bytes are counted per granule of 4 MiB. Once as many bytes were read directly as the granule has, the
// next read is a repetition, and the granule goes through the page cache from then on, as long as all such granules
// together stay below half of the memory that the machine and the control group have to spare. Other granules continue
// to be read directly, so a file larger than memory keeps a part cached instead of evicting itself.
//
// The table has a fixed size: 1 MiB, 131,072 granules (up to 512 GiB), four to a bucket. Evicted entries are forgotten
// and start again. Counts are estimates: reads of one part of a granule may count for another. A changed file is a
// different file.
//
// Threads: every call from any thread, lock-free.
// Owns:    the table, allocated by the first counted read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "os/file_handle.h"

namespace headrace::transfer {

class ReuseTracker {
 public:
  static constexpr std::uint64_t kGranuleBytes = std::uint64_t{4} << 20;

  enum class Advice : std::uint8_t {
    kDirect,    // read at most once so far, or there is no room
    kPrefetch,  // through the page cache from now on: the whole granule may be read into it
    kCached,    // has been prefetched before
  };

  // `spare_bytes`: memory that could hold more page cache, including what the page cache holds already; called every
  // few seconds while granules are added.
  explicit ReuseTracker(std::uint64_t (*spare_bytes)() = &spare_memory_bytes,
                        std::uint64_t (*now_ns)() = &base::now_ns) noexcept
      : spare_bytes_(spare_bytes), now_ns_(now_ns) {}

  // Records that [offset, offset + bytes), within one granule, is about to be read and is not in the page cache;
  // returns how to read it. Without memory for the table the answer is kDirect.
  Advice note(const os::FileIdentity& file, std::uint64_t offset, std::uint64_t bytes) noexcept;

  // Asks the kernel to read all granules that a range touches, without waiting.
  static void prefetch(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

  std::uint64_t kept_bytes() const noexcept { return kept_bytes_.load(std::memory_order_relaxed); }

  // The smaller of the machine's available memory and the control group's remaining memory.
  static std::uint64_t spare_memory_bytes();

 private:
  // tag << 24 | kept << 23 | bytes read so far, at most the granule's length; 0: unused
  using Entry = std::atomic<std::uint64_t>;
  static constexpr std::size_t kWays = 4, kBuckets = std::size_t{1} << 15;
  static constexpr std::uint64_t kKept = std::uint64_t{1} << 23, kBytes = kKept - 1;
  struct Table {
    std::array<std::array<Entry, kWays>, kBuckets> buckets;
  };
  struct Free {
    void operator()(Table* table) const noexcept { std::free(table); }
  };

  Table* table() noexcept;
  std::uint64_t budget() noexcept;

  std::uint64_t (*const spare_bytes_)();
  std::uint64_t (*const now_ns_)();
  std::once_flag made_;
  std::unique_ptr<Table, Free> table_;
  std::atomic<std::uint64_t> kept_bytes_{0}, budget_bytes_{0}, ask_again_ns_{0};
};

}  // namespace headrace::transfer

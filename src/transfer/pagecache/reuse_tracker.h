// ReuseTracker: which parts of files are read again and again past the page cache, though it would have room for them.
//
// A direct read leaves nothing behind: right for what is read once, wasteful for what is read every epoch and fits into
// memory. Bytes are counted for granules of 4 MiB; once as many were read directly as a granule has, the next read is a
// second one and the granule goes through the page cache from then on, as long as all such granules together stay below
// half of the memory that the machine and the control group have to spare. What does not fit goes on being read
// directly, so a file larger than memory keeps a part cached instead of pushing itself out.
//
// The table is fixed: 1 MiB, 131,072 granules (up to 512 GiB), four to a bucket. What is crowded out is forgotten and
// begins anew. An estimate: reads of one part of a granule may count for another, and a changed file is another file.
//
// Threads: every call from any thread, without a lock.
// Owns:    the table, made at the first read that is counted.
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
    kDirect,  // read once so far, or there is no room
    kBring,   // from now on through the page cache: the whole granule may be brought in
    kCached,  // has been brought before
  };

  // `spare_bytes`: memory that could hold more of the page cache, what the page cache has already included; asked every
  // few seconds while granules are added.
  explicit ReuseTracker(std::uint64_t (*spare_bytes)() = &spare_memory_bytes,
                        std::uint64_t (*now_ns)() = &base::now_ns) noexcept
      : spare_bytes_(spare_bytes), now_ns_(now_ns) {}

  // Notes that [offset, offset + bytes), within one granule, is about to be read and is not in the page cache; says
  // how. Without memory for the table the answer is kDirect.
  Advice note(const os::FileIdentity& file, std::uint64_t offset, std::uint64_t bytes) noexcept;

  // Asks the kernel for all granules that a range touches, and waits for none.
  static void bring(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

  std::uint64_t kept_bytes() const noexcept { return kept_bytes_.load(std::memory_order_relaxed); }

  // The smaller of the machine's available memory and what the control group has left.
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

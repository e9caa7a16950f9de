// IoStatistics: counts of calls, bytes and times. cuFile's own statistics are collected while a program has started
// them; headrace's, by path, always.
//
// Threads: every call from any thread; lock-free, and threads rarely share a cache line.
#pragma once

#include <headrace/file.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cufile/cufile_api.h"

namespace headrace::cufile {

enum class Op : std::uint8_t {
  kRead,
  kWrite,
  kHandleRegister,
  kHandleDeregister,
  kBufferRegister,
  kBufferDeregister,
  kBatchSubmit,
  kBatchComplete,
  kBatchSetUp,
  kBatchCancel,
  kBatchDestroy,
  kBatchEntry,  // one entry of a batch
  kAsync,       // one operation on a stream
  kCount
};

// Bytes by path, as in FileStats.
struct PathBytes {
  std::uint64_t direct = 0, buffered = 0, mapped = 0, written_direct = 0, written_buffered = 0, bus = 0;
  static PathBytes of(const FileStats& stats) noexcept;
  PathBytes operator-(const PathBytes& earlier) const noexcept;
};

inline constexpr int kHostMemory = -1;  // instead of a GPU's number

class IoStatistics {
 public:
  void count(Op op, bool ok, std::uint64_t nanoseconds = 0) noexcept;
  // Counts a read or write: a single one (kRead, kWrite), in a batch or on a stream. Failed ones are counted by
  // count().
  void transfer(Op kind, bool write, bool ok, std::uint64_t bytes, std::uint64_t nanoseconds, int gpu, bool aligned,
                const PathBytes& paths) noexcept;
  void registered(int gpu, std::int64_t bytes, bool ok) noexcept;

  // cuFile's own interface. CU_FILE_INVALID_VALUE for a level that does not exist or is not enabled.
  CUfileOpError set_level(int level) noexcept;
  int level() const noexcept { return level_.load(std::memory_order_relaxed); }
  CUfileOpError start() noexcept;
  CUfileOpError stop() noexcept;
  CUfileOpError reset() noexcept;
  CUfileOpError get(CUfileStatsLevel1_t* out) const noexcept;
  CUfileOpError get(CUfileStatsLevel2_t* out) const noexcept;
  CUfileOpError get(CUfileStatsLevel3_t* out) const noexcept;

  // Totals since the library was loaded, as lines of a name and a value: calls that succeeded and failed, bytes by
  // path, and percentiles of the durations of reads and writes.
  std::string report() const;

 private:
  static constexpr std::size_t kShards = 16, kSizeBuckets = 32, kTimeBuckets = 40 * 8;
  static constexpr std::size_t kOps = static_cast<std::size_t>(Op::kCount);
  using Counter = std::atomic<std::uint64_t>;
  struct Gpu {
    Counter reads{0}, writes{0}, read_errors{0}, write_errors{0}, read_bytes{0}, write_bytes{0}, read_ns{0},
        write_ns{0}, unaligned_reads{0}, unaligned_writes{0}, mmap{0}, mmap_errors{0}, mmap_free{0};
    std::atomic<std::int64_t> registered_bytes{0};
  };
  // One set is always counted, the other between start() and stop().
  struct Set {
    std::array<Counter, kOps> ok{}, failed{}, ns{};
    Counter read_bytes{0}, write_bytes{0};              // for kRead and kWrite
    Counter batch_read_bytes{0}, batch_write_bytes{0};  // for kBatchEntry
    Counter async_read_bytes{0}, async_write_bytes{0};
    std::array<Counter, kSizeBuckets> read_sizes{}, write_sizes{};
    void clear() noexcept;
  };
  struct alignas(64) Shard {
    Set always, asked;
    Counter direct{0}, buffered{0}, mapped{0}, written_direct{0}, written_buffered{0}, bus{0};
    std::array<Counter, kTimeBuckets> read_times{}, write_times{};
  };
  static std::size_t own_shard() noexcept;
  std::uint64_t sum(Counter Set::*member) const noexcept;
  std::uint64_t sum_op(std::array<Counter, kOps> Set::*member, Op op, bool asked) const noexcept;
  std::uint64_t collected_ns() const noexcept;
  CUfileOpCounter_t counter(Op op) const noexcept;

  std::array<Shard, kShards> shards_;
  std::array<Gpu, CUFILE_MAX_GPUS> gpus_;
  std::atomic<int> level_{0};
  std::atomic<bool> running_{false};
  std::atomic<std::uint64_t> started_ns_{0}, collected_ns_{0};
};

// Whether these counters show that the GPU was used.
bool anything_counted(const CUfilePerGpuStats_t& gpu) noexcept;

}  // namespace headrace::cufile

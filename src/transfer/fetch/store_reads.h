// StoreReads: reads by users' stores, from submission until the stores report completion.
//
// Threads: every call from any thread. Sinks are called on whatever thread a store answers on, with no lock held.
// Owns:    nothing; a read belongs to its wave, and lives until its job has been taken from the sink.
#pragma once

#include <headrace/byte_store.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace headrace::transfer {

struct ReadJob;

// A job's request to a store instead of a file.
struct StoreRead {
  RangeRead range;  // at the job's offset; its `user` points to this StoreRead
  ByteStore* store = nullptr;
  std::string key, version;  // that `range` refers to
  bool whole = false;        // requests a whole object of unknown size; the job's length is the room for it
  ReadJob* job = nullptr;
  // Used by StoreReads only
  std::size_t place = 0;
  StoreRead* next = nullptr;
};

class StoreReads final : public RangeListener {
 public:
  // Starts reads whose jobs have their place in memory. Reads that cannot be started or are cancelled end at once.
  void start(std::span<StoreRead* const> reads) noexcept;
  // Asks the stores to cancel the reads of sinks that are cancelled().
  void cancel() noexcept;
  // Ends a read that was not started, as kCancelled.
  static void set_cancelled(StoreRead& read) noexcept;

  void done(std::span<RangeRead* const> reads) noexcept override;

 private:
  bool admit(std::span<StoreRead* const> reads, std::uint64_t& cancels);
  void end_call() noexcept;
  static void report(StoreRead* first) noexcept;

  std::vector<RangeRead*> starting_;  // used by the starting thread only
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<StoreRead*> started_;
  StoreRead* held_ = nullptr;  // ended during a call into a store, linked by `next`
  // Calls into stores in progress; nothing is reported meanwhile, so that nothing they use is freed.
  std::size_t calls_ = 0;
  std::uint64_t cancels_ = 0;
};

}  // namespace headrace::transfer

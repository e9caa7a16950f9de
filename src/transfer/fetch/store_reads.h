// StoreReads: ranges that a user's stores read, from when they are handed over until the stores say that they ended.
//
// Threads: every call from any thread. Sinks are told on whatever thread a store answers on, with no lock held.
// Owns:    nothing; a read is its wave's, and lives until its job was taken from the sink.
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

// What a job asks of a store instead of a file.
struct StoreRead {
  RangeRead range;  // of the job's offset; user: this
  ByteStore* store = nullptr;
  std::string key, version;  // that `range` refers to
  bool whole = false;        // all of an object of unknown size; the job's length is room for it
  ReadJob* job = nullptr;
  // StoreReads' own
  std::size_t place = 0;
  StoreRead* next = nullptr;
};

class StoreReads final : public RangeListener {
 public:
  // Starts reads whose jobs have their place in memory. Those that cannot be started, or are not wanted any more, end
  // at once.
  void start(std::span<StoreRead* const> reads) noexcept;
  // Asks the stores to give up what sinks do not want any more (IoSink::cancelled()).
  void cancel() noexcept;
  // Ends a read that was not started: kCancelled.
  static void give_up(StoreRead& read) noexcept;

  void done(std::span<RangeRead* const> reads) noexcept override;

 private:
  bool admit(std::span<StoreRead* const> reads, std::uint64_t& cancels);
  void let_go() noexcept;
  static void report(StoreRead* first) noexcept;

  std::vector<RangeRead*> starting_;  // of the one thread that starts
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<StoreRead*> started_;
  StoreRead* held_ = nullptr;  // ended while a store was being called, linked by `next`
  std::size_t calls_ = 0;      // into stores: until they return nothing is reported, so that nothing they use is freed
  std::uint64_t cancels_ = 0;
};

}  // namespace headrace::transfer

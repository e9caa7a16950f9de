// Reads of a ByteStore: validating its answers, and waiting for one.
//
// Threads: every call from any thread.
// Fails:   failures name the key and the range. Whatever a store answers, nothing outside `out` is accessed.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/status.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

namespace headrace::store {

// Starts reads, which the store then has. False: it started none, and `failure` says why.
bool start_reads(ByteStore& store, std::span<RangeRead* const> reads, Status& failure) noexcept;

// For a read that has ended: its status, or what is wrong with the answer. If OK, `bytes` bytes of `out` are valid, and
// if they do not fill it, the object ends there.
Status check_answer(const RangeRead& read);
// The same for a range that must exist: kAgainExhausted if the object has vanished, kShort if it ends early.
Status check_part(const RangeRead& read);

// A read to be waited for later. Fill in `read` before start(). Neither it nor its buffer may move until it has ended;
// the destructor waits for that.
//
// Threads: one, except for done().
class PendingRange final : private RangeListener {
 public:
  PendingRange() = default;
  PendingRange(const PendingRange&) = delete;
  PendingRange& operator=(const PendingRange&) = delete;
  ~PendingRange();
  void start(ByteStore& store);
  Status wait();  // returns check_answer()

  RangeRead read;

 private:
  void done(std::span<RangeRead* const> reads) noexcept override;

  std::mutex mutex_;
  std::condition_variable done_signal_;
  bool started_ = false;
  bool done_ = false;  // guarded by mutex_
};

// Starts one read and blocks until it has ended.
Status read_range(ByteStore& store, RangeRead& read);

// Determines the size of an object, with as many requests as needed: one if the store reports sizes.
Result<std::uint64_t> measure(ByteStore& store, std::string_view key);

}  // namespace headrace::store

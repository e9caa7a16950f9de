// Reads of a ByteStore: what its answers are worth, and waiting for one of them.
//
// Threads: every call from any thread.
// Fails:   failures name the key and the range; whatever a store answers, nothing beyond `out` is looked at.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/status.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

namespace headrace::store {

// Starts reads, which the store then has; false: it has none of them, and `failure` says why.
bool start_reads(ByteStore& store, std::span<RangeRead* const> reads, Status& failure) noexcept;

// Of a read that has ended: its status, or what is wrong with the answer. OK: `bytes` bytes of `out` are good, and if
// they do not fill it the object ends there.
Status check_answer(const RangeRead& read);
// The same of a range that the object has to have: kAgainExhausted where the object is gone, kShort where it ends.
Status check_part(const RangeRead& read);

// A read that somebody waits for later. Fill in `read` before start(); neither it nor its memory moves until it has
// ended, for which the destructor waits.
//
// Threads: one, but for done().
class PendingRange final : private RangeListener {
 public:
  PendingRange() = default;
  PendingRange(const PendingRange&) = delete;
  PendingRange& operator=(const PendingRange&) = delete;
  ~PendingRange();
  void start(ByteStore& store);
  Status wait();  // check_answer()'s verdict

  RangeRead read;

 private:
  void done(std::span<RangeRead* const> reads) noexcept override;

  std::mutex mutex_;
  std::condition_variable came_;
  bool started_ = false;
  bool done_ = false;  // guarded by mutex_
};

// Starts one read and waits until it has ended. For those who cannot go on without.
Status read_range(ByteStore& store, RangeRead& read);

// The size of an object, by as many requests as it takes: one where the store tells sizes.
Result<std::uint64_t> measure(ByteStore& store, std::string_view key);

}  // namespace headrace::store

// ExchangeQueue: queues exchanges that wait for a connection and assigns them to the transport's loops.
//
// Up to the connection limit, each exchange goes to the least loaded loop. Another loop starts only when every running
// one carries kSpread exchanges, so a few concurrent requests share one thread and reuse its connections.
//
// Threads: any, except for calls marked as a loop's own. While holding its lock it calls only ExchangeLoop.
// Owns:    nothing; exchanges are linked through Exchange::next, so nothing is allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "http/transport.h"

namespace headrace::http {

class ExchangeList {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  void push_back(Exchange& one) noexcept {
    one.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &one;
    last_ = &one;
  }
  void push_front(Exchange& one) noexcept {
    one.next = first_;
    if (first_ == nullptr) last_ = &one;
    first_ = &one;
  }
  // Moves all of `list` to the end of this one.
  void take_all(ExchangeList& list) noexcept {
    if (list.empty()) return;
    (first_ == nullptr ? first_ : last_->next) = list.first_;
    last_ = list.last_;
    list.first_ = nullptr;
  }
  // Null if empty.
  Exchange* pop_front() noexcept {
    Exchange* const one = first_;
    if (one != nullptr) first_ = std::exchange(one->next, nullptr);
    return one;
  }

 private:
  Exchange* first_ = nullptr;
  Exchange* last_ = nullptr;  // valid only when the list is not empty
};

// A thread that carries exchanges.
class ExchangeLoop {
 public:
  virtual Status begin() noexcept = 0;  // starts the thread
  virtual void wake() noexcept = 0;     // wakes it from its current sleep, or prevents its next one
 protected:
  ~ExchangeLoop() = default;
};

class ExchangeQueue {
 public:
  static constexpr std::uint32_t kSpread = 2;

  // `most`: maximum number of exchanges in flight, at least 1.
  explicit ExchangeQueue(std::uint32_t most) noexcept : max_(most < 1 ? 1 : most), limit_(max_) {}

  // Call before begin(), at least once. The loop must live until stop(). Throws std::bad_alloc.
  void add(ExchangeLoop& loop) { loops_.push_back({.loop = &loop}); }
  Status begin() noexcept { return loops_.front().loop->begin(); }
  void start(std::span<Exchange* const> exchanges) noexcept;
  void use_connections(std::uint32_t count) noexcept;
  void look_for_cancelled() noexcept;
  bool any_waits() const noexcept { return waits_.load(std::memory_order_relaxed) != 0; }
  // Stops every running event loop and prevents new ones.
  void stop() noexcept;

  struct Turn {
    ExchangeList given;               // for this loop to start, or to end if cancelled
    ExchangeList cancelled;           // cancelled while they waited: to be ended
    bool look_for_cancelled = false;  // check the exchanges that this loop has started for cancellation
    bool stop = false;
  };
  // Called by loop `index` itself: its next work.
  Turn take(std::size_t index) noexcept;
  // An exchange given to loop `index` is no longer in flight; call before its on_end().
  void ended(std::size_t index) noexcept;
  // Loop `index` is about to sleep until `until_ns`. Returns until when it may sleep; 0: it must not.
  std::uint64_t sleep(std::size_t index, std::uint64_t until_ns) noexcept;

 private:
  struct Row {
    ExchangeLoop* loop = nullptr;
    ExchangeList given = {};
    std::uint32_t active = 0;  // including those in `given`
    bool look_for_cancelled = false, asleep = false;
  };
  void dispatch() noexcept;
  void wait_until_due(Exchange& exchange) noexcept;
  void add_due(std::uint64_t now_ns) noexcept;
  Row& idlest() noexcept;
  static void wake(Row& row) noexcept;

  const std::uint32_t max_;
  std::atomic<std::uint64_t> waits_{0};  // number of exchanges in waiting_
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Row> loops_;
  std::size_t started_loops_ = 1;
  bool no_more_loops_ = false, stopping_ = false, any_cancelled_ = false;
  std::uint32_t limit_, active_ = 0;
  ExchangeList waiting_;                      // may start as soon as the limit allows
  ExchangeList later_;                        // must not start before their not_before_ns
  std::uint64_t due_ns_ = ~std::uint64_t{0};  // the earliest not_before_ns in later_; the first loop wakes by then
};

}  // namespace headrace::http

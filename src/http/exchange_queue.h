// ExchangeQueue: exchanges that wait for a connection, and which of a transport's loops each is given to.
//
// As many are under way as may be, and each goes to the loop that has the fewest. A loop begins when those that have
// begun have kSpread each: a few requests at a time have one thread, and use its connections again.
//
// Threads: any, but where a call is said to be a loop's own. With its lock held it calls ExchangeLoop, nothing else.
// Owns:    nothing; exchanges are linked by Exchange::next, so that nothing is allocated.
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
  // All of `list`, which is left empty.
  void take_all(ExchangeList& list) noexcept {
    if (list.empty()) return;
    (first_ == nullptr ? first_ : last_->next) = list.first_;
    last_ = list.last_;
    list.first_ = nullptr;
  }
  // Null: it is empty.
  Exchange* pop_front() noexcept {
    Exchange* const one = first_;
    if (one != nullptr) first_ = std::exchange(one->next, nullptr);
    return one;
  }

 private:
  Exchange* first_ = nullptr;
  Exchange* last_ = nullptr;  // where it is not empty
};

// A thread that carries exchanges.
class ExchangeLoop {
 public:
  virtual Status begin() noexcept = 0;  // starts the thread
  virtual void wake() noexcept = 0;     // ends its sleep, or the next one
 protected:
  ~ExchangeLoop() = default;
};

class ExchangeQueue {
 public:
  static constexpr std::uint32_t kSpread = 2;

  // `most`: under way at a time, at least 1.
  explicit ExchangeQueue(std::uint32_t most) noexcept : most_(most < 1 ? 1 : most), limit_(most_) {}

  // Before begin(); at least one. It is there until stop(). Throws std::bad_alloc.
  void add(ExchangeLoop& loop) { loops_.push_back({.loop = &loop}); }
  Status begin() noexcept { return loops_.front().loop->begin(); }
  void start(std::span<Exchange* const> exchanges) noexcept;
  void use_connections(std::uint32_t count) noexcept;
  void look_for_cancelled() noexcept;
  bool any_waits() const noexcept { return waits_.load(std::memory_order_relaxed) != 0; }
  // Ends the loops that have begun. None begins any more.
  void stop() noexcept;

  struct Turn {
    ExchangeList given;               // to be begun by this loop, or ended if they are not wanted any more
    ExchangeList cancelled;           // waited, and are to be ended
    bool look_for_cancelled = false;  // among those that this loop has begun
    bool stop = false;
  };
  // Loop `index`'s own: what it has to do now.
  Turn take(std::size_t index) noexcept;
  // One that was given to it is under way no more; before its on_end().
  void ended(std::size_t index) noexcept;
  // It is about to sleep, until `until_ns` at most: gives until when it may. 0: not at all.
  std::uint64_t sleep(std::size_t index, std::uint64_t until_ns) noexcept;

 private:
  struct Row {
    ExchangeLoop* loop = nullptr;
    ExchangeList given = {};
    std::uint32_t active = 0;  // with those that are given
    bool look_for_cancelled = false, asleep = false;
  };
  void dispatch() noexcept;
  void wait_until_due(Exchange& exchange) noexcept;
  void add_due(std::uint64_t now_ns) noexcept;
  Row& idlest() noexcept;
  static void wake(Row& row) noexcept;

  const std::uint32_t most_;
  std::atomic<std::uint64_t> waits_{0};  // in waiting_
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Row> loops_;
  std::size_t begun_ = 1;
  bool no_more_loops_ = false, stopping_ = false, any_cancelled_ = false;
  std::uint32_t limit_, active_ = 0;
  ExchangeList waiting_;                      // may begin now
  ExchangeList later_;                        // may not yet
  std::uint64_t due_ns_ = ~std::uint64_t{0};  // when the first of later_ may; the first loop sleeps no longer
};

}  // namespace headrace::http

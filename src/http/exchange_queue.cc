#include "http/exchange_queue.h"

#include <algorithm>

#include "base/clock.h"

namespace headrace::http {

void ExchangeQueue::wake(Row& row) noexcept {
  if (std::exchange(row.asleep, false)) row.loop->wake();
}

void ExchangeQueue::start(std::span<Exchange* const> exchanges) noexcept {
  const std::uint64_t now = base::now_ns();
  std::lock_guard lock(mutex_);
  for (Exchange* const exchange : exchanges) {
    if (exchange->not_before_ns > now) {
      wait_until_due(*exchange);
      continue;
    }
    exchange->urgent ? waiting_.push_front(*exchange) : waiting_.push_back(*exchange);
    waits_.fetch_add(1, std::memory_order_relaxed);
  }
  dispatch();
}

void ExchangeQueue::use_connections(std::uint32_t count) noexcept {
  std::lock_guard lock(mutex_);
  limit_ = std::clamp(count, 1u, max_);
  dispatch();
}

void ExchangeQueue::look_for_cancelled() noexcept {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  any_cancelled_ = true;
  for (std::size_t i = 0; i < started_loops_; ++i) {
    loops_[i].look_for_cancelled = true;
    wake(loops_[i]);
  }
}

void ExchangeQueue::stop() noexcept {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  for (std::size_t i = 0; i < started_loops_; ++i) wake(loops_[i]);
}

ExchangeQueue::Turn ExchangeQueue::take(std::size_t index) noexcept {
  Turn turn;
  const std::uint64_t now = base::now_ns();
  std::lock_guard lock(mutex_);
  Row& own = loops_[index];
  own.asleep = false;
  if (std::exchange(any_cancelled_, false)) {
    for (ExchangeList* const list : {&waiting_, &later_}) {
      ExchangeList kept;
      while (Exchange* const one = list->pop_front()) {
        const bool unwanted = one->cancel_wanted.load(std::memory_order_relaxed);
        (unwanted ? turn.cancelled : kept).push_back(*one);
        if (unwanted && list == &waiting_) waits_.fetch_sub(1, std::memory_order_relaxed);
      }
      *list = kept;
    }
  }
  if (due_ns_ <= now) add_due(now);
  dispatch();
  turn.given = std::exchange(own.given, {});
  turn.look_for_cancelled = std::exchange(own.look_for_cancelled, false);
  turn.stop = stopping_;
  return turn;
}

void ExchangeQueue::ended(std::size_t index) noexcept {
  std::lock_guard lock(mutex_);
  --loops_[index].active;
  --active_;
}

std::uint64_t ExchangeQueue::sleep(std::size_t index, std::uint64_t until_ns) noexcept {
  std::lock_guard lock(mutex_);
  Row& own = loops_[index];
  if (stopping_ || own.look_for_cancelled || !own.given.empty()) return 0;
  own.asleep = true;
  return index == 0 ? std::min(until_ns, due_ns_) : until_ns;
}

// The functions below are called with the lock held.

void ExchangeQueue::wait_until_due(Exchange& exchange) noexcept {
  later_.push_back(exchange);
  if (exchange.not_before_ns >= due_ns_) return;
  due_ns_ = exchange.not_before_ns;
  wake(loops_.front());
}

// Due exchanges are retries: they go ahead of those that wait for their first attempt.
void ExchangeQueue::add_due(std::uint64_t now_ns) noexcept {
  ExchangeList due, kept;
  due_ns_ = ~std::uint64_t{0};
  while (Exchange* const one = later_.pop_front()) {
    const bool is_due = one->not_before_ns <= now_ns;
    (is_due ? due : kept).push_back(*one);
    if (is_due) {
      waits_.fetch_add(1, std::memory_order_relaxed);
    } else {
      due_ns_ = std::min(due_ns_, one->not_before_ns);
    }
  }
  later_ = kept;
  due.take_all(waiting_);
  waiting_ = due;
}

void ExchangeQueue::dispatch() noexcept {
  while (active_ < limit_ && !waiting_.empty()) {
    Row& row = idlest();
    row.given.push_back(*waiting_.pop_front());
    waits_.fetch_sub(1, std::memory_order_relaxed);
    ++row.active;
    ++active_;
    wake(row);
  }
}

ExchangeQueue::Row& ExchangeQueue::idlest() noexcept {
  const auto begun = std::span(loops_).first(started_loops_);
  Row& row = *std::ranges::min_element(begun, {}, &Row::active);
  if (row.active < kSpread || started_loops_ == loops_.size() || no_more_loops_ || stopping_) return row;
  no_more_loops_ = !loops_[started_loops_].loop->begin().ok();
  return no_more_loops_ ? row : loops_[started_loops_++];
}

}  // namespace headrace::http

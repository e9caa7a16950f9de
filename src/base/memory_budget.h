// MemoryBudget: a limit on the memory whose size stored bytes decide, and the account of what is taken from it.
//
// Metadata, directories and indexes come from whoever wrote a store, and a few bytes can ask for gigabytes. Who is
// about to allocate because of them takes as much from a budget first, by a Charge that gives it back at its end.
//
// Threads: every call from any thread; taking and giving are one atomic operation each.
// Fails:   kResourceExhausted, naming what wanted how much, what is left, and the option that allows more.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace headrace::base {

class MemoryBudget {
 public:
  // `option`: what a user sets for more.
  MemoryBudget(std::uint64_t limit_bytes, std::string option);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  std::uint64_t limit_bytes() const noexcept { return limit_; }
  std::uint64_t used_bytes() const noexcept { return used_.load(std::memory_order_relaxed); }

  // Where there is too little left, keepers let go first.
  bool take(std::uint64_t bytes) noexcept;
  void give(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Why take(bytes) gave false.
  Status refusal(std::uint64_t bytes, std::string_view what) const noexcept;

  // Holds charges for what it can do without: a cache.
  class Keeper {
   public:
    // Gives back what nobody else uses. Called on any thread; must not call the budget but to give.
    virtual void let_go() noexcept = 0;

   protected:
    ~Keeper() = default;
  };
  void add(Keeper& keeper);  // throws std::bad_alloc
  // Returns when let_go() runs no more. Nothing in a process forked since: its locks may be held for ever.
  void remove(Keeper& keeper) noexcept;

 private:
  bool try_take(std::uint64_t bytes) noexcept;

  const std::uint64_t limit_;
  const std::string option_;
  const std::uint64_t fork_generation_;
  std::atomic<std::uint64_t> used_{0};  // never above limit_
  std::mutex mutex_;
  std::set<Keeper*> keepers_;  // guarded by mutex_
};

// What one owner has taken. Without a budget it takes as much as it likes.
//
// Threads: one at a time.
class Charge {
 public:
  Charge() noexcept = default;
  explicit Charge(std::shared_ptr<MemoryBudget> budget) noexcept : budget_(std::move(budget)) {}
  Charge(Charge&& other) noexcept : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    if (this == &other) return *this;
    give_all();
    budget_ = std::move(other.budget_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~Charge() { give_all(); }

  // `what` is named where there is too little: "the index of a shard".
  Status take(std::uint64_t bytes, std::string_view what) noexcept {
    if (budget_ == nullptr || bytes == 0) return {};
    if (!budget_->take(bytes)) return budget_->refusal(bytes, what);
    bytes_ += bytes;
    return {};
  }
  // Up to `bytes` in all.
  Status grow_to(std::uint64_t bytes, std::string_view what) noexcept {
    return bytes > bytes_ ? take(bytes - bytes_, what) : Status();
  }
  void shrink_to(std::uint64_t bytes) noexcept {
    if (bytes >= bytes_) return;
    budget_->give(bytes_ - bytes);
    bytes_ = bytes;
  }
  void give_all() noexcept { shrink_to(0); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::shared_ptr<MemoryBudget>& budget() const noexcept { return budget_; }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace headrace::base

// MemoryBudget: limits the memory that stored data can make the library allocate, and accounts for it.
//
// Metadata, directories and indexes are written by others, and a few bytes can ask for gigabytes. Before code allocates
// on their behalf, it takes that amount from a budget through a Charge, whose destructor gives it back.
//
// Threads: every call from any thread. take() and give() are usually a single atomic operation.
// Fails:   kResourceExhausted, naming the purpose, the amount, what is left, and the option that raises the limit.
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
  // `option`: the name of the option that sets the limit.
  MemoryBudget(std::uint64_t limit_bytes, std::string option);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  std::uint64_t limit_bytes() const noexcept { return limit_; }
  std::uint64_t used_bytes() const noexcept { return used_.load(std::memory_order_relaxed); }

  // If too little is left, first asks the keepers to release memory. Returns whether the bytes were taken.
  bool take(std::uint64_t bytes) noexcept;
  void give(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  // The Status for a take(bytes) that returned false.
  Status refusal(std::uint64_t bytes, std::string_view what) const noexcept;

  // A cache: holds charges for data it can drop.
  class Keeper {
   public:
    // Drops everything not in use elsewhere. Called on any thread; must call nothing of the budget but give().
    virtual void drop_unused() noexcept = 0;

   protected:
    ~Keeper() = default;
  };
  void add(Keeper& keeper);  // throws std::bad_alloc
  // Returns once drop_unused() is not running for it. Does nothing in a process forked since, where locks may
  // be held forever.
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

// The amount that one owner has taken. Without a budget it is unlimited.
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

  // `what` names the purpose in the failure, such as "the index of a shard".
  Status take(std::uint64_t bytes, std::string_view what) noexcept {
    if (budget_ == nullptr || bytes == 0) return {};
    if (!budget_->take(bytes)) return budget_->refusal(bytes, what);
    bytes_ += bytes;
    return {};
  }
  // Increases the charge to `bytes` in total, if it is smaller.
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

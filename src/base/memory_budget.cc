#include "base/memory_budget.h"

#include <algorithm>
#include <new>

#include "base/fork.h"

namespace headrace::base {

MemoryBudget::MemoryBudget(std::uint64_t limit_bytes, std::string option)
    : limit_(limit_bytes), option_(std::move(option)), fork_generation_(fork_generation()) {}

bool MemoryBudget::try_take(std::uint64_t bytes) noexcept {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

bool MemoryBudget::take(std::uint64_t bytes) noexcept {
  if (try_take(bytes)) return true;
  if (bytes > limit_ || fork_generation() != fork_generation_) return false;
  std::lock_guard lock(mutex_);
  for (Keeper* const keeper : keepers_) {
    keeper->drop_unused();
    if (try_take(bytes)) return true;
  }
  return try_take(bytes);
}

Status MemoryBudget::refusal(std::uint64_t bytes, std::string_view what) const noexcept {
  try {
    const std::uint64_t left = limit_ - std::min(limit_, used_bytes());
    return Status(Code::kResourceExhausted, Layer::kBase,
                  "not enough memory for " + std::string(what) + ": it needs " + std::to_string(bytes) +
                      " bytes, and " + std::to_string(left) + " of the " + std::to_string(limit_) + " bytes of " +
                      option_ + " are left; raise the limit if you trust the store");
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

void MemoryBudget::add(Keeper& keeper) {
  std::lock_guard lock(mutex_);
  keepers_.insert(&keeper);
}

void MemoryBudget::remove(Keeper& keeper) noexcept {
  if (fork_generation() != fork_generation_) return;
  std::lock_guard lock(mutex_);
  keepers_.erase(&keeper);
}

}  // namespace headrace::base

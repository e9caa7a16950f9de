#include "os/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fork.h"
#include "os/host_limits.h"

namespace headrace::os {
namespace {

// A higher limit would only slow down programs that close every possible descriptor.
constexpr std::uint64_t kHighestLimit = 65536;
constexpr std::uint64_t kTable = 8192;  // allocated at once, since open() stalls each time the table grows

std::int64_t share_of_limit() noexcept {
  const std::uint64_t limit = open_files_limit().value_or(kHighestLimit);
  return static_cast<std::int64_t>(std::clamp<std::uint64_t>(limit / 2, 1, kHighestLimit));
}

}  // namespace

Descriptors& Descriptors::of_process() {
  static base::PerProcess<Descriptors> all;
  return all.get();
}

Descriptors::Descriptors() noexcept : share_(share_of_limit()) {}

bool Descriptors::room() noexcept {
  return open_.load(std::memory_order_relaxed) < share_.load(std::memory_order_relaxed) || make_room();
}

bool Descriptors::make_room() noexcept {
  const std::lock_guard lock(mutex_);
  raise_limit();
  while (open_.load() >= share_.load()) {
    if (!close_one_kept()) return false;
  }
  return true;
}

// Done once only: the program may have reasons to lower the limit again.
void Descriptors::raise_limit() noexcept {
  if (limit_raised_) return;
  limit_raised_ = true;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kHighestLimit);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    std::int64_t result = HEADRACE_FAULT("base.setrlimit", 0);
    if (result == 0 && ::setrlimit(RLIMIT_NOFILE, &limit) != 0) result = -errno;
    if (result != 0) return;  // the limit stays as it is
    reserve_open_files(kTable);
    limit_raises_.fetch_add(1);
  }
  share_ = share_of_limit();
}

// Closes the least recently used idle file, if it was last used before `before_ns`.
bool Descriptors::close_least_recent(std::uint64_t before_ns, bool in_kept_share) noexcept {
  for (;;) {
    DescriptorKeeper* longest = nullptr;
    std::uint64_t oldest = before_ns;
    for (DescriptorKeeper* keeper : keepers_) {
      if (in_kept_share && !keeper->in_kept_share()) continue;
      const std::uint64_t at = keeper->oldest_ns();
      if (at >= oldest) continue;
      oldest = at;
      longest = keeper;
    }
    if (longest == nullptr) return false;
    if (longest->close_oldest()) return true;  // otherwise it has come into use meanwhile
  }
}

// The program itself has more files open than its half. The library's share shrinks until the library
// has closed its own.
bool Descriptors::refused(std::uint64_t limit_raises) noexcept {
  const std::lock_guard lock(mutex_);
  if (limit_raises != limit_raises_.load()) return true;  // another thread has raised the limit meanwhile
  if (!limit_raised_) {
    raise_limit();
    return true;
  }
  if (close_one_kept()) return true;
  if (!some_will_close()) return false;
  // Slightly fewer than are open now, to leave room for descriptors that are not counted.
  share_ = std::max<std::int64_t>(1, std::min(share_.load(), open_.load() - 2));
  share_reduced_ = true;
  return true;
}

void Descriptors::closed() noexcept {
  closings_.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t before = open_.fetch_sub(1);
  if (before <= 0) {
    open_.fetch_add(1);  // it was inherited by a forked child, which has not counted it
  } else if (before - 1 <= kept_.load() && share_reduced_.exchange(false)) {
    share_ = share_of_limit();
  }
  idle();
}

void Descriptors::idle() noexcept {
  if (waiting_.load() == 0) return;
  std::vector<std::weak_ptr<DescriptorWaiter>> waiters;
  {
    const std::lock_guard lock(waiters_mutex_);
    waiters.swap(waiters_);
    waiting_ = 0;
  }
  for (const auto& weak : waiters) {
    if (const auto waiter = weak.lock()) waiter->descriptor_closed();
  }
}

bool Descriptors::hold() noexcept {
  if (held_.fetch_add(1, std::memory_order_relaxed) < share_.load(std::memory_order_relaxed) / 4) return true;
  held_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void Descriptors::end_hold() noexcept {
  if (held_.fetch_sub(1, std::memory_order_relaxed) <= 0) held_.fetch_add(1, std::memory_order_relaxed);  // inherited
}

bool Descriptors::keep(std::uint64_t rest_ns) noexcept {
  const auto take = [&] {
    if (kept_.fetch_add(1) < share_.load(std::memory_order_relaxed) / 2) return true;
    kept_.fetch_sub(1);
    return false;
  };
  if (take()) return true;
  const std::lock_guard lock(mutex_);
  raise_limit();
  while (!take()) {
    const std::uint64_t now_ns = base::now_ns();
    if (now_ns < rest_ns || !close_least_recent(now_ns - rest_ns, true)) return false;
  }
  return true;
}

void Descriptors::end_keep() noexcept { kept_.fetch_sub(1); }

void Descriptors::call_when_closed(std::weak_ptr<DescriptorWaiter> waiter) {
  {
    const std::lock_guard lock(waiters_mutex_);
    waiters_.push_back(waiter);
    waiting_ = waiters_.size();
  }
  // A file may have been closed before the waiter was on the list.
  if (!room()) return;
  if (const auto self = waiter.lock()) self->descriptor_closed();
}

void Descriptors::add(DescriptorKeeper& keeper) {
  const std::lock_guard lock(mutex_);
  keepers_.push_back(&keeper);
}

void Descriptors::remove(DescriptorKeeper& keeper) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(keepers_, &keeper);
}

}  // namespace headrace::os

#include "transfer/files/queue_files.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/grow.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kKept = 16;

}  // namespace

QueueFiles::~QueueFiles() {
  if (resources_.check_usable().ok()) os::Descriptors::of_process().remove(*this);
}

QueueFiles::Index QueueFiles::acquire(const std::shared_ptr<os::FileHandle>& file) {
  const Index index = entry_of(file);
  if (files_[index].requests++ == 0) file->claim();
  return index;
}

void QueueFiles::drop_idle() noexcept {
  const auto held = lock();
  for (const Index index : idle_) close_entry(index);
  idle_.clear();
}

// Finds or makes the entry of a file, and takes it off the idle list.
QueueFiles::Index QueueFiles::entry_of(const std::shared_ptr<os::FileHandle>& file) {
  const auto held = lock();
  if (const auto known = by_handle_.find(file.get()); known != by_handle_.end()) {
    if (files_[known->second].requests == 0) std::erase(idle_, known->second);
    return known->second;
  }
  if (free_.empty()) {
    base::grow_to(free_, files_.size() + 1);
    base::grow_to(idle_, kKept + 1);
    files_.emplace_back();
    free_.push_back(static_cast<Index>(files_.size() - 1));
  }
  const Index index = free_.back();
  Entry& state = files_[index];
  if (state.node.empty()) {
    by_handle_.emplace(file.get(), index);
  } else {
    state.node.key() = file.get();
    by_handle_.insert(std::move(state.node));
  }
  free_.pop_back();
  state.handle = file;
  return index;
}

void QueueFiles::release(Index index) noexcept {
  Entry& state = files_[index];
  if (--state.requests != 0) return;
  state.handle->end_claim();  // without the lock: it may call close_oldest()
  bool unclaimed = false;
  {
    const auto held = lock();
    state.idle_since_ns = base::now_ns();
    idle_.push_back(index);
    unclaimed = !state.handle->claimed();
    if (idle_.size() > kKept) {
      close_entry(idle_.front());
      idle_.erase(idle_.begin());
    }
  }
  if (unclaimed) os::Descriptors::of_process().idle();
}

// In a forked child the lock may be held for ever, and no other thread closes kept files.
std::unique_lock<std::mutex> QueueFiles::lock() noexcept {
  return resources_.check_usable().ok() ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
}

// REQUIRES: the lock. Skips files that the program still holds, since dropping them would not close them.
std::vector<QueueFiles::Index>::iterator QueueFiles::oldest_unclaimed() noexcept {
  return std::find_if(idle_.begin(), idle_.end(), [&](Index index) { return !files_[index].handle->claimed(); });
}

std::uint64_t QueueFiles::oldest_ns() noexcept {
  const std::lock_guard held(mutex_);
  const auto oldest = oldest_unclaimed();
  return oldest != idle_.end() ? files_[*oldest].idle_since_ns : kNothing;
}

bool QueueFiles::close_oldest() noexcept {
  const std::lock_guard held(mutex_);
  const auto oldest = oldest_unclaimed();
  if (oldest == idle_.end()) return false;
  const bool last = files_[*oldest].handle.use_count() == 1;  // else another queue keeps it, too
  close_entry(*oldest);
  idle_.erase(oldest);
  return last;
}

// REQUIRES: the lock, and that no request uses the file.
void QueueFiles::close_entry(Index index) noexcept {
  Entry& state = files_[index];
  state.node = by_handle_.extract(state.handle.get());
  state.forget();
  free_.push_back(index);
}

}  // namespace headrace::transfer

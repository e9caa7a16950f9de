#include "store/kept_files.h"

#include <functional>
#include <new>
#include <utility>

#include "base/clock.h"
#include "os/file_read.h"

namespace headrace::store {
namespace {

// State bits of a file. If none is set, the way is free.
constexpr std::uint32_t kKept = 1u << 31;     // can be found
constexpr std::uint32_t kDropped = 1u << 30;  // cannot be found; closed when its last user gives it back
constexpr std::uint32_t kBusy = 1u << 29;     // one thread is changing its state
constexpr std::uint32_t kUsers = kBusy - 1;

constexpr std::uint64_t kRestNs = 10'000'000'000;       // unused for this long, a file can be replaced by another
constexpr std::uint64_t kForgottenNs = 60'000'000'000;  // unused for this long, it is closed when others arrive
constexpr std::uint64_t kFullNs = 100'000'000;          // pause before checking again whether one can be replaced
constexpr std::size_t kSample = 64;                     // number of files inspected to find the oldest
constexpr std::uint64_t kPlenty = 16;                   // a table may take at most the budget's free memory
                                                        // divided by this

}  // namespace

std::uint64_t KeptFiles::tag_of(std::string_view key) noexcept { return std::hash<std::string_view>()(key) | 1; }

// Adds a user, if the file can be found.
bool KeptFiles::use(File& file) noexcept {
  std::uint32_t state = file.state_.load(std::memory_order_relaxed);
  while ((state & kKept) != 0) {
    if (file.state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

KeptFiles::File* KeptFiles::find(std::uint64_t tag) noexcept {
  if (fork_generation_ != base::fork_generation()) return nullptr;
  for (std::size_t t = table_count_.load(std::memory_order_acquire); t-- > 0;) {
    Set& set = tables_[t].set_of(tag);
    for (std::size_t way = 0; way < kWays; ++way) {
      if (set.tags[way].load(std::memory_order_relaxed) != tag || !use(set.files[way])) continue;
      File& file = set.files[way];
      if (set.tags[way].load(std::memory_order_relaxed) == tag) {
        file.used_ns_.store(base::now_ns(), std::memory_order_relaxed);
        return &file;
      }
      give_back(file);  // another file has taken its place meanwhile
    }
  }
  return nullptr;
}

KeptFiles::File* KeptFiles::keep(std::uint64_t tag, int fd, const os::FileIdentity& identity) noexcept {
  if (fork_generation_ != base::fork_generation()) return nullptr;
  const std::uint64_t now_ns = base::now_ns();
  if (now_ns < full_until_ns_.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t tables = table_count_.load(std::memory_order_acquire);
  for (std::size_t t = 0; t < tables; ++t) {
    for (const auto& other : tables_[t].set_of(tag).tags) {
      if (other.load(std::memory_order_relaxed) == tag) return nullptr;  // another thread has just kept it
    }
  }
  File* file = claim_free(tag, 0);
  if (file == nullptr && grow(tables)) file = claim_free(tag, tables);
  if (file == nullptr) file = claim_idle(tag);
  if (file == nullptr) return nullptr;
  os::Descriptors& all = os::Descriptors::of_process();
  if (!all.keep(kRestNs)) {
    full_until_ns_.store(now_ns + kFullNs, std::memory_order_relaxed);
    file->state_.store(0, std::memory_order_release);
    return nullptr;
  }
  all.opened();
  file->fd_ = fd;
  file->identity_ = identity;
  file->used_ns_.store(now_ns, std::memory_order_relaxed);
  file->tag_->store(tag, std::memory_order_relaxed);
  file->state_.store(kKept | 1, std::memory_order_release);
  sweep(now_ns);
  return file;
}

// A free way in the tag's sets, marked busy.
KeptFiles::File* KeptFiles::claim_free(std::uint64_t tag, std::size_t first_table) noexcept {
  const std::size_t tables = table_count_.load(std::memory_order_acquire);
  for (std::size_t t = first_table; t < tables; ++t) {
    Set& set = tables_[t].set_of(tag);
    for (std::size_t way = 0; way < kWays; ++way) {
      File& file = set.files[way];
      std::uint32_t state = file.state_.load(std::memory_order_relaxed);
      if (state != 0 || !file.state_.compare_exchange_strong(state, kBusy, std::memory_order_acquire)) continue;
      file.tag_ = &set.tags[way];
      return &file;
    }
  }
  return nullptr;
}

// The way of a file unused for a while, which is closed.
KeptFiles::File* KeptFiles::claim_idle(std::uint64_t tag) noexcept {
  const std::uint64_t now_ns = base::now_ns();
  const std::size_t tables = table_count_.load(std::memory_order_acquire);
  for (std::size_t t = 0; t < tables; ++t) {
    for (File& file : tables_[t].set_of(tag).files) {
      std::uint32_t idle = kKept;
      if (file.used_ns_.load(std::memory_order_relaxed) + kRestNs >= now_ns ||
          !file.state_.compare_exchange_strong(idle, kBusy, std::memory_order_acquire)) {
        continue;
      }
      close(file);
      return &file;
    }
  }
  return nullptr;
}

// Visits one set per call and closes files unused for long.
void KeptFiles::sweep(std::uint64_t now_ns) noexcept {
  const std::size_t tables = table_count_.load(std::memory_order_acquire);
  for (File& file : set_at(hand_.fetch_add(1, std::memory_order_relaxed), tables).files) {
    if (file.used_ns_.load(std::memory_order_relaxed) + kForgottenNs < now_ns) (void)close_idle(file);
  }
}

// Adds a table beyond `tables`. False: no memory, or the maximum is reached.
bool KeptFiles::grow(std::size_t tables) noexcept {
  const std::lock_guard lock(mutex_);
  if (table_count_.load(std::memory_order_relaxed) > tables) return true;  // added by another thread
  if (tables == kTables) return false;
  std::size_t sets = kFirstSets;
  for (std::size_t i = 0; i < tables; ++i) sets *= kGrowth;
  const std::uint64_t bytes = sets * sizeof(Set);
  const auto& budget = memory_.budget();
  if (budget != nullptr && (budget->limit_bytes() - budget->used_bytes()) / kPlenty < bytes) return false;
  if (!memory_.take(bytes, "files that are kept open").ok()) return false;
  try {
    if (!listed_) {
      os::Descriptors::of_process().add(*this);
      listed_ = true;
    }
    tables_[tables].sets = std::make_unique<Set[]>(sets);
  } catch (const std::bad_alloc&) {
    memory_.shrink_to(memory_.bytes() - bytes);
    return false;
  }
  tables_[tables].set_count = sets;
  table_count_.store(tables + 1, std::memory_order_release);
  return true;
}

void KeptFiles::give_back(File& file) noexcept {
  const std::uint32_t left = file.state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((left & kUsers) != 0) return;
  std::uint32_t dropped = kDropped;
  if (left == kDropped && file.state_.compare_exchange_strong(dropped, kBusy, std::memory_order_acquire)) {
    close(file);
    file.state_.store(0, std::memory_order_release);
    return;
  }
  // The file may now be closed for a thread that waits for a descriptor.
  if (fork_generation_ == base::fork_generation()) os::Descriptors::of_process().idle();
}

void KeptFiles::drop(File& file) noexcept {
  std::uint32_t state = file.state_.load(std::memory_order_relaxed);
  while ((state & kKept) != 0 &&
         !file.state_.compare_exchange_weak(state, (state & kUsers) | kDropped, std::memory_order_relaxed)) {
  }
  if ((state & kKept) != 0) file.tag_->store(0, std::memory_order_relaxed);
}

// REQUIRES: it is busy.
void KeptFiles::close(File& file) noexcept {
  file.tag_->store(0, std::memory_order_relaxed);
  os::close_descriptor(std::exchange(file.fd_, -1));
  if (fork_generation_ != base::fork_generation()) return;  // a child has not counted it
  os::Descriptors& all = os::Descriptors::of_process();
  all.end_keep();
  all.closed();
}

bool KeptFiles::close_idle(File& file) noexcept {
  std::uint32_t idle = kKept;
  if (!file.state_.compare_exchange_strong(idle, kBusy, std::memory_order_acquire)) return false;
  close(file);
  file.state_.store(0, std::memory_order_release);
  return true;
}

// In the first `tables` tables.
std::size_t KeptFiles::sets_of(std::size_t tables) const noexcept {
  std::size_t sets = 0;
  for (std::size_t t = 0; t < tables; ++t) sets += tables_[t].set_count;
  return sets;
}

// REQUIRES: there is at least one table.
KeptFiles::Set& KeptFiles::set_at(std::size_t number, std::size_t tables) const noexcept {
  std::size_t at = number % sets_of(tables), t = 0;
  while (at >= tables_[t].set_count) at -= tables_[t++].set_count;
  return tables_[t].sets[at];
}

// The least recently used of some idle files; null: all are in use.
KeptFiles::File* KeptFiles::look_for_oldest() noexcept {
  const std::size_t tables = table_count_.load(std::memory_order_acquire);
  const std::size_t hand = hand_.load(std::memory_order_relaxed), sets = sets_of(tables);
  File* oldest = nullptr;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < sets && seen < kSample; ++i) {
    for (File& file : set_at(hand + i, tables).files) {
      if (file.state_.load(std::memory_order_relaxed) != kKept) continue;
      ++seen;
      const std::uint64_t used_ns = file.used_ns_.load(std::memory_order_relaxed);
      if (oldest == nullptr || used_ns < oldest->used_ns_.load(std::memory_order_relaxed)) oldest = &file;
    }
  }
  return oldest;
}

std::uint64_t KeptFiles::oldest_ns() noexcept {
  const File* const oldest = look_for_oldest();
  return oldest != nullptr ? oldest->used_ns_.load(std::memory_order_relaxed) : kNothing;
}

bool KeptFiles::close_oldest() noexcept {
  File* const oldest = look_for_oldest();
  hand_.fetch_add(1, std::memory_order_relaxed);
  return oldest != nullptr && close_idle(*oldest);
}

KeptFiles::~KeptFiles() {
  os::Descriptors::of_process().remove(*this);
  for (const Table& table : tables_) {
    for (std::size_t i = 0; i < table.set_count; ++i) {
      for (File& file : table.sets[i].files) {
        if (file.fd_ >= 0) close(file);
      }
    }
  }
}

}  // namespace headrace::store

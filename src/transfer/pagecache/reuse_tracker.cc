#include "transfer/pagecache/reuse_tracker.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "os/cgroup.h"
#include "os/direct_align.h"
#include "os/file_read.h"
#include "os/host_limits.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kAskAgainNs = 5'000'000'000;  // determining it reads some twenty small files

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

}  // namespace

std::uint64_t ReuseTracker::spare_memory_bytes() {
  const std::uint64_t machine = os::host_memory().available_bytes;
  return std::min(machine, os::cgroup_limits().memory_available_bytes.value_or(machine));
}

ReuseTracker::Table* ReuseTracker::table() noexcept {
  // calloc() gets zeroed pages from the kernel: writing a megabyte of zeros takes longer than the first read of many a
  // Context.
  static_assert(std::is_trivially_destructible_v<Table> && Entry::is_always_lock_free);
  std::call_once(made_, [this] { table_.reset(static_cast<Table*>(std::calloc(1, sizeof(Table)))); });
  return table_.get();
}

// Half of the spare memory: others need some, and a full page cache evicts what it has just read.
std::uint64_t ReuseTracker::budget() noexcept {
  const std::uint64_t now = now_ns_();
  std::uint64_t due = ask_again_ns_.load(std::memory_order_relaxed);
  if (now >= due && ask_again_ns_.compare_exchange_strong(due, now + kAskAgainNs, std::memory_order_relaxed)) {
    std::uint64_t spare = 0;
    try {
      spare = spare_bytes_();
    } catch (const std::bad_alloc&) {  // nothing to spare
    }
    budget_bytes_.store(spare / 2, std::memory_order_relaxed);
  }
  return budget_bytes_.load(std::memory_order_relaxed);
}

ReuseTracker::Advice ReuseTracker::note(const os::FileIdentity& file, std::uint64_t offset,
                                        std::uint64_t bytes) noexcept {
  const std::uint64_t granule = offset / kGranuleBytes, start = granule * kGranuleBytes;
  if (bytes == 0 || start >= file.size_bytes) return Advice::kDirect;
  Table* const table = this->table();
  if (table == nullptr) return Advice::kDirect;
  const std::uint64_t length = std::min(kGranuleBytes, file.size_bytes - start);

  std::uint64_t hash = mix(mix(mix(1, file.device), file.inode), file.size_bytes);
  hash = mix(mix(hash, static_cast<std::uint64_t>(file.modified_ns)), granule);
  hash = mix(hash, static_cast<std::uint64_t>(file.changed_ns));
  auto& bucket = table->buckets[hash % kBuckets];
  const std::uint64_t tag = (hash >> 24) | 1;  // never 0; above bit 24, so independent of the bucket number

  for (Entry& entry : bucket) {
    std::uint64_t was = entry.load(std::memory_order_relaxed);
    while (was >> 24 == tag) {
      if ((was & kKept) != 0) return kept_bytes() <= budget() ? Advice::kCached : Advice::kDirect;
      const std::uint64_t so_far = was & kBytes;
      if (so_far < length) {
        const std::uint64_t now = (tag << 24) | std::min(length, so_far + std::min(bytes, length));
        if (entry.compare_exchange_weak(was, now, std::memory_order_relaxed)) return Advice::kDirect;
        continue;
      }
      // A repeated read.
      if (kept_bytes_.fetch_add(length, std::memory_order_relaxed) + length > budget()) {
        kept_bytes_.fetch_sub(length, std::memory_order_relaxed);
        return Advice::kDirect;
      }
      if (entry.compare_exchange_strong(was, (tag << 24) | kKept | length, std::memory_order_relaxed)) {
        return Advice::kPrefetch;
      }
      // Another thread was quicker, or the entry was replaced.
      kept_bytes_.fetch_sub(length, std::memory_order_relaxed);
    }
  }
  // An unused entry, else the one with the fewest counted bytes; kept ones last.
  Entry* place = &bucket[(hash >> 15) % kWays];
  std::uint64_t least = place->load(std::memory_order_relaxed);
  for (Entry& entry : bucket) {
    const std::uint64_t value = entry.load(std::memory_order_relaxed);
    if ((value & (kKept | kBytes)) < (least & (kKept | kBytes))) {
      place = &entry;
      least = value;
    }
  }
  if (place->compare_exchange_strong(least, (tag << 24) | std::min(length, bytes), std::memory_order_relaxed) &&
      (least & kKept) != 0) {
    kept_bytes_.fetch_sub(least & kBytes, std::memory_order_relaxed);
  }
  return Advice::kDirect;
}

void ReuseTracker::prefetch(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const os::WidenedRange granules = os::widen(offset, bytes, kGranuleBytes);
  os::want_cached(fd, granules.offset_bytes, granules.length_bytes);
}

}  // namespace headrace::transfer

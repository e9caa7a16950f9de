// How records get into segments: copies, the thread that writes them, and making room.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"
#include "cache/disk_cache.h"

namespace headrace::cache {
namespace {

constexpr std::uint64_t kMinSegmentBytes = std::uint64_t{1} << 20, kMaxOwnSegmentBytes = std::uint64_t{256} << 20;
constexpr std::size_t kMaxListed = std::size_t{1} << 20;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kLockPatienceNs = 2 * kSecondNs, kFullDiskNs = 30 * kSecondNs;

}  // namespace

// A fraction of the budget, so that evicting one segment frees only a small part of the cache.
std::uint64_t DiskCache::segment_bytes() const noexcept {
  return std::clamp(most_bytes_.load(std::memory_order_relaxed) / 64, kMinSegmentBytes, kMaxOwnSegmentBytes);
}

bool DiskCache::has_room(std::uint64_t data_bytes) const noexcept {
  if (data_bytes > kMaxRecordBytes || !directory_.writable()) return false;
  const std::uint64_t whole = record_bytes(data_bytes), room = room_.load(std::memory_order_relaxed);
  return whole <= room || whole <= room + segments_.newly_dead_bytes();
}

bool DiskCache::is_disk_full() const noexcept {
  const std::uint64_t until = no_writes_until_ns_.load(std::memory_order_relaxed);
  return until != 0 && base::now_ns() < until;
}

bool DiskCache::takes(std::uint64_t data_bytes) const noexcept { return has_room(data_bytes) && !is_disk_full(); }

// Null: the copies take too much memory already.
DiskCache::Copy DiskCache::copy_of(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
                                   std::span<const std::byte> data) {
  const std::uint64_t whole = record_bytes(data.size());
  Copy copy;
  {
    std::lock_guard lock(write_mutex_);
    if (stopping_ || (copied_ != 0 && copied_ + whole > kMaxCopiedBytes)) return nullptr;
    const auto fitting = std::find_if(spare_.begin(), spare_.end(), [&](const Copy& one) {
      return one->capacity >= whole && one->capacity / 4 <= whole + kSegmentUnit;
    });
    if (fitting != spare_.end()) {
      copy = std::move(*fitting);
      *fitting = std::move(spare_.back());
      spare_.pop_back();
      spare_bytes_ -= copy->capacity;
    } else {
      if (spare_bytes_ + copied_ + whole > kMaxCopiedBytes) {
        spare_.clear();
        spare_bytes_ = 0;
      }
      copy = std::make_shared<FetchedRange>();
      copy->capacity = static_cast<std::size_t>(base::align_up(whole, std::uint64_t{4096}));
      copy->memory.reset(new std::byte[copy->capacity]);
    }
    copied_ += copy->capacity;
  }
  copy->id = id;
  copy->object_bytes = object_bytes;
  copy->data_bytes = data.size();
  copy->in_table = false;
  if (!data.empty()) std::memcpy(copy->memory.get() + sizeof(RecordHead), data.data(), data.size());
  try {
    copy->version.assign(version);
  } catch (const std::bad_alloc&) {
    std::lock_guard lock(write_mutex_);
    copied_ -= copy->capacity;
    throw;
  }
  return copy;
}

DiskCache::Offered DiskCache::offer(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
                                    std::span<const std::byte> data, bool leads) noexcept {
  const auto end = [&] { return Offered{nullptr, leads ? fetches_.end(id) : nullptr}; };
  const auto dropped = [&] {
    drop(1);
    return end();
  };
  if (version.empty() || version.size() > kMaxVersionBytes || !has_room(data.size())) return dropped();
  if (const auto there = find(id); there && there->tag == version_tag(version, object_bytes)) return end();
  if (is_disk_full()) return dropped();
  Copy copy;
  Offered out;
  try {
    copy = copy_of(id, version, object_bytes, data);
    if (copy == nullptr) return dropped();
    copy->in_table = leads;
    out.copy = copy;
    // Before the writing thread knows of the copy, because that thread takes it out of the table again.
    if (leads) out.waiting = fetches_.fetched(id, copy);
    std::lock_guard lock(write_mutex_);
    waiting_.push_back(copy);
  } catch (const std::bad_alloc&) {
    if (copy == nullptr) return dropped();
    drop(1);
    if (leads) fetches_.landed(id);
    std::lock_guard lock(write_mutex_);
    copied_ -= copy->capacity;
    return out;
  }
  to_write_.notify_one();
  return out;
}

void DiskCache::count_miss() noexcept {
  misses_.fetch_add(1, std::memory_order_relaxed);
  if (had_misses_.load(std::memory_order_relaxed) || had_misses_.exchange(true)) return;
  std::lock_guard lock(write_mutex_);
  to_write_.notify_one();
}

void DiskCache::flush() {
  std::unique_lock lock(write_mutex_);
  written_.wait(lock, [&] { return waiting_.empty() && !writing_; });
}

void DiskCache::write_all() noexcept {
  std::vector<Copy> batch;
  std::unique_lock lock(write_mutex_);
  for (;;) {
    const auto something = [&] { return stopping_ || !waiting_.empty(); };
    to_write_.wait(lock, [&] { return something() || had_misses_; });
    // A miss may mean that another process has just added the record.
    if (!to_write_.wait_for(lock, std::chrono::nanoseconds(kSecondNs), something)) {
      spare_.clear();
      spare_bytes_ = 0;
      lock.unlock();
      update_listing();
      lock.lock();
      continue;
    }
    if (waiting_.empty()) break;
    batch.swap(waiting_);
    writing_ = true;
    lock.unlock();
    write_batch(batch);
    lock.lock();
    for (Copy& copy : batch) {
      copied_ -= copy->capacity;
      // Memory that a reader may still copy from is not reused.
      if (copy->in_table && fetches_.landed(copy->id)) continue;
      if (spare_bytes_ + copy->capacity > kMaxCopiedBytes / 2) continue;
      spare_bytes_ += copy->capacity;
      try {
        spare_.push_back(copy);
      } catch (const std::bad_alloc&) {
        spare_bytes_ -= copy->capacity;
      }
    }
    batch.clear();
    writing_ = false;
    written_.notify_all();
  }
  leave_active(false);
}

// Picks up what other processes have added or removed, and whether there is room again.
void DiskCache::update_listing() noexcept {
  had_misses_ = false;
  try {
    if (!directory_.list(listed_).ok()) return;
    segments_.refresh(listed_);
    used_bytes_ = 0;
    std::uint64_t dead = 0;  // bytes that make_room() can free
    for (const auto& named : listed_) {
      used_bytes_ += named.file_bytes;
      const auto known = segments_.known(named.name);
      if (known && known->is_dead(named.file_bytes)) dead += named.file_bytes;
    }
    const std::uint64_t most = most_bytes_.load(std::memory_order_relaxed);
    const std::uint64_t taken = used_bytes_ - dead + overhead_bytes();
    // A full cache that evicts always has room.
    room_ = policy_.load(std::memory_order_relaxed) == CachePolicy::kRecent ? most : most - std::min(most, taken);
  } catch (const std::bad_alloc&) {  // try again later
  }
}

void DiskCache::write_batch(std::vector<Copy>& batch) noexcept {
  std::size_t done = 0;
  try {
    const CacheDirectory::Lock held = directory_.lock(kLockPatienceNs);
    if (!held) {
      note_problem("the cache directory " + directory_.path() + " stays locked by another process", 0);
      return drop(batch.size());
    }
    // If someone has removed the active segment's file, stop using it.
    struct stat about {};
    if (active_.file && (::fstat(active_.file.get(), &about) != 0 || about.st_nlink == 0)) {
      const std::string name = active_.name;
      leave_active(false);
      segments_.remove(name);
    }
    update_listing();
    for (Copy& copy : batch) {
      if (!append(*copy)) drop(1);
      ++done;
    }
  } catch (const std::bad_alloc&) {
    drop(batch.size() - done);
  }
}

// Room needed besides the record: the list that seals the full segment, and the next segment's head.
std::uint64_t DiskCache::overhead_bytes() const noexcept { return seal_bytes(active_.list.size() + 1) + kSegmentUnit; }

bool DiskCache::append(FetchedRange& copy) {
  const std::span<const std::byte> data = copy.data();
  const std::uint32_t tag = version_tag(copy.version, copy.object_bytes);
  if (const auto there = find(copy.id); there && there->tag == tag) return true;
  if (no_writes_until_ns_ != 0 && base::now_ns() < no_writes_until_ns_) return false;
  const std::uint64_t whole = record_bytes(data.size());
  if (active_.file && (active_.end + whole > segment_bytes() || active_.list.size() >= kMaxListed) &&
      !active_.list.empty()) {
    seal();
  }
  const std::uint64_t beside = overhead_bytes();
  if (used_bytes_ + whole + beside > most_bytes_.load(std::memory_order_relaxed) && !make_room(whole + beside)) {
    return false;
  }
  if (whole > directory_.disk_room()) {
    note_problem("the disk of the cache directory " + directory_.path() + " is nearly full: nothing is added", 0);
    no_writes_until_ns_ = base::now_ns() + kFullDiskNs;
    return false;
  }
  if (!active_.file && !activate()) return false;
  const RecordHead head = make_record_head(copy.id, copy.version, copy.object_bytes, data);
  std::memcpy(copy.memory.get(), &head, sizeof head);
  std::memset(copy.memory.get() + sizeof head + data.size(), 0, whole - sizeof head - data.size());
  HEADRACE_DELAY("cache.append");
  std::uint64_t written = 0;
  int error = 0;
  while (written < whole) {
    const ssize_t count = ::pwrite(active_.file.get(), copy.memory.get() + written, whole - written,
                                   static_cast<off_t>(active_.end + written));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      error = count < 0 ? errno : ENOSPC;
      break;
    }
    written += static_cast<std::uint64_t>(count);
  }
  if (written < whole) {
    (void)!::ftruncate(active_.file.get(), static_cast<off_t>(active_.end));
    note_problem("cannot write to the cache directory " + directory_.path() + ": nothing is added for a while", error);
    no_writes_until_ns_ = base::now_ns() + kFullDiskNs;
    return false;
  }
  const ListedRecord record{copy.id, static_cast<std::uint32_t>(active_.end / kSegmentUnit),
                            static_cast<std::uint32_t>(data.size()), tag, 0};
  active_.list.push_back(record);
  active_.end += whole;
  used_bytes_ += whole;
  const std::uint64_t room = room_, removed = whole + overhead_bytes() - beside;
  room_ = room - std::min(room, removed);
  segments_.add_record(active_.number, record);
  added_.fetch_add(1, std::memory_order_relaxed);
  added_bytes_.fetch_add(data.size(), std::memory_order_relaxed);
  return true;
}

// Continues a segment that no process appends to any longer, or starts a new one.
bool DiskCache::activate() {
  if (adopt()) return true;
  int error = 0;
  active_.file = directory_.make_segment(active_.name, error);
  if (!active_.file) {
    note_problem("cannot make a file in the cache directory " + directory_.path(), error);
    no_writes_until_ns_ = base::now_ns() + kFullDiskNs;
    return false;
  }
  active_.number = segments_.add_own(active_.name);
  active_.end = kSegmentUnit;
  active_.list.clear();
  used_bytes_ += kSegmentUnit;
  return true;
}

bool DiskCache::adopt() {
  for (const auto& named : listed_) {
    const auto known = segments_.known(named.name);
    if (!known || known->sealed || known->own || !known->ours || named.file_bytes >= segment_bytes()) continue;
    os::OwnedDescriptor file = directory_.open_segment(named.name, true);
    if (!file || !CacheDirectory::claim(file)) continue;
    struct stat about {};
    if (::fstat(file.get(), &about) != 0 || about.st_nlink == 0) continue;
    std::vector<ListedRecord> list;
    const auto read = [&](std::uint64_t position, std::span<std::byte> out) -> std::size_t {
      const ssize_t count = ::pread(file.get(), out.data(), out.size(), static_cast<off_t>(position));
      return count > 0 ? static_cast<std::size_t>(count) : 0;
    };
    const auto size = static_cast<std::uint64_t>(about.st_size);
    const SegmentScan scan = scan_segment(read, size, directory_.fingerprint(), 0, [&](const ListedRecord& record) {
      list.push_back(record);
      return list.size() < kMaxListed;
    });
    if (!scan.ours || scan.sealed || scan.end < known->end) continue;
    // Cut off the partial record of a process that was killed.
    if (scan.end < size && ::ftruncate(file.get(), static_cast<off_t>(scan.end)) != 0) continue;
    used_bytes_ -= std::min(used_bytes_, size - scan.end);
    active_.file = std::move(file);
    active_.name = named.name;
    active_.number = segments_.add_own(named.name);
    active_.end = scan.end;
    active_.list = std::move(list);
    return true;
  }
  return false;
}

void DiskCache::seal() noexcept {
  const std::uint64_t size = seal_bytes(active_.list.size());
  bool sealed = false;
  if (used_bytes_ + size > most_bytes_.load(std::memory_order_relaxed)) return leave_active(false);
  try {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    const SegmentSeal last = make_segment_seal(directory_.fingerprint(), active_.end, active_.list.size());
    std::memcpy(bytes.data(), active_.list.data(), active_.list.size() * sizeof(ListedRecord));
    std::memcpy(bytes.data() + bytes.size() - sizeof last, &last, sizeof last);
    sealed = ::pwrite(active_.file.get(), bytes.data(), bytes.size(), static_cast<off_t>(active_.end)) ==
             static_cast<ssize_t>(bytes.size());
    if (!sealed) (void)!::ftruncate(active_.file.get(), static_cast<off_t>(active_.end));
  } catch (const std::bad_alloc&) {  // without a list, its records are found by walking
  }
  if (sealed) used_bytes_ += size;
  leave_active(sealed);
}

void DiskCache::leave_active(bool sealed) noexcept {
  if (!active_.file) return;
  segments_.end_own(active_.number, active_.end, sealed);
  active_.file.close();
  active_.list.clear();
}

bool DiskCache::remove_segment(const CacheDirectory::NamedSegment& named) {
  const os::OwnedDescriptor file = directory_.open_segment(named.name, false);
  if (!file || !CacheDirectory::claim(file) || !directory_.remove(named.name)) return false;
  segments_.remove(named.name);
  used_bytes_ -= std::min(used_bytes_, named.file_bytes);
  return true;
}

// Removes segments until `bytes` bytes fit: first those that are mostly dead because their objects were replaced, then,
// if the policy evicts, the least recently used.
bool DiskCache::make_room(std::uint64_t bytes) {
  const std::uint64_t most = most_bytes_.load(std::memory_order_relaxed);
  const auto fits = [&] { return bytes <= most && used_bytes_ <= most - bytes; };
  if (bytes > most) return false;
  for (const bool dead_only : {true, false}) {
    if (!dead_only && policy_.load(std::memory_order_relaxed) != CachePolicy::kRecent) break;
    for (auto named = listed_.begin(); named != listed_.end() && !fits();) {
      const auto known = segments_.known(named->name);
      const bool dead = !known || known->is_dead(named->file_bytes);
      const bool may = (!known || !known->own) && (!dead_only || dead);
      if (may && remove_segment(*named)) {
        named = listed_.erase(named);
      } else {
        ++named;
      }
    }
  }
  return fits();
}

}  // namespace headrace::cache

#include "cache/segment_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <set>
#include <string_view>

#include "base/clock.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kMaxOpen = 64;
constexpr std::uint64_t kTouchNs = 10'000'000'000;

}  // namespace

std::optional<RecordPlace> SegmentTable::find(const CacheKey& id) const noexcept {
  std::lock_guard lock(mutex_);
  return index_.find(id);
}

void SegmentTable::forget(const CacheKey& id, const RecordPlace& place) noexcept {
  std::lock_guard lock(mutex_);
  if (index_.erase(id, place)) end_record(place);
}

std::size_t SegmentTable::records() const noexcept {
  std::lock_guard lock(mutex_);
  return index_.size();
}

void SegmentTable::end_record(const RecordPlace& place) noexcept {
  std::uint64_t& live = segments_[place.segment - 1]->about.live_bytes;
  live -= std::min(live, record_bytes(place.data_bytes));
  newly_dead_bytes_.fetch_add(record_bytes(place.data_bytes), std::memory_order_relaxed);
}

void SegmentTable::note(Segment& segment, const ListedRecord& record) noexcept {
  std::optional<RecordPlace> replaced;
  if (!index_.put(record.id, {segment.about.number, record.unit, record.data_bytes, record.tag}, replaced)) return;
  segment.about.live_bytes += record_bytes(record.data_bytes);
  if (replaced) end_record(*replaced);
}

void SegmentTable::scan(Segment& segment, std::uint64_t size) noexcept {
  try {
    const os::OwnedDescriptor file = directory_.open_segment(segment.name, false);
    if (!file) return;
    const auto read = [&](std::uint64_t position, std::span<std::byte> out) -> std::size_t {
      const ssize_t count = ::pread(file.get(), out.data(), out.size(), static_cast<off_t>(position));
      return count > 0 ? static_cast<std::size_t>(count) : 0;
    };
    const SegmentScan found =
        scan_segment(read, size, directory_.fingerprint(), segment.about.end, [&](const ListedRecord& record) {
          note(segment, record);
          return true;
        });
    segment.about.ours = found.ours;
    segment.about.sealed = found.sealed;
    if (found.ours) segment.about.end = found.end;
  } catch (const std::bad_alloc&) {  // records that were not noted are not found
  }
}

void SegmentTable::refresh(std::span<const CacheDirectory::NamedSegment> listed) {
  std::set<std::string_view> names;
  for (const auto& named : listed) names.insert(named.name);
  std::lock_guard lock(mutex_);
  newly_dead_bytes_ = 0;
  bool any_removed = false;
  for (const auto& segment : segments_) {
    if (segment->removed || segment->about.own || names.contains(segment->name)) continue;
    segment->removed = any_removed = true;
    segment->file.reset();
    std::erase(opened_, segment->about.number);
    numbers_.erase(segment->name);
  }
  if (any_removed) {
    index_.erase_if([&](const RecordPlace& place) { return segments_[place.segment - 1]->removed; });
  }
  for (const auto& named : listed) {
    const auto found = numbers_.find(named.name);
    if (found != numbers_.end()) {
      Segment& segment = *segments_[found->second - 1];
      if (!segment.about.own && !segment.about.sealed && named.file_bytes > segment.about.end) {
        scan(segment, named.file_bytes);
      }
      continue;
    }
    auto segment = std::make_unique<Segment>();
    segment->name = named.name;
    segment->about.number = static_cast<std::uint32_t>(segments_.size() + 1);
    segments_.push_back(std::move(segment));
    numbers_[named.name] = segments_.back()->about.number;
    scan(*segments_.back(), named.file_bytes);
  }
}

// REQUIRES: mutex_ is held.
std::shared_ptr<const SegmentTable::File> SegmentTable::open(Segment& segment) noexcept {
  if (segment.removed) return nullptr;
  segment.used = ++uses_;
  if (segment.file != nullptr) return segment.file;
  try {
    if (opened_.size() >= kMaxOpen) {
      const auto oldest = std::min_element(opened_.begin(), opened_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return segments_[a - 1]->used < segments_[b - 1]->used;
      });
      segments_[*oldest - 1]->file.reset();  // closed when its last reader has finished
      opened_.erase(oldest);
    }
    opened_.reserve(kMaxOpen);
    os::OwnedDescriptor file = directory_.open_segment(segment.name, false);
    if (!file) return nullptr;
    segment.file = std::make_shared<const File>(File{std::move(file), directory_.path() + "/" + segment.name});
    opened_.push_back(segment.about.number);
    return segment.file;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::shared_ptr<const SegmentTable::File> SegmentTable::file_of(std::uint32_t number, bool& lacks) noexcept {
  std::lock_guard lock(mutex_);
  errno = 0;
  auto file = open(*segments_[number - 1]);
  lacks = file == nullptr && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
  return file;
}

void SegmentTable::touch(std::uint32_t number, const File& file) noexcept {
  const std::uint64_t now = base::now_ns();
  {
    std::lock_guard lock(mutex_);
    Segment& segment = *segments_[number - 1];
    if (segment.touched_ns != 0 && now - segment.touched_ns < kTouchNs) return;
    segment.touched_ns = now;
  }
  (void)::futimens(file.descriptor.get(), nullptr);
}

// Not for a segment that this process appends to: the next record would look like a change.
void SegmentTable::note_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version,
                                const os::FileIdentity& before) noexcept {
  if (os::recently_changed(before)) return;
  std::lock_guard lock(mutex_);
  Segment& segment = *segments_[place.segment - 1];
  if (segment.removed || segment.about.own) return;
  if (segment.checked != before) {
    index_.forget_checked(place.segment);
    segment.checked = before;
  }
  index_.note_checked(id, place, version);
}

std::shared_ptr<const SegmentTable::File> SegmentTable::checked_file(const CacheKey& id, const RecordPlace& place,
                                                                     std::uint64_t version,
                                                                     os::FileIdentity& now) noexcept {
  std::lock_guard lock(mutex_);
  if (!index_.is_checked(id, place, version)) return nullptr;
  Segment& segment = *segments_[place.segment - 1];
  int error = 0;
  auto file = open(segment);
  if (file == nullptr || !os::identify(file->descriptor.get(), now, error) || now != segment.checked) return nullptr;
  return file;
}

std::uint32_t SegmentTable::add_own(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) {
    segments_[found->second - 1]->about.own = true;
    return found->second;
  }
  auto segment = std::make_unique<Segment>();
  segment->name = name;
  segment->about.number = static_cast<std::uint32_t>(segments_.size() + 1);
  segment->about.own = segment->about.ours = true;
  segments_.push_back(std::move(segment));
  numbers_[name] = segments_.back()->about.number;
  return segments_.back()->about.number;
}

void SegmentTable::add_record(std::uint32_t number, const ListedRecord& record) noexcept {
  std::lock_guard lock(mutex_);
  note(*segments_[number - 1], record);
}

void SegmentTable::end_own(std::uint32_t number, std::uint64_t end, bool sealed) noexcept {
  std::lock_guard lock(mutex_);
  Known& about = segments_[number - 1]->about;
  about.own = false;
  about.end = end;
  about.sealed = sealed;
}

void SegmentTable::remove(const std::string& name) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return;
  const std::uint32_t number = found->second;
  Segment& segment = *segments_[number - 1];
  segment.removed = true;
  segment.file.reset();
  std::erase(opened_, number);
  numbers_.erase(found);
  index_.erase_if([&](const RecordPlace& place) { return place.segment == number; });
}

std::optional<SegmentTable::Known> SegmentTable::known(const std::string& name) const noexcept {
  std::lock_guard lock(mutex_);
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? std::nullopt : std::optional(segments_[found->second - 1]->about);
}

}  // namespace headrace::cache

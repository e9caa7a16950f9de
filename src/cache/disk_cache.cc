#include "cache/disk_cache.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <system_error>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fork.h"
#include "os/signals_blocked.h"

namespace headrace::cache {
namespace {

constexpr unsigned kServers = 4;
constexpr std::uint64_t kPatienceNs = 1'000'000'000;

struct CachesOfProcess {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<DiskCache>> by_directory;  // guarded by mutex
};

CachesOfProcess& caches_of_process() {
  static base::PerProcess<CachesOfProcess> caches;
  return caches.get();
}

// Reads the head and the data; returns how many bytes there were.
std::size_t read_record(int fd, std::uint64_t position, RecordHead& head, std::span<std::byte> data) noexcept {
  std::size_t done = 0;
  const std::size_t all = sizeof head + data.size();
  while (done < all) {
    iovec parts[2];
    int count = 0;
    if (done < sizeof head) parts[count++] = {reinterpret_cast<std::byte*>(&head) + done, sizeof head - done};
    const std::size_t in_data = done > sizeof head ? done - sizeof head : 0;
    if (in_data < data.size()) parts[count++] = {data.data() + in_data, data.size() - in_data};
    const ssize_t got = ::preadv(fd, parts, count, static_cast<off_t>(position + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

Result<std::shared_ptr<DiskCache>> DiskCache::open(const CacheOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(CacheDirectory directory, CacheDirectory::open(options.directory, true));
    CachesOfProcess& caches = caches_of_process();
    std::lock_guard lock(caches.mutex);
    std::weak_ptr<DiskCache>& known = caches.by_directory[{directory.device(), directory.inode()}];
    if (auto found = known.lock()) {
      // How much room there is under other limits shows once something is written.
      const bool same = found->most_bytes_.exchange(options.most_bytes) == options.most_bytes;
      if (found->policy_.exchange(options.policy) != options.policy || !same) found->room_ = ~std::uint64_t{0};
      return found;
    }
    // A forked child must not destroy its parent's cache: the threads do not exist there.
    std::shared_ptr<DiskCache> made(new DiskCache(std::move(directory), options),
                                    [generation = base::fork_generation()](DiskCache* cache) {
                                      if (generation == base::fork_generation()) delete cache;
                                    });
    HEADRACE_TRY(made->begin());
    known = made;
    return made;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

DiskCache::DiskCache(CacheDirectory directory, const CacheOptions& options)
    : directory_(std::move(directory)),
      hash_(directory_.secret()),
      segments_(directory_),
      most_bytes_(options.most_bytes),
      policy_(options.policy) {}

Status DiskCache::begin() {
  remove_foreign();
  HEADRACE_TRY(directory_.list(listed_));
  segments_.refresh(listed_);
  try {
    const os::SignalsBlocked blocked;
    threads_.reserve(kServers + 1);
    for (unsigned i = 0; i < kServers; ++i) threads_.emplace_back([this] { serve(); });
    threads_.emplace_back([this] { write_all(); });
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, Layer::kStore, "no thread for the cache directory " + directory_.path())
        .with_cause(error.what());
  }
  return {};
}

DiskCache::~DiskCache() {
  {
    std::lock_guard lock(write_mutex_);
    stopping_ = true;
  }
  to_write_.notify_all();
  {
    std::lock_guard lock(task_mutex_);
    serving_ = false;
  }
  task_added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// Removes files with segment names that do not belong to this directory, such as those of a lost secret: nobody can
// read them, and they take up space.
void DiskCache::remove_foreign() {
  const CacheDirectory::Lock held = directory_.lock(kPatienceNs);
  if (!held || !directory_.list(listed_).ok()) return;
  for (const auto& named : listed_) {
    const os::OwnedDescriptor file = directory_.open_segment(named.name, false);
    if (!file) continue;
    SegmentHead head;
    const SegmentHead own = make_segment_head(directory_.fingerprint(), 0);
    const bool ours = ::pread(file.get(), &head, sizeof head, 0) == static_cast<ssize_t>(sizeof head) &&
                      std::memcmp(head.magic, own.magic, sizeof head.magic) == 0 &&
                      head.fingerprint == own.fingerprint && named.file_bytes <= kMaxSegmentBytes;
    if (!ours && CacheDirectory::claim(file)) directory_.remove(named.name);
  }
}

void DiskCache::add_activity(const CacheDirectory& directory, DiskCacheReport& report) {
  CachesOfProcess& caches = caches_of_process();
  std::lock_guard lock(caches.mutex);
  const auto found = caches.by_directory.find({directory.device(), directory.inode()});
  const auto cache = found != caches.by_directory.end() ? found->second.lock() : nullptr;
  if (cache == nullptr) return;
  report.in_use = true;
  report.most_bytes = cache->most_bytes_;
  report.hits = cache->hits_;
  report.hit_bytes = cache->hit_bytes_;
  report.misses = cache->misses_;
  report.added_records = cache->added_;
  report.added_bytes = cache->added_bytes_;
  report.dropped_records = cache->dropped_;
  std::lock_guard writing(cache->write_mutex_);
  report.problem = cache->problem_;
}

void DiskCache::note_problem(const std::string& what, int error) noexcept {
  try {
    std::lock_guard lock(write_mutex_);
    if (!problem_.empty()) return;
    problem_ = what;
    if (error != 0) problem_ += ": " + std::generic_category().message(error);
  } catch (...) {  // only the message is lost
  }
}

bool DiskCache::read(const CacheKey& id, const RecordPlace& place, std::string_view version, std::uint64_t object_bytes,
                     std::span<std::byte> out, RecordHead& head) noexcept {
  bool lacks = false;
  const auto file = place.data_bytes <= out.size() ? segments_.file_of(place.segment, lacks) : nullptr;
  if (file == nullptr) {
    if (!lacks) segments_.forget(id, place);
    return false;
  }
  os::FileIdentity before;
  int error = 0;
  const bool identified = os::identify(file->descriptor.get(), before, error);
  const std::span<std::byte> data = out.first(place.data_bytes);
  const std::size_t got = read_record(file->descriptor.get(), place.unit * kSegmentUnit, head, data);
  bool right = got == sizeof head + data.size() && is_record(head) && head.id == id && head.data_bytes == data.size();
  if (right && base::crc32c(data.data(), data.size()) != head.data_crc) {
    right = false;
    try {
      note_problem("a record in " + directory_.path() + " is damaged; 'headrace cache verify' counts them", 0);
    } catch (const std::bad_alloc&) {
    }
  }
  if (right && !version.empty()) right = head.version_text() == version && head.object_bytes == object_bytes;
  if (!right) {
    segments_.forget(id, place);
    return false;
  }
  count_hit(data.size());
  if (identified) segments_.note_checked(id, place, hash_of(head.version_text(), head.object_bytes), before);
  if (policy_.load(std::memory_order_relaxed) == CachePolicy::kRecent) segments_.touch(place.segment, *file);
  return true;
}

void DiskCache::count_hit(std::uint64_t bytes) noexcept {
  hits_.fetch_add(1, std::memory_order_relaxed);
  hit_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

// Never 0. Keyed, so that whoever chooses versions cannot construct a collision.
std::uint64_t DiskCache::hash_of(std::string_view version, std::uint64_t object_bytes) const noexcept {
  return hash_.of(hash_.of(version), object_bytes, 0).low | 1;
}

bool DiskCache::find_checked(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
                             LocalRange& out) noexcept {
  if (policy_.load(std::memory_order_relaxed) == CachePolicy::kRecent) return false;
  const auto place = segments_.find(id);
  if (!place) return false;
  auto file = segments_.checked_file(id, *place, hash_of(version, object_bytes), out.identity);
  if (file == nullptr) return false;
  out.fd = file->descriptor.get();
  out.path = file->path.c_str();
  out.at = place->unit * kSegmentUnit + sizeof(RecordHead);
  out.bytes = place->data_bytes;
  out.object_bytes = object_bytes;
  out.file = std::move(file);
  count_hit(out.bytes);
  return true;
}

void DiskCache::submit(CacheTask& task) noexcept {
  task.next_task = nullptr;
  std::lock_guard lock(task_mutex_);
  (last_task_ != nullptr ? last_task_->next_task : first_task_) = &task;
  last_task_ = &task;
  task_added_.notify_one();  // under the lock: once the task has run, this object may be destroyed
}

void DiskCache::serve() noexcept {
  std::unique_lock lock(task_mutex_);
  for (;;) {
    task_added_.wait(lock, [&] { return first_task_ != nullptr || !serving_; });
    if (first_task_ == nullptr) return;
    CacheTask& task = *first_task_;
    first_task_ = task.next_task;
    if (first_task_ == nullptr) last_task_ = nullptr;
    lock.unlock();
    task.run();
    lock.lock();
  }
}

}  // namespace headrace::cache

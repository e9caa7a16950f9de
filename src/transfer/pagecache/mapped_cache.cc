#include "transfer/pagecache/mapped_cache.h"

#include <algorithm>
#include <bit>
#include <new>
#include <span>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/grow.h"
#include "base/trace.h"
#include "os/file_mapping.h"
#include "os/host_limits.h"
#include "os/page_buffer.h"
#include "os/page_cache.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWarmthAgeNs = 200 * kMs;
constexpr std::size_t kWarmthParts = 8;  // of a window, that are sampled
constexpr std::uint64_t kWarmthBytes = std::uint64_t{128} << 10;
// Recently used windows are not evicted. Otherwise a working set larger than the budget would be registered and
// unregistered for ever, which is slower than not registering it.
constexpr std::uint64_t kRecentNs = 2'000 * kMs;
constexpr std::uint64_t kIdleNs = 60'000 * kMs;
constexpr std::uint64_t kRetryNs = 1'000 * kMs;
// Registering holds a driver lock that every copy needs, and the lock is unfair. So a window is what registers in about
// a millisecond, and a pause after each lets copies through.
constexpr std::uint64_t kLargestWindow = std::uint64_t{64} << 20;
constexpr std::uint64_t kAmpleBytes = std::uint64_t{4} << 30, kAmpleNs = 10 * kMs;  // machine_has_room()
constexpr auto kPause = std::chrono::microseconds(100);
// While others copy and there are enough CPUs to read at the bus's speed without mappings, registering can wait. Less
// after small files: mapping them, without the driver's lock, takes as long as registering them.
constexpr auto kLongPause = std::chrono::milliseconds(8), kSmallFilesPause = std::chrono::milliseconds(1);
constexpr unsigned kManyCpus = 8;
// Small files arrive in great numbers; they are mapped when the rush is over.
constexpr auto kRush = std::chrono::milliseconds(2);
constexpr std::uint64_t kSmallFile = std::uint64_t{4} << 20;     // up to this size, files share registrations
constexpr std::uint64_t kSmallRegion = std::uint64_t{32} << 20;  // size of a shared registration
constexpr std::size_t kMaxFiles = 1 << 16;                       // remembered without a window
// Where threads read nearly as fast as the bus, registering bytes that are read once does not pay: a window is
// registered when its bytes are read again. With few CPUs, or little in flight, it pays as soon as a sixteenth has been
// read. It also pays after some hundred small reads, since each takes 1 us longer than from a window, which takes 1 ms
// to register.
constexpr std::uint64_t kAgainShift = 4, kSoonShift = 4, kSoonTimes = 400;

// Bytes registered by all caches of this process. Registrations that a forked child inherits do not count.
std::atomic<std::uint64_t>& process_bytes() noexcept {
  static std::atomic<std::uint64_t> generation{~std::uint64_t{0}}, bytes{0};
  const std::uint64_t now = base::fork_generation();
  if (generation.load(std::memory_order_relaxed) != now && generation.exchange(now) != now) bytes = 0;
  return bytes;
}

}  // namespace

MappedRegion::~MappedRegion() {
  if (device != nullptr) device->unregister_mapping(base, bytes);
  os::unmap(base, bytes);
}

std::uint64_t MappedFile::window_length(std::size_t index) const noexcept {
  const std::uint64_t start = index * window_bytes;
  return start >= identity.size_bytes ? 0 : std::min(window_bytes, identity.size_bytes - start);
}

MappedFile::WindowState& MappedFile::slot(std::size_t index) {
  if (index >= slots_.size()) slots_.resize(index + 1);
  return slots_[index];
}

MappedCache::MappedCache(const MappedBudget& budget, std::shared_ptr<NearThreads> near, unsigned cpus)
    : budget_(budget),
      window_bytes_(std::clamp(std::bit_floor(budget.bytes / 8 + 1), std::uint64_t{1} << 20, kLargestWindow)),
      mapping_budget_(os::mapping_limit() / 2),
      many_cpus_(cpus >= kManyCpus),
      near_(std::move(near)) {}

MappedCache::~MappedCache() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  process_bytes().fetch_sub(used_bytes_, std::memory_order_relaxed);
}

std::shared_ptr<MappedFile> MappedCache::file(const std::shared_ptr<device::Device>& device,
                                              const os::FileIdentity& identity) {
  const Key key{device.get(), identity.device, identity.inode};
  std::shared_ptr<MappedFile> old, found;
  {
    Shard& shard = shards_[KeyHash()(key) % shards_.size()];
    std::lock_guard lock(shard.mutex);
    std::shared_ptr<MappedFile>& entry = shard.files[key];
    if (entry != nullptr && entry->identity == identity) return entry;
    old = std::exchange(entry, nullptr);
    found = entry = std::make_shared<MappedFile>(device, identity, window_bytes_);
  }
  if (old != nullptr) drop_windows(*old);
  return found;
}

// The thread frees their regions later.
void MappedCache::drop_windows(MappedFile& file) {
  std::lock_guard lock(file.mutex_);
  file.dropped_ = true;
  for (MappedFile::WindowState& slot : file.slots_) slot.window.reset();
}

std::shared_ptr<MappedWindow> MappedCache::window(MappedFile& file, std::size_t index, std::uint64_t now_ns) {
  std::lock_guard lock(file.mutex_);
  if (index >= file.slots_.size()) return nullptr;
  const std::shared_ptr<MappedWindow>& window = file.slots_[index].window;
  if (window != nullptr) window->region->last_used_ns.store(now_ns, std::memory_order_relaxed);
  return window;
}

bool MappedCache::touch(const std::shared_ptr<MappedFile>& file, std::size_t index, std::uint64_t bytes,
                        const std::shared_ptr<os::FileHandle>& handle, const char* path, Worth worth, bool urgent) {
  const std::uint64_t length = file->window_length(index);
  if (length == 0 || budget_.bytes < length) return false;
  try {
    WindowRequest request{file, index, handle, {}, urgent};
    {
      std::lock_guard lock(file->mutex_);
      MappedFile::WindowState& slot = file->slot(index);
      slot.touched_bytes += bytes;
      if (worth == Worth::kSoon) ++slot.touched_times;
      if (slot.state != MappedFile::State::kNone || file->dropped_) return false;
      const bool soon = worth == Worth::kSoon;
      const std::uint64_t enough = many_cpus_ && !soon ? length + (length >> kAgainShift) : length >> kSoonShift;
      const bool often = soon && slot.touched_times >= kSoonTimes;
      if (worth != Worth::kNow && slot.touched_bytes < enough && !often) return false;
      if (slot.retry_ns != 0 && base::now_ns() < slot.retry_ns) return false;
      if (handle == nullptr) request.path = path;
      slot.state = MappedFile::State::kQueued;
    }
    std::unique_lock lock(mutex_);
    bool idle = false;
    try {
      if (!started_) {
        const NearThreads::StartsThreads starting;
        thread_ = std::thread([this] { run(); });
        started_ = true;
      }
      requests_.push_back(std::move(request));
      idle = requests_.size() == 1;
    } catch (const std::exception&) {
      std::lock_guard file_lock(file->mutex_);
      file->slots_[index].state = MappedFile::State::kNone;
      return false;
    }
    lock.unlock();
    if (idle) changed_.notify_all();
    return true;
  } catch (const std::exception&) {  // no memory: the range is read by other means
    return false;
  }
}

void MappedCache::note_read(const std::shared_ptr<MappedFile>& file, std::size_t index, std::uint64_t bytes,
                            const std::shared_ptr<os::FileHandle>& handle, const char* path, Worth worth) {
  const bool urgent = worth == Worth::kSoon;
  if (!touch(file, index, bytes, handle, path, worth, urgent)) return;
  for (std::size_t ahead = 1; ahead <= kWindowsAhead; ++ahead) {
    (void)touch(file, index + ahead, 0, handle, path, Worth::kNow, urgent);
  }
}

// State changes are made without mutex_; locking it once orders them before the waiters' next check.
void MappedCache::announce() {
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

void MappedCache::wait(MappedFile& file, std::size_t index) {
  waiters_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  changed_.notify_all();
  changed_.wait(lock, [&] {
    std::lock_guard file_lock(file.mutex_);
    return stopping_ || !started_ || index >= file.slots_.size() ||
           file.slots_[index].state != MappedFile::State::kQueued;
  });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

Warmth MappedCache::warmth(MappedFile& file, std::size_t index, int fd, std::uint64_t now_ns) {
  {
    std::lock_guard lock(file.mutex_);
    if (index < file.slots_.size()) {
      const MappedFile::WindowState& slot = file.slots_[index];
      if (slot.warmth != Warmth::kUnknown && now_ns - slot.warmth_ns < kWarmthAgeNs) return slot.warmth;
    }
  }
  // Counting the pages of a whole window takes as long as copying a tenth of it. Users of the answer read so that a
  // page that turns out to be missing is noticed.
  const std::uint64_t length = file.window_length(index), start = index * file.window_bytes;
  const std::uint64_t part = length / kWarmthParts;
  std::size_t full = 0, empty = 0;
  for (std::size_t i = 0; i < kWarmthParts; ++i) {
    const std::uint64_t bytes = std::clamp(part, std::uint64_t{1}, kWarmthBytes);
    // At a pseudo-random place in its part, since resident pages may form a pattern.
    const std::uint64_t mixed = (index * kWarmthParts + i + 1) * 0x9e3779b97f4a7c15u;
    const std::uint64_t at = i * part + (part > bytes ? (mixed >> 32) % (part - bytes) : 0);
    const os::PageCacheShare pages = os::page_cache_share(fd, start + at, std::min(bytes, length));
    if (pages.witness == os::CacheWitness::kNone) break;
    full += pages.resident_pages == pages.pages ? 1 : 0;
    empty += pages.resident_pages == 0 ? 1 : 0;
    if (full != i + 1 && empty != i + 1) break;
  }
  const Warmth warmth = full == kWarmthParts    ? Warmth::kWarm
                        : empty == kWarmthParts ? Warmth::kCold
                        : full + empty == 0     ? Warmth::kUnknown
                                                : Warmth::kMixed;
  set_warmth(file, index, warmth, now_ns);
  return warmth;
}

void MappedCache::set_warmth(MappedFile& file, std::size_t index, Warmth warmth, std::uint64_t now_ns) {
  try {
    std::lock_guard lock(file.mutex_);
    MappedFile::WindowState& slot = file.slot(index);
    slot.warmth = warmth;
    slot.warmth_ns = now_ns;
  } catch (const std::bad_alloc&) {  // determined again next time
  }
}

std::string MappedCache::note() const {
  std::lock_guard lock(mutex_);
  return note_;
}

void MappedCache::set_note(std::string note) {
  std::lock_guard lock(mutex_);
  note_ = std::move(note);
}

std::string MappedCache::budget_note() const {
  std::string note = "mapped path: a budget is used up: " + std::to_string(budget_.bytes >> 20) + " MiB or " +
                     std::to_string(mapping_budget_) + " mappings of the Context";
  if (budget_.process_bytes != ~std::uint64_t{0}) {
    note += ", " + std::to_string(budget_.process_bytes >> 20) + " MiB of the process";
  }
  if (budget_.machine_bytes != ~std::uint64_t{0}) {
    note += ", " + std::to_string(budget_.machine_bytes >> 20) + " MiB pinned on the machine";
  }
  if (budget_.groups) note += ", half of a control group's room for page cache, mapped by its processes";
  return note;
}

std::uint64_t MappedCache::small_limit() const noexcept { return std::min(kSmallFile, window_bytes_); }

void MappedCache::run() {
  trace::name_thread("mapper");
  NearThreads::Thread self(near_);
  std::vector<WindowRequest> requests;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto due = [&] { return stopping_ || !requests_.empty(); };
      if (kept_.empty() && retired_.empty()) {
        changed_.wait(lock, due);
      } else {
        changed_.wait_for(lock, std::chrono::seconds(1), due);
      }
      // Wait until no request has been added for a while.
      for (std::size_t seen = 0; seen != requests_.size() && requests_.back().file->small(small_limit());) {
        seen = requests_.size();
        if (changed_.wait_for(lock, kRush, [&] { return stopping_; })) break;
      }
      if (stopping_) break;
      requests.swap(requests_);
    }
    self.follow();
    try {
      serve(requests);
    } catch (const std::bad_alloc&) {  // requests that are left are refused for now
    }
    for (WindowRequest& request : requests) {
      if (request.file != nullptr) refuse(request, false, kRetryNs);
    }
    requests.clear();
    announce();
    try {
      (void)release_idle(kIdleNs);
      // Processes of the group may need more memory for themselves than before.
      if (!kept_.empty() && !groups_have_room(0)) (void)make_room(0, 0);
    } catch (const std::bad_alloc&) {  // retried the next time
    }
  }
  kept_.clear();
  retired_.clear();
}

// Lets copies at the driver. A waiting thread needs its window soon, too.
void MappedCache::pause(bool urgent, std::chrono::milliseconds others_copy) {
  const std::uint64_t traffic = traffic_.load(std::memory_order_relaxed);
  const bool others = traffic != seen_traffic_;
  seen_traffic_ = traffic;
  if (!others || !many_cpus_ || urgent || waiters_.load(std::memory_order_relaxed) != 0) {
    std::this_thread::sleep_for(kPause);
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, others_copy, [&] { return stopping_ || waiters_.load(std::memory_order_relaxed) != 0; });
}

// A served request has no file any more.
void MappedCache::serve(std::vector<WindowRequest>& requests) {
  const auto small_end = std::stable_partition(requests.begin(), requests.end(), [&](const WindowRequest& request) {
    return request.file->small(small_limit());
  });
  for (auto it = small_end; it != requests.end(); ++it) {
    const bool urgent = it->urgent;
    serve_large(*it);
    announce();
    pause(urgent, kLongPause);
  }
  for (auto it = requests.begin(); it != small_end;) {
    std::uint64_t bytes = 0;
    auto end = it;
    for (; end != small_end && bytes < kSmallRegion && end->file->device == it->file->device; ++end) {
      bytes += base::align_up(end->file->identity.size_bytes, std::uint64_t{os::page_bytes()});
    }
    serve_small({it, end});
    announce();
    pause(false, kSmallFilesPause);
    it = end;
  }
}

// Returns an errno: ESTALE if the file has changed, ENODATA if too little of it is in the page cache.
int MappedCache::map(WindowRequest& request, std::byte* at, std::uint64_t bytes) {
  os::FileHandle opened;
  if (request.handle == nullptr) {
    if (Status status = os::FileHandle::open(request.path, {}, opened); !status.ok()) {
      return status.system_error() != 0 ? status.system_error() : ESTALE;
    }
  }
  const os::FileHandle& handle = request.handle != nullptr ? *request.handle : opened;
  os::FileIdentity now;
  int error = 0;
  if (!os::identify(handle.fd(), now, error)) return error;
  if (now != request.file->identity) return ESTALE;
  const std::uint64_t offset = request.index * request.file->window_bytes;
  const std::uint64_t length = request.file->window_length(request.index);
  if (!handle.in_memory()) {
    const os::PageCacheShare pages = os::page_cache_share(handle.fd(), offset, length);
    // Registering would read missing pages from the disk.
    if (!os::nearly_cached(pages.resident_pages, pages.pages)) return ENODATA;
  }
  const int mapped = os::map_file_at(at, static_cast<std::size_t>(bytes), handle.fd(), offset);
  // Fills page tables here, without the driver's lock; a failure shows again when registering. Where control groups
  // count mapped pages, the pages must be mapped before the count is read.
  if (mapped == 0 && (length > kSmallFile || budget_.groups)) os::populate(at, static_cast<std::size_t>(bytes));
  return mapped;
}

void MappedCache::refuse(WindowRequest& request, bool permanently, std::uint64_t retry_in_ns) {
  {
    std::lock_guard lock(request.file->mutex_);
    MappedFile::WindowState& slot = request.file->slots_[request.index];
    slot.state = permanently ? MappedFile::State::kRefused : MappedFile::State::kNone;
    slot.retry_ns = base::now_ns() + retry_in_ns;
  }
  request.file.reset();
}

void MappedCache::serve_large(WindowRequest& request) {
  const std::uint64_t length = request.file->window_length(request.index);
  const std::uint64_t bytes = base::align_up(length, std::uint64_t{os::page_bytes()});
  if (os::recently_changed(request.file->identity)) return refuse(request, false, 100 * kMs);
  if (!make_room(bytes, 1)) {
    set_note(budget_note());
    return refuse(request, false, kRetryNs);
  }
  Placed placed{&request, os::reserve_addresses(static_cast<std::size_t>(bytes)), length, bytes};
  if (placed.at == nullptr) return refuse(request, false, kRetryNs);
  if (map(request, placed.at, bytes) != 0) {
    os::unmap(placed.at, static_cast<std::size_t>(bytes));
    return refuse(request, false, kRetryNs);
  }
  // Others may have mapped pages meanwhile: whichever checks last sees all of them.
  if (!groups_have_room(0)) {
    os::unmap(placed.at, static_cast<std::size_t>(bytes));
    set_note(budget_note());
    return refuse(request, false, kRetryNs);
  }
  register_placed({&placed, 1});
}

void MappedCache::serve_small(std::span<WindowRequest> requests) {
  const std::uint64_t page = os::page_bytes();
  std::uint64_t total = 0;
  for (const WindowRequest& request : requests) total += base::align_up(request.file->identity.size_bytes, page);
  std::vector<Placed> placed;
  placed.reserve(requests.size());
  if (!make_room(total, requests.size())) {
    set_note(budget_note());
    return;  // the caller refuses the rest
  }
  std::byte* base = os::reserve_addresses(static_cast<std::size_t>(total));
  if (base == nullptr) return;
  std::byte* at = base;
  for (WindowRequest& request : requests) {
    const std::uint64_t bytes = base::align_up(request.file->identity.size_bytes, page);
    if (os::recently_changed(request.file->identity)) {
      refuse(request, false, 100 * kMs);
    } else if (bytes == 0 || map(request, at, bytes) != 0) {
      refuse(request, false, kRetryNs);
    } else {
      placed.push_back({&request, at, request.file->identity.size_bytes, bytes});
      at += bytes;
    }
  }
  if (!groups_have_room(0)) {  // as for large ones
    os::unmap(base, static_cast<std::size_t>(total));
    set_note(budget_note());
    return;
  }
  if (at != base + total) os::unmap(at, static_cast<std::size_t>(base + total - at));
  if (!placed.empty()) register_placed(placed);
}

// Registers adjacent mappings in one call. If that is refused, tries each half, so that one bad file affects only
// itself.
void MappedCache::register_placed(std::span<Placed> placed) {
  auto region = std::make_shared<MappedRegion>();
  region->base = placed.front().at;
  region->mappings = placed.size();
  for (const Placed& one : placed) region->bytes += static_cast<std::size_t>(one.mapped_bytes);
  const std::shared_ptr<device::Device>& device = placed.front().request->file->device;
  trace::Span span(trace::Stage::kRegister, region->bytes);
  const Status status = device->register_mapping(region->base, region->bytes);
  if (status.ok()) {
    region->device = device;
    region->last_used_ns = base::now_ns();
    return publish(placed, std::move(region));
  }
  set_note("mapped path: " + status.to_string());
  const bool permanently = status.code() == Code::kUnsupported || status.code() == Code::kDeviceLost;
  if (placed.size() == 1 || permanently) {
    for (Placed& one : placed) refuse(*one.request, permanently, 10 * kRetryNs);
    return;  // the region unmaps them
  }
  region->base = nullptr;
  register_placed(placed.first(placed.size() / 2));
  register_placed(placed.subspan(placed.size() / 2));
}

void MappedCache::publish(std::span<Placed> placed, std::shared_ptr<MappedRegion> region) {
  Kept kept{region, {}};
  kept.windows.reserve(placed.size());
  for (const Placed& one : placed) kept.windows.emplace_back(one.request->file, one.request->index);
  base::make_room(kept_, 1);
  used_bytes_.fetch_add(region->bytes, std::memory_order_relaxed);
  process_bytes().fetch_add(region->bytes, std::memory_order_relaxed);
  mappings_ += region->mappings;
  kept_.push_back(std::move(kept));
  for (const Placed& one : placed) {
    auto window = std::make_shared<MappedWindow>(MappedWindow{region, one.at, one.bytes});
    MappedFile& file = *one.request->file;
    {
      std::lock_guard lock(file.mutex_);
      MappedFile::WindowState& slot = file.slots_[one.request->index];
      slot.state = MappedFile::State::kReady;
      if (!file.dropped_) slot.window = std::move(window);
    }
    one.request->file.reset();
  }
}

// Removes the region's windows from their files. The region is freed once nothing uses it.
void MappedCache::forget(Kept& kept) {
  for (const auto& [weak, index] : kept.windows) {
    const std::shared_ptr<MappedFile> file = weak.lock();
    if (file == nullptr) continue;
    std::lock_guard lock(file->mutex_);
    MappedFile::WindowState& slot = file->slots_[index];
    if (slot.window == nullptr || slot.window->region != kept.region) continue;
    slot.window.reset();
    slot.state = MappedFile::State::kNone;
    slot.touched_bytes = 0;
  }
  retired_.push_back(std::move(kept.region));
}

bool MappedCache::release_idle(std::uint64_t unused_ns) {
  const std::uint64_t now = base::now_ns();
  base::make_room(retired_, kept_.size());
  std::erase_if(kept_, [&](Kept& kept) {
    const std::uint64_t used = kept.region->last_used_ns.load(std::memory_order_relaxed);
    // Only this thread holds a region all of whose files have changed.
    if (kept.region.use_count() > 1 && now - std::min(used, now) < unused_ns) return false;
    forget(kept);
    return true;
  });
  bool freed = false;
  std::erase_if(retired_, [&](const std::shared_ptr<MappedRegion>& region) {
    if (region.use_count() > 1) return false;
    used_bytes_.fetch_sub(region->bytes, std::memory_order_relaxed);
    process_bytes().fetch_sub(region->bytes, std::memory_order_relaxed);
    mappings_ -= region->mappings;
    freed = true;
    return true;
  });
  for (Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    if (shard.files.size() <= kMaxFiles / shards_.size()) continue;
    std::erase_if(shard.files, [](const auto& entry) {
      std::lock_guard file_lock(entry.second->mutex_);
      return std::all_of(entry.second->slots_.begin(), entry.second->slots_.end(),
                         [](const MappedFile::WindowState& slot) {
                           return slot.window == nullptr && slot.state != MappedFile::State::kQueued;
                         });
    });
  }
  return freed;
}

// Reading the kernel's count takes tens of microseconds. Where gigabytes are left the answer is reused briefly, since
// all drivers together register less than that meanwhile.
bool MappedCache::machine_has_room(std::uint64_t bytes) {
  if (budget_.machine_bytes == ~std::uint64_t{0}) return true;
  const std::uint64_t now = base::now_ns();
  if (now < ample_until_ns_) return true;
  const std::uint64_t pinned = os::pinned_bytes();
  const std::uint64_t left = budget_.machine_bytes - std::min(budget_.machine_bytes, pinned);
  if (left >= kAmpleBytes) ample_until_ns_ = now + kAmpleNs;
  return pinned <= budget_.machine_bytes && bytes <= left;
}

// Whether the control groups allow `bytes` more than are mapped now.
bool MappedCache::groups_have_room(std::uint64_t bytes) const noexcept {
  if (!budget_.groups) return true;
  try {
    const auto groups = budget_.groups();
    return std::all_of(groups.begin(), groups.end(), [bytes](const os::MemoryGroups::PageCache& cache) {
      const std::uint64_t most = cache.room_bytes / 2;
      return cache.mapped_bytes <= most && bytes <= most - cache.mapped_bytes;
    });
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Evicts the least recently used windows, but none in recent use.
bool MappedCache::make_room(std::uint64_t bytes, std::size_t mappings) {
  const auto fits = [&] {
    const auto within = [bytes](std::uint64_t used, std::uint64_t most) {
      return used <= most && bytes <= most - used;
    };
    return within(used_bytes_, budget_.bytes) && mappings_ + mappings <= mapping_budget_ &&
           within(process_bytes().load(std::memory_order_relaxed), budget_.process_bytes) && machine_has_room(bytes) &&
           groups_have_room(bytes);
  };
  while (!fits()) {
    const std::uint64_t now = base::now_ns();
    std::uint64_t longest = 0;
    for (const Kept& kept : kept_) {
      const std::uint64_t used = kept.region->last_used_ns.load(std::memory_order_relaxed);
      longest = std::max(longest, now - std::min(used, now));
    }
    if (longest < kRecentNs || !release_idle(longest)) break;
  }
  return fits();
}

}  // namespace headrace::transfer

#include "transfer/pagecache/router.h"

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "base/clock.h"
#include "os/file_mapping.h"
#include "os/file_read.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kSplitBytes = std::uint64_t{128} << 10;  // partly cached ranges are split down to this size
// Sequential ranges with at most this in flight do not keep a disk busy; the kernel's read-ahead does.
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{512} << 10;
// With at most kSlowBytes in flight, reading through the page cache is slower by half than from a registered
// window. Up to kMeasuredBytes it depends on the machine, so the speed is measured over some bytes.
constexpr std::uint64_t kSlowBytes = std::uint64_t{1} << 20, kMeasuredBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kPaceBytes = std::uint64_t{8} << 20;
constexpr double kSlowBytesPerNs = 9;
// If this many cached bytes are in flight, in ranges of at least the second size, several threads copy faster than one.
constexpr std::uint64_t kSharedBytes = std::uint64_t{256} << 10, kMinSharedBytes = std::uint64_t{16} << 10;
// After a file's first range it is not known yet what follows.
constexpr std::uint64_t kFirstReadAheadBytes = std::uint64_t{64} << 10;
// Where nothing is mapped, a file's identity is only a hint: knowledge of its pages is kept for longer than this
// anyway.
constexpr std::uint64_t kIdentityNs = 10'000'000;

// Hash of a file, regardless of its version; never 0.
std::uint64_t number_of(const os::FileIdentity& file) noexcept {
  const std::uint64_t mixed = (file.device ^ (file.inode * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
  return (mixed ^ (mixed >> 32)) | 1;
}

}  // namespace

// A failed attempt to read cached pages starts read-ahead, with which a direct read would then compete. So the kernel
// is queried first, until enough successive ranges were cached that querying is a waste. If the kernel does not answer,
// attempts are made until several in a row fail, and occasionally after that.
Way Router::choose(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  constexpr int kStreak = 4;
  constexpr unsigned kRetryEvery = 8;
  if (!uses_cache()) return Way::kDirect;
  if (cached_streak_.load(std::memory_order_relaxed) >= kStreak) return Way::kPageCache;
  switch (os::residency(fd, offset, bytes)) {
    case os::Residency::kCached:
      // If a page is missing after all, the attempt notices that and has it read into the cache; past the cache the
      // range would never become completely cached.
      return Way::kPageCache;
    case os::Residency::kPartly:
    case os::Residency::kNotCached:
      cached_streak_.store(0, std::memory_order_relaxed);
      return Way::kDirect;
    case os::Residency::kUnknown:
      break;
  }
  if (cold_streak_.load(std::memory_order_relaxed) < kStreak) return Way::kPageCache;
  return probe_turn_.fetch_add(1, std::memory_order_relaxed) % kRetryEvery == 0 ? Way::kPageCache : Way::kDirect;
}

void Router::was_cached() noexcept {
  cached_streak_.fetch_add(1, std::memory_order_relaxed);
  cold_streak_.store(0, std::memory_order_relaxed);
}

Way Router::was_not_cached() noexcept {
  cached_streak_.store(0, std::memory_order_relaxed);
  cold_streak_.fetch_add(1, std::memory_order_relaxed);
  return policy_.when_missing;
}

bool Router::goes_direct(int direct_fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const bool refusals = any_refusal_.load(std::memory_order_relaxed);
  if (!keeps_cached() && !refusals) return true;
  os::FileIdentity identity;
  int error = 0;
  if (!os::identify(direct_fd, identity, error)) return true;
  const std::uint64_t number = number_of(identity);
  if (refusals && refusals_[number % kRefusals].load(std::memory_order_relaxed) == number) return false;
  bool prefetch = false;
  if (!keep_cached(identity, offset, bytes, prefetch)) return true;
  if (prefetch) ReuseTracker::prefetch(direct_fd, offset, bytes);
  return false;
}

void Router::refuse_direct(int fd) noexcept {
  os::FileIdentity identity;
  int error = 0;
  if (!os::identify(fd, identity, error)) return;
  const std::uint64_t number = number_of(identity);
  refusals_[number % kRefusals].store(number, std::memory_order_relaxed);
  any_refusal_.store(true, std::memory_order_relaxed);
}

std::shared_ptr<MappedFile> Router::find_windows(int fd, const os::FileIdentity* known, std::uint64_t begin,
                                                 std::uint64_t end, std::vector<std::shared_ptr<MappedWindow>>& out) {
  out.clear();
  os::FileIdentity identity;
  int error = 0;
  if (known != nullptr) {
    identity = *known;
  } else if (!os::identify(fd, identity, error)) {
    return nullptr;
  }
  // This version of the file, whatever was mapped before.
  std::shared_ptr<MappedFile> file = mapped_.file(device_, identity);
  const std::uint64_t window_bytes = file->window_bytes, now = base::now_ns();
  for (std::uint64_t at = begin; at < end;) {
    const auto index = static_cast<std::size_t>(at / window_bytes);
    std::shared_ptr<MappedWindow> window = end <= identity.size_bytes ? mapped_.window(*file, index, now) : nullptr;
    if (window == nullptr || window->bytes < std::min(end - index * window_bytes, window_bytes)) {
      out.clear();
      break;
    }
    out.push_back(std::move(window));
    at = (index + 1) * window_bytes;
  }
  return file;
}

void Router::note_unmapped(const std::shared_ptr<MappedFile>& file, std::uint64_t offset, std::uint64_t bytes,
                           const std::shared_ptr<os::FileHandle>& handle, const char* path, MappedCache::Worth worth) {
  for (std::uint64_t at = offset, end = offset + bytes; at < end;) {
    const std::uint64_t index = at / file->window_bytes, stop = std::min(end, (index + 1) * file->window_bytes);
    mapped_.note_read(file, static_cast<std::size_t>(index), stop - at, handle, path, worth);
    at = stop;
  }
}

void Notes::add(std::string_view what, std::string_view why) noexcept {
  try {
    std::string text = std::string(what).append(why).append("\n");
    if (text_.find(text) == std::string::npos) text_ += text;
  } catch (const std::bad_alloc&) {  // only a remark
  }
}

bool Router::direct_allowed(os::FileHandle& file) {
  if (engine_failed_) return false;
  if (!file.has_buffered()) return file.direct_fd() >= 0;
  if (!policy_.allow_direct) return false;
  if (file.on_network() && !policy_.network_direct) return false;
  if (file.direct_fd() >= 0) return true;
  if (!file.in_memory()) notes_.add("direct path: the file system refuses O_DIRECT for ", file.path());
  return false;
}

void Router::refuse_direct(os::FileHandle& file) {
  file.give_up_direct();
  notes_.add("direct path: the file system accepts O_DIRECT but rejects the transfers: ", file.path());
}

// Checks a file's identity once per round; each wave and each new request begins a round. The version of the file
// decides which windows may be used. A device that uses host memory has no windows, and a single cached read takes
// little longer than the query, so its identity is reused for a while.
void Router::check_identity(RoutedFile& file) {
  if (file.checked_round == round_ && file.mapped != nullptr) return;
  file.now_ns = base::now_ns();
  file.checked_round = round_;
  if (!policy_.staged && file.mapped != nullptr && file.now_ns - file.identified_ns < kIdentityNs) return;
  os::FileIdentity identity;
  int error = 0;
  ++system_calls_;
  file.identified_ns = file.now_ns;
  if (!os::identify(file.handle->fd(), identity, error)) {
    file.mapped.reset();
    return;
  }
  if (file.mapped == nullptr || !(file.mapped->identity == identity)) {
    file.mapped = mapped_.file(device_, identity);
    file.seen.clear();
  }
}

const MappedWindow* Router::window(RoutedFile& file, std::size_t index, const WaveWindows& windows) {
  if (index >= file.seen.size()) file.seen.resize(index + 1);
  RoutedFile::Seen& seen = file.seen[index];
  if (seen.wave == windows.wave) return seen.window;
  std::shared_ptr<MappedWindow> window = mapped_.window(*file.mapped, index, file.now_ns);
  if (window == nullptr && policy_.path == Path::kMapped) {
    const auto ask = [&](std::size_t which) {
      return mapped_.touch(file.mapped, which, 0, file.handle, nullptr, MappedCache::Worth::kNow);
    };
    // The next ones are ready when a sequential reader reaches them.
    for (std::size_t ahead = 0; ahead <= MappedCache::kWindowsAhead; ++ahead) ask(index + ahead);
    mapped_.wait(*file.mapped, index);
    window = mapped_.window(*file.mapped, index, file.now_ns);
  }
  seen = {windows.wave, window.get()};
  if (window != nullptr) windows.held->push_back(std::move(window));
  return seen.window;
}

// Whether a range should be read through the page cache even if it is not there. A direct read reads whole blocks,
// caches nothing for the neighbours of a small range, and has no read-ahead. Many reads at a time are direct all the
// same, since more of them can be in flight than there are threads. `beside`: number of ranges in flight or about to
// be.
bool Router::small_read(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside) const {
  if (policy_.path != Path::kAuto || bytes > kReadAheadBytes) return false;
  const bool continues = offset - file.sequential_end < kPageBytes;
  const std::uint64_t most = file.sequential_end != 0 ? kReadAheadBytes : kFirstReadAheadBytes;
  return continues ? bytes * beside <= most : bytes < kPageBytes && beside == 1;
}

Route Router::choose(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside,
                     const WaveWindows* windows) {
  if (!file.handle->has_buffered() && !policy_.skip_io) {
    return {direct_allowed(*file.handle) ? Way::kDirect : Way::kPageCache, bytes};
  }
  // Without I/O nothing is taken from a mapping either: the staging memory's old bytes are copied.
  if (policy_.path == Path::kBuffered || policy_.skip_io) return {Way::kPageCache, bytes};
  if (policy_.path == Path::kDirect) {
    return {direct_allowed(*file.handle) ? Way::kDirect : Way::kPageCache, bytes};
  }
  bool small = small_read(file, offset, bytes, beside);
  const bool shared = small && bytes >= kMinSharedBytes && bytes * beside > kSharedBytes;
  if (small && !policy_.staged && !shared) return {.way = Way::kPageCache, .bytes = bytes, .small = true};
  check_identity(file);
  if (shared && file.mapped != nullptr) {
    const auto index = static_cast<std::size_t>(offset / file.mapped->window_bytes);
    small = mapped_.warmth(*file.mapped, index, file.handle->fd(), file.now_ns) != Warmth::kWarm;
  }
  if (windows != nullptr && file.handle->is_regular() && file.mapped != nullptr && policy_.allow_mapped) {
    const std::uint64_t window_bytes = file.mapped->window_bytes;
    const std::size_t index = static_cast<std::size_t>(offset / window_bytes);
    if (const MappedWindow* window = this->window(file, index, *windows); window != nullptr) {
      const std::uint64_t within = offset % window_bytes;
      if (within < window->bytes) return {Way::kMapped, std::min(bytes, window->bytes - within), window->data + within};
    }
  }
  if (policy_.path == Path::kMapped) return {Way::kPageCache, bytes};
  if (small) return {.way = Way::kPageCache, .bytes = bytes, .small = true};
  return choose_unmapped(file, offset, bytes);
}

Route Router::choose_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes) {
  Route route{Way::kPageCache, bytes};
  const bool direct = direct_allowed(*file.handle);
  if (file.mapped == nullptr || !file.handle->is_regular()) {
    route.way = direct ? Way::kDirect : Way::kPageCache;
    return route;
  }
  const std::uint64_t window_bytes = file.mapped->window_bytes;
  const auto index = static_cast<std::size_t>(offset / window_bytes);
  route.bytes = std::min(bytes, (index + 1) * window_bytes - offset);
  if (direct) {
    switch (mapped_.warmth(*file.mapped, index, file.handle->fd(), file.now_ns)) {
      case Warmth::kCold:
        route.way = Way::kDirect;
        return route;
      case Warmth::kWarm:
      case Warmth::kUnknown:
        route.pages_resident = false;
        break;
      case Warmth::kMixed: {
        // The longest prefix of the range that is nearly all cached, or not cached at all.
        for (std::uint64_t length = route.bytes;; length = base::align_up(length / 2, kSplitBytes)) {
          route.bytes = length = std::min(length, route.bytes);
          ++system_calls_;
          const os::Residency found = os::residency(file.handle->fd(), offset, length);
          route.pages_resident = found != os::Residency::kUnknown;
          if (!route.pages_resident || found == os::Residency::kCached) break;
          if (found == os::Residency::kNotCached || length <= kSplitBytes) {
            route.way = Way::kDirect;
            break;
          }
        }
        return route;
      }
    }
  }
  return route;
}

bool Router::keeps_cached() const noexcept {
  return policy_.path == Path::kAuto && policy_.cache_reread && !policy_.skip_io;
}

bool Router::keep_cached(const os::FileIdentity& identity, std::uint64_t offset, std::uint64_t bytes,
                         bool& prefetch) noexcept {
  if (!keeps_cached()) return false;
  // Whole pages are read, however few bytes of them are wanted.
  const os::WidenedRange pages = os::widen(offset, bytes, kPageBytes);
  bool keep = true;
  prefetch = false;
  for (std::uint64_t at = pages.offset_bytes, end = at + pages.length_bytes; at < end;) {
    const std::uint64_t stop = std::min(end, (at / ReuseTracker::kGranuleBytes + 1) * ReuseTracker::kGranuleBytes);
    const auto advice = reuse_.note(identity, at, stop - at);
    keep = keep && advice != ReuseTracker::Advice::kDirect;
    prefetch = prefetch || advice == ReuseTracker::Advice::kPrefetch;
    at = stop;
  }
  prefetch = prefetch && keep;
  return keep;
}

bool Router::keep_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& prefetch) {
  return file.mapped != nullptr && file.handle->is_regular() &&
         keep_cached(file.mapped->identity, offset, bytes, prefetch);
}

Way Router::was_not_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& prefetch) {
  if (file.mapped != nullptr) {
    const auto index = static_cast<std::size_t>(offset / file.mapped->window_bytes);
    mapped_.set_warmth(*file.mapped, index, Warmth::kMixed, base::now_ns());
  }
  return keep_cached(file, offset, bytes, prefetch) ? Way::kPageCache : policy_.when_missing;
}

// Counts bytes that were read by other means; mapping them may pay later.
void Router::count_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t under_way) {
  if (!policy_.staged || file.mapped == nullptr || policy_.path != Path::kAuto || !policy_.allow_mapped) return;
  bool slow = under_way <= kSlowBytes;
  if (!slow && under_way <= kMeasuredBytes) {
    RoutedFile::Pace& pace = file.pace;
    pace.bytes += bytes;
    if (pace.started_ns == 0 || pace.bytes >= kPaceBytes) {
      const std::uint64_t now = base::now_ns();
      const double took = static_cast<double>(now - pace.started_ns);
      pace = {now, 0, pace.started_ns != 0 && static_cast<double>(pace.bytes) < kSlowBytesPerNs * took};
    }
    slow = pace.slow;
  }
  const auto worth = slow ? MappedCache::Worth::kSoon : MappedCache::Worth::kOften;
  note_unmapped(file.mapped, offset, bytes, file.handle, nullptr, worth);
}

}  // namespace headrace::transfer

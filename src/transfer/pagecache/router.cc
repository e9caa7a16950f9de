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
constexpr std::uint64_t kSplitBytes = std::uint64_t{128} << 10;  // partly cached ranges are told apart down to this
// Ranges in sequence of which no more is under way do not keep a disk busy: the kernel's read-ahead does.
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{512} << 10;
// So little under way that reading through the page cache is slower by half than out of a registered window; and so
// much that it depends on the machine, and whether it is slow is measured over some bytes.
constexpr std::uint64_t kSlowBytes = std::uint64_t{1} << 20, kMeasuredBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kPaceBytes = std::uint64_t{8} << 20;
constexpr double kSlowBytesPerNs = 9;
// Of so many bytes under way that are cached, in ranges of so many at least, several threads copy more than one does.
constexpr std::uint64_t kSharedBytes = std::uint64_t{256} << 10, kLeastSharedBytes = std::uint64_t{16} << 10;
// Of a file's first range nobody knows yet what will follow it.
constexpr std::uint64_t kFirstReadAheadBytes = std::uint64_t{64} << 10;
// Where nothing is mapped, a file's identity is only a hint: what is known of its pages lasts longer than this anyway.
constexpr std::uint64_t kIdentityNs = 10'000'000;

}  // namespace

// A failed attempt to read cached pages starts read-ahead, which a direct read would then compete with. So the kernel
// is asked first, until enough ranges in a row were cached for asking to be a waste. Where it does not answer, attempts
// are made until several in a row fail, and then now and again.
Way ObjectRouter::choose(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  constexpr int kStreak = 4;
  constexpr unsigned kRetryEvery = 8;
  if (!cache_reads_) return Way::kDirect;
  if (cached_streak_.load(std::memory_order_relaxed) >= kStreak) return Way::kPageCache;
  switch (os::residency(fd, offset, bytes)) {
    case os::Residency::kCached:
      // Where a page is missing after all, the attempt finds it and has it read into the cache; past the cache the
      // range would never be whole again.
      return Way::kPageCache;
    case os::Residency::kNotCached:
      cached_streak_.store(0, std::memory_order_relaxed);
      return Way::kDirect;
    case os::Residency::kUnknown:
      break;
  }
  if (cold_streak_.load(std::memory_order_relaxed) < kStreak) return Way::kPageCache;
  return probe_turn_.fetch_add(1, std::memory_order_relaxed) % kRetryEvery == 0 ? Way::kPageCache : Way::kDirect;
}

void ObjectRouter::was_cached() noexcept {
  cached_streak_.fetch_add(1, std::memory_order_relaxed);
  cold_streak_.store(0, std::memory_order_relaxed);
}

void ObjectRouter::was_not_cached() noexcept {
  cached_streak_.store(0, std::memory_order_relaxed);
  cold_streak_.fetch_add(1, std::memory_order_relaxed);
}

void Notes::add(std::string_view what, std::string_view why) noexcept {
  try {
    std::string text = std::string(what).append(why).append("\n");
    if (text_.find(text) == std::string::npos) text_ += text;
  } catch (const std::bad_alloc&) {  // only a remark
  }
}

FileRouter::FileRouter(const RoutePolicy& policy, std::shared_ptr<device::Device> device, ReuseTracker& reuse,
                       Notes& notes)
    : policy_(policy), device_(std::move(device)), reuse_(reuse), notes_(notes) {}

bool FileRouter::direct_allowed(os::FileHandle& file) {
  if (engine_failed_) return false;
  if (!file.has_buffered()) return file.direct_fd() >= 0;
  if (!policy_.allow_direct) return false;
  if (file.on_network() && !policy_.network_direct) return false;
  if (file.direct_fd() >= 0) return true;
  if (!file.in_memory()) notes_.add("direct path: the file system refuses O_DIRECT for ", file.path());
  return false;
}

// Once a wave, and again for requests that came since: the version of the file decides which windows may be used. A
// device that takes bytes from host memory has no windows, and a lone cached read takes little longer than the
// question.
void FileRouter::check_identity(RoutedFile& file) {
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
    file.mapped = mapped_->file(device_, identity);
    file.seen.clear();
  }
}

const MappedWindow* FileRouter::window(RoutedFile& file, std::size_t index, const WaveWindows& windows) {
  if (index >= file.seen.size()) file.seen.resize(index + 1);
  RoutedFile::Seen& seen = file.seen[index];
  if (seen.wave == windows.wave) return seen.window;
  std::shared_ptr<MappedWindow> window = mapped_->window(*file.mapped, index, file.now_ns);
  if (window == nullptr && policy_.path == Path::kMapped) {
    const auto ask = [&](std::size_t which) {
      return mapped_->touch(file.mapped, which, 0, file.handle, nullptr, MappedCache::Worth::kNow);
    };
    // The next ones are ready by the time a sequential reader comes to them.
    for (std::size_t ahead = 0; ahead <= MappedCache::kWindowsAhead; ++ahead) ask(index + ahead);
    mapped_->wait(*file.mapped, index);
    window = mapped_->window(*file.mapped, index, file.now_ns);
  }
  seen = {windows.wave, window.get()};
  if (window != nullptr) windows.held->push_back(std::move(window));
  return seen.window;
}

// Whether a range is better read through the page cache even if it is not there. A direct read takes whole blocks and
// leaves nothing behind for the neighbours of a small range, and has no read-ahead. Many at a time are direct reads all
// the same: more of them can be under way than there are threads. `beside`: ranges under way or about to be.
bool FileRouter::small_read(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes,
                            std::size_t beside) const {
  if (policy_.path != Path::kAuto || bytes > kReadAheadBytes) return false;
  const bool continues = offset - file.sequential_end < kPageBytes;
  const std::uint64_t most = file.sequential_end != 0 ? kReadAheadBytes : kFirstReadAheadBytes;
  return continues ? bytes * beside <= most : bytes < kPageBytes && beside == 1;
}

Route FileRouter::choose(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside,
                         const WaveWindows* windows) {
  if (!file.handle->has_buffered() && !policy_.skip_io) {
    return {direct_allowed(*file.handle) ? Way::kDirect : Way::kPageCache, bytes};
  }
  // Without I/O nothing is taken from a mapping either: the staging memory's old bytes travel.
  if (policy_.path == Path::kBuffered || policy_.skip_io) return {Way::kPageCache, bytes};
  if (policy_.path == Path::kDirect) {
    return {direct_allowed(*file.handle) ? Way::kDirect : Way::kPageCache, bytes};
  }
  bool small = small_read(file, offset, bytes, beside);
  const bool shared = small && bytes >= kLeastSharedBytes && bytes * beside > kSharedBytes;
  if (small && !policy_.staged && !shared) return {.way = Way::kPageCache, .bytes = bytes, .small = true};
  check_identity(file);
  if (shared && file.mapped != nullptr) {
    const auto index = static_cast<std::size_t>(offset / file.mapped->window_bytes);
    small = mapped_->warmth(*file.mapped, index, file.handle->fd(), file.now_ns) != Warmth::kWarm;
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

Route FileRouter::choose_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes) {
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
    switch (mapped_->warmth(*file.mapped, index, file.handle->fd(), file.now_ns)) {
      case Warmth::kCold:
        route.way = Way::kDirect;
        return route;
      case Warmth::kWarm:
      case Warmth::kUnknown:
        route.sure = false;
        break;
      case Warmth::kMixed: {
        // The longest start of the range that is wholly there or wholly not.
        for (std::uint64_t length = route.bytes;; length = base::align_up(length / 2, kSplitBytes)) {
          length = std::min(length, route.bytes);
          const std::uint64_t pages = (offset + length + kPageBytes - 1) / kPageBytes - offset / kPageBytes;
          ++system_calls_;
          const auto cached = os::cached_pages(file.handle->fd(), offset, length);
          route.bytes = length;
          if (!cached.has_value()) {
            route.sure = false;
            break;
          }
          if (*cached >= pages) break;
          if (*cached == 0 || length <= kSplitBytes) {
            route.way = Way::kDirect;
            return route;
          }
        }
        return route;
      }
    }
  }
  return route;
}

// Whether a cold range is one that was read past the page cache before and is now kept in it; `bring`: for the first
// time.
bool FileRouter::keep_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& bring) {
  if (policy_.path != Path::kAuto || policy_.skip_io || !policy_.cache_reread) return false;
  if (file.mapped == nullptr || !file.handle->is_regular()) return false;
  // Whole pages are read, however few bytes of them are wanted.
  const os::WidenedRange pages = os::widen(offset, bytes, kPageBytes);
  const auto advice = reuse_.note(file.mapped->identity, pages.offset_bytes, pages.length_bytes);
  bring = advice == ReuseTracker::Advice::kBring;
  return advice != ReuseTracker::Advice::kDirect;
}

void FileRouter::was_not_cached(const RoutedFile& file, std::uint64_t offset) {
  if (file.mapped == nullptr) return;
  const auto index = static_cast<std::size_t>(offset / file.mapped->window_bytes);
  mapped_->set_warmth(*file.mapped, index, Warmth::kMixed, base::now_ns());
}

// Bytes that were read by other means may be worth a mapping the next time.
void FileRouter::count_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t under_way) {
  if (!policy_.staged || file.mapped == nullptr || policy_.path != Path::kAuto || !policy_.allow_mapped) return;
  const auto index = static_cast<std::size_t>(offset / file.mapped->window_bytes);
  bool slow = under_way <= kSlowBytes;
  if (!slow && under_way <= kMeasuredBytes) {
    RoutedFile::Pace& pace = file.pace;
    pace.bytes += bytes;
    if (pace.begun_ns == 0 || pace.bytes >= kPaceBytes) {
      const std::uint64_t now = base::now_ns();
      const double took = static_cast<double>(now - pace.begun_ns);
      pace = {now, 0, pace.begun_ns != 0 && static_cast<double>(pace.bytes) < kSlowBytesPerNs * took};
    }
    slow = pace.slow;
  }
  const auto worth = slow ? MappedCache::Worth::kSoon : MappedCache::Worth::kOften;
  mapped_->note_read(file.mapped, index, bytes, file.handle, nullptr, worth);
}

}  // namespace headrace::transfer

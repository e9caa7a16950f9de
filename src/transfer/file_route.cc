// Which way a range of a file goes: out of a mapping, through the page cache, or past it.
#include <algorithm>

#include "base/checked.h"
#include "base/clock.h"
#include "base/file_mapping.h"
#include "base/file_read.h"
#include "transfer/file_queue.h"

namespace headrace {

using transfer::Warmth;

namespace {

constexpr std::uint64_t kSplitBytes = std::uint64_t{128} << 10;  // partly cached ranges are told apart down to this
// Ranges in sequence of which no more is under way do not keep a disk busy: the kernel's read-ahead does.
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{512} << 10;
// Of so many bytes under way that are cached, in ranges of so many at least, several threads copy more than one does.
constexpr std::uint64_t kSharedBytes = std::uint64_t{256} << 10, kLeastSharedBytes = std::uint64_t{16} << 10;
// Of a file's first range nobody knows yet what will follow it.
constexpr std::uint64_t kFirstReadAheadBytes = std::uint64_t{64} << 10;
// Where nothing is mapped, a file's identity is only a hint: what is known of its pages lasts longer than this anyway.
constexpr std::uint64_t kIdentityNs = 10'000'000;

}  // namespace

bool FileQueue::Impl::direct_allowed(base::FileHandle& file) {
  if (engine_failed_) return false;
  if (!file.has_buffered()) return file.direct_fd() >= 0;
  if (!resources_->options().allow_direct) return false;
  if (file.on_network() && !options_.network_direct) return false;
  if (file.direct_fd() >= 0) return true;
  if (!file.in_memory()) note("direct path: the file system refuses O_DIRECT for ", file.path());
  return false;
}

// Once a wave, and again for requests that came since: the version of the file decides which windows may be used. A
// device that takes bytes from host memory has no windows, and a lone cached read takes little longer than the
// question.
void FileQueue::Impl::check_identity(FileState& file) {
  if (file.checked_wave == wave_number_ && file.mapped != nullptr) return;
  file.now_ns = base::now_ns();
  file.checked_wave = wave_number_;
  if (!staged_ && file.mapped != nullptr && file.now_ns - file.identified_ns < kIdentityNs) return;
  base::FileIdentity identity;
  int error = 0;
  ++stats_.system_calls;
  file.identified_ns = file.now_ns;
  if (!base::identify(file.handle->fd(), identity, error)) {
    file.mapped.reset();
    return;
  }
  if (file.mapped == nullptr || !(file.mapped->identity == identity)) {
    file.mapped = mapped_->file(device_, identity);
    file.seen.clear();
  }
}

const transfer::MappedWindow* FileQueue::Impl::mapped_window(FileState& file, std::size_t index, Wave& wave) {
  if (index >= file.seen.size()) file.seen.resize(index + 1);
  FileState::Seen& seen = file.seen[index];
  if (seen.wave == wave.number) return seen.window;
  std::shared_ptr<transfer::MappedWindow> window = mapped_->window(*file.mapped, index, file.now_ns);
  if (window == nullptr && options_.path == Path::kMapped) {
    const auto ask = [&](std::size_t which) {
      return mapped_->touch(file.mapped, which, 0, file.handle, nullptr, true);
    };
    // The next ones are ready by the time a sequential reader comes to them.
    for (std::size_t ahead = 0; ahead <= transfer::MappedCache::kWindowsAhead; ++ahead) ask(index + ahead);
    mapped_->wait(*file.mapped, index);
    window = mapped_->window(*file.mapped, index, file.now_ns);
  }
  seen = {wave.number, window.get()};
  if (window != nullptr) wave.windows.push_back(std::move(window));
  return seen.window;
}

// Whether a range is better read through the page cache even if it is not there. A direct read takes whole blocks and
// leaves nothing behind for the neighbours of a small range, and has no read-ahead. Many at a time are direct reads all
// the same: more of them can be under way than there are threads. `beside`: ranges under way or about to be.
bool FileQueue::Impl::small_read(FileState& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside) const {
  if (options_.path != Path::kAuto || bytes > kReadAheadBytes) return false;
  const bool continues = offset - file.sequential_end < kPageUnit;
  const std::uint64_t most = file.sequential_end != 0 ? kReadAheadBytes : kFirstReadAheadBytes;
  return continues ? bytes * beside <= most : bytes < kPageUnit && beside == 1;
}

FileQueue::Impl::Step FileQueue::Impl::route(FileState& file, std::uint64_t offset, std::uint64_t bytes,
                                             std::size_t beside, Wave* wave) {
  if (!file.handle->has_buffered() && !options_.skip_io) {
    return {direct_allowed(*file.handle) ? Route::kDirect : Route::kBuffered, bytes};
  }
  // Without I/O nothing is taken from a mapping either: the staging memory's old bytes travel.
  if (options_.path == Path::kBuffered || options_.skip_io) return {Route::kBuffered, bytes};
  if (options_.path == Path::kDirect) {
    return {direct_allowed(*file.handle) ? Route::kDirect : Route::kBuffered, bytes};
  }
  bool small = small_read(file, offset, bytes, beside);
  const bool shared = small && bytes >= kLeastSharedBytes && bytes * beside > kSharedBytes;
  if (small && !staged_ && !shared) return {.route = Route::kBuffered, .bytes = bytes, .small = true};
  check_identity(file);
  if (shared && file.mapped != nullptr) {
    const auto index = static_cast<std::size_t>(offset / file.mapped->window_bytes);
    small = mapped_->warmth(*file.mapped, index, file.handle->fd(), file.now_ns) != Warmth::kWarm;
  }
  if (wave != nullptr && file.handle->is_regular() && file.mapped != nullptr && resources_->options().allow_mapped) {
    const std::uint64_t window_bytes = file.mapped->window_bytes;
    const std::size_t index = static_cast<std::size_t>(offset / window_bytes);
    if (const transfer::MappedWindow* window = mapped_window(file, index, *wave); window != nullptr) {
      const std::uint64_t within = offset % window_bytes;
      if (within < window->bytes)
        return {Route::kMapped, std::min(bytes, window->bytes - within), window->data + within};
    }
  }
  if (options_.path == Path::kMapped) return {Route::kBuffered, bytes};
  if (small) return {.route = Route::kBuffered, .bytes = bytes, .small = true};
  return route_unmapped(file, offset, bytes);
}

FileQueue::Impl::Step FileQueue::Impl::route_unmapped(FileState& file, std::uint64_t offset, std::uint64_t bytes) {
  Step step{Route::kBuffered, bytes};
  const bool direct = direct_allowed(*file.handle);
  if (file.mapped == nullptr || !file.handle->is_regular()) {
    step.route = direct ? Route::kDirect : Route::kBuffered;
    return step;
  }
  const std::uint64_t window_bytes = file.mapped->window_bytes;
  const auto index = static_cast<std::size_t>(offset / window_bytes);
  step.bytes = std::min(bytes, (index + 1) * window_bytes - offset);
  if (direct) {
    switch (mapped_->warmth(*file.mapped, index, file.handle->fd(), file.now_ns)) {
      case Warmth::kCold:
        step.route = Route::kDirect;
        return step;
      case Warmth::kWarm:
      case Warmth::kUnknown:
        step.sure = false;
        break;
      case Warmth::kMixed: {
        // The longest start of the range that is wholly there or wholly not.
        for (std::uint64_t length = step.bytes;; length = base::align_up(length / 2, kSplitBytes)) {
          length = std::min(length, step.bytes);
          const std::uint64_t pages = (offset + length + kPageUnit - 1) / kPageUnit - offset / kPageUnit;
          ++stats_.system_calls;
          const auto cached = base::cached_pages(file.handle->fd(), offset, length);
          step.bytes = length;
          if (!cached.has_value()) {
            step.sure = false;
            break;
          }
          if (*cached >= pages) break;
          if (*cached == 0 || length <= kSplitBytes) {
            step.route = Route::kDirect;
            return step;
          }
        }
        return step;
      }
    }
  }
  return step;
}

// Whether a cold range is one that was read past the page cache before and is now kept in it; `bring`: for the first
// time.
bool FileQueue::Impl::reread(const FileState& file, std::uint64_t offset, std::uint64_t bytes, bool& bring) {
  if (options_.path != Path::kAuto || options_.skip_io || !resources_->options().cache_reread) return false;
  if (file.mapped == nullptr || !file.handle->is_regular()) return false;
  // Whole pages are read, however few bytes of them are wanted.
  const base::WidenedRange pages = base::widen(offset, bytes, kPageUnit);
  const auto advice = resources_->reuse().note(file.mapped->identity, pages.offset_bytes, pages.length_bytes);
  bring = advice == transfer::ReuseTracker::Advice::kBring;
  return advice != transfer::ReuseTracker::Advice::kDirect;
}

// Bytes that were read by other means may be worth a mapping the next time.
void FileQueue::Impl::count_unmapped(FileState& file, std::uint64_t offset, std::uint64_t bytes) {
  if (!staged_ || file.mapped == nullptr || options_.path != Path::kAuto || !resources_->options().allow_mapped) return;
  const auto index = static_cast<std::size_t>(offset / file.mapped->window_bytes);
  mapped_->note_read(file.mapped, index, bytes, file.handle, nullptr);
}

}  // namespace headrace

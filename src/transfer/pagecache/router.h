// Router: decides on which path a range of a file is read: from a mapping registered with the device, through the page
// cache, or past it by an I/O engine. Nothing else decides that.
//
// Its users differ by RoutePolicy. Objects of a store are each read rarely, so decisions rest on how the previous
// ranges went. Files of a queue are read repeatedly, so what is known of each is kept in its RoutedFile.
//
// Threads: calls for objects from any thread; they allocate only what a MappedFile needs. Calls for files from one
//          thread at a time. Calls may query the kernel.
// Owns:    only its records of how ranges went; its constructor's arguments outlive it.
#pragma once

#include <headrace/file.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/device.h"
#include "os/file_handle.h"
#include "transfer/pagecache/mapped_cache.h"
#include "transfer/pagecache/reuse_tracker.h"

namespace headrace::transfer {

enum class Way : std::uint8_t { kMapped, kPageCache, kDirect };

// A file that is read repeatedly, and what was last learnt about it. Only the Router uses members other than the
// handle.
struct RoutedFile {
  std::shared_ptr<os::FileHandle> handle;
  std::shared_ptr<MappedFile> mapped;  // null: its identity is not known
  std::uint64_t checked_round = 0;     // the round in which the identity was last checked
  std::uint64_t now_ns = 0;            // when it was checked
  std::uint64_t identified_ns = 0;     // when the system was last queried for it
  std::uint64_t sequential_end = 0;    // where the last range ended: a range that begins there continues it
  struct Seen {
    std::uint64_t wave = 0;
    const MappedWindow* window = nullptr;  // held by that wave
  };
  std::vector<Seen> seen;  // by window
  // How fast bytes arrive through the page cache that a window could supply as well.
  struct Pace {
    std::uint64_t started_ns = 0, bytes = 0;
    bool slow = false;
  } pace;

  void forget() noexcept {
    handle.reset();
    mapped.reset();
    checked_round = identified_ns = sequential_end = 0;
    seen.clear();
    pace = {};
  }
};

struct Route {
  Way way = Way::kPageCache;
  std::uint64_t bytes = 0;            // from the range's start; call again for the rest
  const std::byte* mapped = nullptr;  // kMapped: where they are
  bool pages_resident = true;         // kPageCache: the pages are there
  bool small = false;                 // kPageCache: worth it even if the pages are missing
};

// What a Router's decisions depend on: its user's options, and the differences between its users.
struct RoutePolicy {
  Path path = Path::kAuto;  // kDirect: the engine reads every range
  bool staged = false;      // the device does not use the host's memory
  bool skip_io = false;
  bool allow_mapped = true, allow_direct = true, network_direct = false, cache_reread = true;
  // How to read a range of which a page was missing after all. The attempt has started read-ahead: taking the pages as
  // they arrive (kPageCache) saves a second disk access, unless many reads compete with it (kDirect).
  Way when_missing = Way::kDirect;
};

// Remarks for the user, each once. A remark is dropped if memory is short.
class Notes {
 public:
  void add(std::string_view what, std::string_view why) noexcept;
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

class Router {
 public:
  Router(const RoutePolicy& policy, std::shared_ptr<device::Device> device, MappedCache& mapped, ReuseTracker& reuse)
      : policy_(policy), device_(std::move(device)), mapped_(mapped), reuse_(reuse) {}

  // For objects of stores.

  // Whether choose() may return kPageCache.
  bool uses_cache() const noexcept { return policy_.path != Path::kDirect; }
  // kPageCache: the caller tries the page cache and reports the outcome. kDirect: an engine reads it.
  Way choose(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;
  void was_cached() noexcept;
  // Returns how to read the range instead.
  Way was_not_cached() noexcept;
  // Whether the engine reads a range past the page cache, now that `direct_fd` is open. Call once for each range: a
  // range that was read this way before goes through the cache instead, to stay there.
  bool goes_direct(int direct_fd, std::uint64_t offset, std::uint64_t bytes) noexcept;
  bool direct_allowed() const noexcept { return policy_.allow_direct; }
  // The file system opened the file for direct reads but rejects them.
  void refuse_direct(int fd) noexcept;
  // Returns the mapping state of this version of a file, null if it cannot be determined. `out`: registered windows
  // that cover [begin, end), or empty. `known`: the file's current identity; null: it is queried. Throws
  // std::bad_alloc.
  std::shared_ptr<MappedFile> find_windows(int fd, const os::FileIdentity* known, std::uint64_t begin,
                                           std::uint64_t end, std::vector<std::shared_ptr<MappedWindow>>& out);

  // For files of a queue.

  // Starts a new round: identities checked in earlier rounds are checked again.
  void begin_round() noexcept { ++round_; }
  // There is no engine: nothing bypasses the page cache from now on.
  void give_up_direct() noexcept { engine_failed_ = true; }

  // The windows of one wave, which holds them until it has passed.
  struct WaveWindows {
    std::uint64_t wave;
    std::vector<std::shared_ptr<MappedWindow>>* held;
  };
  // Chooses the path for the first bytes of the range, or all. `beside`: number of ranges in flight or about to be.
  // `windows`: null: nothing is taken from mappings. Throws std::bad_alloc.
  Route choose(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside,
               const WaveWindows* windows);
  // The opposite of goes_direct(). `prefetch`: the range goes through the cache for the first time.
  bool keep_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& prefetch);
  // A page was missing after all: returns how to read the range instead.
  Way was_not_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& prefetch);
  // Counts bytes that were read by other means than a mapping; mapping them may pay later. `under_way`: bytes of all
  // ranges in flight or about to be.
  void count_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t under_way);
  bool direct_allowed(os::FileHandle& file);
  void refuse_direct(os::FileHandle& file);

  std::uint64_t system_calls() const noexcept { return system_calls_; }  // for files
  Notes& notes() noexcept { return notes_; }
  const Notes& notes() const noexcept { return notes_; }

  // For both: counts a range read by other means than a mapping, of the file with this handle or path.
  void note_unmapped(const std::shared_ptr<MappedFile>& file, std::uint64_t offset, std::uint64_t bytes,
                     const std::shared_ptr<os::FileHandle>& handle, const char* path, MappedCache::Worth worth);

 private:
  static constexpr std::size_t kRefusals = 64;

  bool keeps_cached() const noexcept;
  bool keep_cached(const os::FileIdentity& identity, std::uint64_t offset, std::uint64_t bytes,
                   bool& prefetch) noexcept;
  void check_identity(RoutedFile& file);
  const MappedWindow* window(RoutedFile& file, std::size_t index, const WaveWindows& windows);
  bool small_read(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside) const;
  Route choose_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes);

  const RoutePolicy policy_;
  const std::shared_ptr<device::Device> device_;
  MappedCache& mapped_;
  ReuseTracker& reuse_;
  // For objects
  std::atomic<int> cached_streak_{0}, cold_streak_{0};  // successive ranges found in the page cache, or not
  std::atomic<unsigned> probe_turn_{0};
  std::atomic<bool> any_refusal_{false};
  // Hashes of files; a later file replaces an earlier one in the same place.
  std::array<std::atomic<std::uint64_t>, kRefusals> refusals_{};
  // For files
  Notes notes_;
  bool engine_failed_ = false;
  std::uint64_t round_ = 0, system_calls_ = 0;
};

}  // namespace headrace::transfer

// Router: which way a range of a file is read. Out of a mapping that is registered with the device, through the page
// cache, or past it by an I/O engine: nothing else decides that.
//
// Its users are rows of RoutePolicy. A store's objects are each read once in a while: what is known is how the ranges
// before went. Files of a queue are read again and again: what is known of each is kept in its RoutedFile.
//
// Threads: of objects, every call from any thread; nothing is allocated but what a MappedFile takes. Of files, one at a
//          time. May ask the kernel.
// Owns:    nothing but its notes on how ranges went; what it is made of outlives it.
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

// A file that is read again and again, and what was last found out about it. The Router's, but for the handle.
struct RoutedFile {
  std::shared_ptr<os::FileHandle> handle;
  std::shared_ptr<MappedFile> mapped;  // null: its identity is not known
  std::uint64_t checked_round = 0;     // in which the identity was last looked at
  std::uint64_t now_ns = 0;            // when
  std::uint64_t identified_ns = 0;     // when the system was last asked for it
  std::uint64_t sequential_end = 0;    // where the last range ended: one that begins there continues it
  struct Seen {
    std::uint64_t wave = 0;
    const MappedWindow* window = nullptr;  // held by that wave
  };
  std::vector<Seen> seen;  // by window
  // How fast bytes come through the page cache that a window could give as well.
  struct Pace {
    std::uint64_t begun_ns = 0, bytes = 0;
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
  std::uint64_t bytes = 0;            // from the range's start; the rest is asked for again
  const std::byte* mapped = nullptr;  // kMapped: where they are
  bool sure = true;                   // kPageCache: the pages are there
  bool small = false;                 // kPageCache: worth it even if they are not
};

// What a Router goes by: what its user's options say, and what its users differ in.
struct RoutePolicy {
  Path path = Path::kAuto;  // kDirect: every range is the engine's
  bool staged = false;      // the device does not use the host's memory
  bool skip_io = false;
  bool allow_mapped = true, allow_direct = true, network_direct = false, cache_reread = true;
  // How to read a range of which a page was missing after all. The attempt has started read-ahead: taking the pages as
  // they come (kPageCache) saves asking the disk a second time, unless many reads compete with it (kDirect).
  Way when_missing = Way::kDirect;
};

// Remarks for a user, each once. Without memory for one it is left out.
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

  // Of objects.

  // Whether choose() may give the page cache.
  bool uses_cache() const noexcept { return policy_.path != Path::kDirect; }
  // kPageCache: to be tried by the caller, which says how it went. kDirect: an engine's.
  Way choose(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;
  void was_cached() noexcept;
  // The way that is left.
  Way was_not_cached() noexcept;
  // Whether the engine reads a range past the page cache, now that `direct_fd` is there for it. Asked once for each
  // range: what was read so before goes through the cache instead, to stay there.
  bool goes_direct(int direct_fd, std::uint64_t offset, std::uint64_t bytes) noexcept;
  bool direct_allowed() const noexcept { return policy_.allow_direct; }
  // The file's system opened it for direct reads, and refuses them.
  void refuse_direct(int fd) noexcept;
  // What is mapped of this version of a file, null if that cannot be told; `out`: registered windows that have all of
  // [begin, end), or none. `known`: the file's identity, as it was just now; null: it is asked for. Throws
  // std::bad_alloc.
  std::shared_ptr<MappedFile> find_windows(int fd, const os::FileIdentity* known, std::uint64_t begin,
                                           std::uint64_t end, std::vector<std::shared_ptr<MappedWindow>>& out);

  // Of files.

  // What was found out before says nothing of files now.
  void begin_round() noexcept { ++round_; }
  // No engine can be had: nothing goes past the page cache any more.
  void give_up_direct() noexcept { engine_failed_ = true; }

  // The windows of one wave, which holds them until it has passed.
  struct WaveWindows {
    std::uint64_t wave;
    std::vector<std::shared_ptr<MappedWindow>>* held;
  };
  // The first bytes of the range, or all. `beside`: ranges under way or about to be. `windows` null: nothing is taken
  // from mappings. Throws std::bad_alloc.
  Route choose(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside,
               const WaveWindows* windows);
  // As goes_direct(). `bring`: it goes through the cache, for the first time.
  bool keep_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& bring);
  // A page was missing after all: the way that is left.
  Way was_not_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& bring);
  // Bytes were read by other means than a mapping: one may be worth it the next time.
  // `under_way`: bytes of all ranges that are or are about to be.
  void count_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t under_way);
  bool direct_allowed(os::FileHandle& file);
  void refuse_direct(os::FileHandle& file);

  std::uint64_t system_calls() const noexcept { return system_calls_; }  // for files
  Notes& notes() noexcept { return notes_; }
  const Notes& notes() const noexcept { return notes_; }

  // Of both: the file, by its handle or its path, whose bytes were read by other means than a mapping.
  void note_unmapped(const std::shared_ptr<MappedFile>& file, std::uint64_t offset, std::uint64_t bytes,
                     const std::shared_ptr<os::FileHandle>& handle, const char* path, MappedCache::Worth worth);

 private:
  static constexpr std::size_t kRefusals = 64;

  bool keeps_cached() const noexcept;
  bool keep_cached(const os::FileIdentity& identity, std::uint64_t offset, std::uint64_t bytes, bool& bring) noexcept;
  void check_identity(RoutedFile& file);
  const MappedWindow* window(RoutedFile& file, std::size_t index, const WaveWindows& windows);
  bool small_read(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside) const;
  Route choose_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes);

  const RoutePolicy policy_;
  const std::shared_ptr<device::Device> device_;
  MappedCache& mapped_;
  ReuseTracker& reuse_;
  // Of objects
  std::atomic<int> cached_streak_{0}, cold_streak_{0};  // ranges in a row found in the page cache, or not
  std::atomic<unsigned> probe_turn_{0};
  std::atomic<bool> any_refusal_{false};
  std::array<std::atomic<std::uint64_t>, kRefusals> refusals_{};  // files, by a number; the last of those in a place
  // Of files
  Notes notes_;
  bool engine_failed_ = false;
  std::uint64_t round_ = 0, system_calls_ = 0;
};

}  // namespace headrace::transfer

// Routers: which way a range of a file is read. Out of a mapping that is registered with the device, through the page
// cache, or past it by an I/O engine: nothing else decides that.
//
// ObjectRouter is for objects of a store, each of which is read once in a while: what is known is how the ranges before
// went. FileRouter is for files that are read again and again: what is known of each is kept in its RoutedFile.
#pragma once

#include <headrace/file.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "os/file_handle.h"
#include "transfer/pagecache/mapped_cache.h"
#include "transfer/pagecache/reuse_tracker.h"

namespace headrace::transfer {

enum class Way : std::uint8_t { kMapped, kPageCache, kDirect };

// Threads: every call from any thread. Allocates nothing; may ask the kernel.
class ObjectRouter {
 public:
  ObjectRouter(bool cache_reads, bool allow_direct) noexcept : cache_reads_(cache_reads), direct_(allow_direct) {}

  // kPageCache: to be tried by the caller, which says how it went. kDirect: an engine's, past the page cache where
  // direct_allowed(). Without `cache_reads` every range is the engine's.
  Way choose(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;
  void was_cached() noexcept;
  void was_not_cached() noexcept;

  // Until a file system that opened a file for direct reads has refused one.
  bool direct_allowed() const noexcept { return direct_.load(std::memory_order_relaxed); }
  void refuse_direct() noexcept { direct_.store(false, std::memory_order_relaxed); }

 private:
  const bool cache_reads_;
  std::atomic<bool> direct_;
  std::atomic<int> cached_streak_{0}, cold_streak_{0};  // ranges in a row found in the page cache, or not
  std::atomic<unsigned> probe_turn_{0};
};

// A file that is read again and again, and what was last found out about it. The FileRouter's, but for the handle.
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

// What a FileRouter goes by: the queue's options, and those of its Context.
struct RoutePolicy {
  Path path = Path::kAuto;
  bool staged = false;  // the device does not use the host's memory
  bool skip_io = false;
  bool allow_mapped = true, allow_direct = true, network_direct = false, cache_reread = true;
};

// Remarks for a user, each once. Without memory for one it is left out.
class Notes {
 public:
  void add(std::string_view what, std::string_view why) noexcept;
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

// Threads: one at a time.
class FileRouter {
 public:
  // The windows of one wave, which holds them until it has passed.
  struct WaveWindows {
    std::uint64_t wave;
    std::vector<std::shared_ptr<MappedWindow>>* held;
  };

  FileRouter(const RoutePolicy& policy, std::shared_ptr<device::Device> device, ReuseTracker& reuse, Notes& notes);
  // REQUIRES: before choose(). The cache outlives the router.
  void use(MappedCache& cache) noexcept { mapped_ = &cache; }

  // What was found out before says nothing of files now.
  void begin_round() noexcept { ++round_; }
  // No engine can be had: nothing goes past the page cache any more.
  void give_up_direct() noexcept { engine_failed_ = true; }

  // The first bytes of the range, or all. `beside`: ranges under way or about to be. `windows` null: nothing is taken
  // from mappings. Throws std::bad_alloc.
  Route choose(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside,
               const WaveWindows* windows);
  // Whether a range that is to go past the page cache is one that was read so before, and now goes through it instead,
  // to stay there. `bring`: for the first time. Asked once for each range.
  bool keep_cached(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, bool& bring);
  // A page was missing after all.
  void was_not_cached(const RoutedFile& file, std::uint64_t offset);
  // Bytes were read by other means than a mapping: one may be worth it the next time.
  // `under_way`: bytes of all ranges that are or are about to be.
  void count_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t under_way);
  bool direct_allowed(os::FileHandle& file);

  std::uint64_t system_calls() const noexcept { return system_calls_; }

 private:
  void check_identity(RoutedFile& file);
  const MappedWindow* window(RoutedFile& file, std::size_t index, const WaveWindows& windows);
  bool small_read(const RoutedFile& file, std::uint64_t offset, std::uint64_t bytes, std::size_t beside) const;
  Route choose_unmapped(RoutedFile& file, std::uint64_t offset, std::uint64_t bytes);

  const RoutePolicy policy_;
  const std::shared_ptr<device::Device> device_;
  ReuseTracker& reuse_;
  Notes& notes_;
  MappedCache* mapped_ = nullptr;
  bool engine_failed_ = false;
  std::uint64_t round_ = 0, system_calls_ = 0;
};

}  // namespace headrace::transfer

// MappedCache: windows of files that a device copies from the page cache itself.
//
// Mapping and registering a window takes milliseconds and a driver lock, so a background thread does it, off the path
// of every request, and windows are kept. Registered pages cannot be reclaimed, so a budget limits them: the least
// recently used are evicted first, and any that is unused for a minute. Small files share one registration. A mapping
// belongs to one version of a file: when identity, size or times differ, its windows are dropped.
//
// Threads: every call from any thread.
// Owns:    mappings, registrations, one thread from the first request on. A window lives until its last user releases
//          it, and keeps its device alive.
#pragma once

#include <headrace/status.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "os/cgroup.h"
#include "os/file_handle.h"
#include "os/page_buffer.h"
#include "transfer/threads/near_threads.h"

namespace headrace::transfer {

// A registered address range: one large window, or many small files.
struct MappedRegion {
  std::shared_ptr<device::Device> device;
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::size_t mappings = 0;
  std::atomic<std::uint64_t> last_used_ns{0};
  ~MappedRegion();
};

struct MappedWindow {
  std::shared_ptr<MappedRegion> region;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;  // of the file, from the window's start
};

enum class Warmth : std::uint8_t { kUnknown, kCold, kMixed, kWarm };

// One version of one file, for one device.
class MappedFile {
 public:
  MappedFile(std::shared_ptr<device::Device> on, const os::FileIdentity& version, std::uint64_t window)
      : device(std::move(on)), identity(version), window_bytes(window) {}

  const std::shared_ptr<device::Device> device;
  const os::FileIdentity identity;
  const std::uint64_t window_bytes;

  std::uint64_t window_length(std::size_t index) const noexcept;
  bool small(std::uint64_t limit) const noexcept { return identity.size_bytes <= limit; }

 private:
  friend class MappedCache;
  enum class State : std::uint8_t { kNone, kQueued, kReady, kRefused };
  struct WindowState {
    std::shared_ptr<MappedWindow> window;
    State state = State::kNone;
    Warmth warmth = Warmth::kUnknown;
    std::uint64_t warmth_ns = 0;  // when warmth was determined
    std::uint64_t retry_ns = 0;   // no attempt before this time
    std::uint64_t touched_bytes = 0, touched_times = 0;
  };
  std::mutex mutex_;
  std::vector<WindowState> slots_;  // guarded by mutex_; grows with use
  bool dropped_ = false;            // guarded by mutex_: replaced by another version
  WindowState& slot(std::size_t index);
};

// Limits on registration. Registered pages cannot be reclaimed and memory is shared, so by default a cache leaves room
// for other Contexts, for other processes, and in each control group that limits memory.
struct MappedBudget {
  std::uint64_t bytes = 0;                          // of this cache
  std::uint64_t process_bytes = ~std::uint64_t{0};  // of all caches of the process
  std::uint64_t machine_bytes = ~std::uint64_t{0};  // pinned by any process, as far as the kernel reports
  // Control groups: what their processes have mapped, registered or not, stays within half of the room for page cache.
  std::function<std::vector<os::MemoryGroups::PageCache>()> groups = nullptr;  // null: none
};

class MappedCache {
 public:
  // The cache's thread follows `near`, if not null. cpus: how many read at the same time.
  explicit MappedCache(const MappedBudget& budget, std::shared_ptr<NearThreads> near = nullptr,
                       unsigned cpus = os::usable_cpus());
  ~MappedCache();
  // In a forked child: releases the cache without joining, unregistering or unmapping.
  static void abandon(std::unique_ptr<MappedCache> cache) noexcept { (void)cache.release(); }

  std::uint64_t window_bytes() const noexcept { return window_bytes_; }

  // The entry for this version of a file. Throws std::bad_alloc.
  std::shared_ptr<MappedFile> file(const std::shared_ptr<device::Device>& device, const os::FileIdentity& identity);

  // Null unless the window is registered. Throws std::bad_alloc.
  std::shared_ptr<MappedWindow> window(MappedFile& file, std::size_t index, std::uint64_t now_ns);

  // When registering a window pays, given that its bytes are being read by other means. kSoon: few bytes are in flight,
  // so those means are slow. kOften: threads keep up with the bus if there are enough of them.
  enum class Worth : std::uint8_t { kNow, kSoon, kOften };
  // Counts bytes read from a window by other means, and requests registration once that pays. `path` names the file if
  // there is no handle. urgent: do not wait for other copies. True: this call requested it.
  bool touch(const std::shared_ptr<MappedFile>& file, std::size_t index, std::uint64_t bytes,
             const std::shared_ptr<os::FileHandle>& handle, const char* path, Worth worth, bool urgent = false);
  // touch() for bytes that a reader has read by other means. When it requests a window it also requests the next ones,
  // so that they are ready when a sequential reader reaches them.
  void note_read(const std::shared_ptr<MappedFile>& file, std::size_t index, std::uint64_t bytes,
                 const std::shared_ptr<os::FileHandle>& handle, const char* path, Worth worth);
  static constexpr std::size_t kWindowsAhead = 4;
  // Waits until no request for this window is queued or running.
  void wait(MappedFile& file, std::size_t index);

  // Samples how much of a window is in the page cache. The result is reused for a fifth of a second.
  Warmth warmth(MappedFile& file, std::size_t index, int fd, std::uint64_t now_ns);
  void set_warmth(MappedFile& file, std::size_t index, Warmth warmth, std::uint64_t now_ns);

  // A copy was sent to a device.
  void note_traffic() noexcept { traffic_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t registered_bytes() const noexcept { return used_bytes_.load(std::memory_order_relaxed); }
  // Why windows were not registered, one line, or "".
  std::string note() const;

 private:
  struct Key {
    const device::Device* device;
    std::uint64_t file_device, inode;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return (reinterpret_cast<std::size_t>(key.device) ^ key.file_device * 0x9e3779b97f4a7c15u) +
             key.inode * 0xff51afd7ed558ccdu;
    }
  };
  struct WindowRequest {
    std::shared_ptr<MappedFile> file;
    std::size_t index = 0;
    std::shared_ptr<os::FileHandle> handle;
    std::string path;
    bool urgent = false;
  };
  struct Kept {
    std::shared_ptr<MappedRegion> region;
    std::vector<std::pair<std::weak_ptr<MappedFile>, std::size_t>> windows;
  };
  struct Placed {
    WindowRequest* request = nullptr;
    std::byte* at = nullptr;
    std::uint64_t bytes = 0, mapped_bytes = 0;
  };

  // A file that shares a registration is one window.
  std::uint64_t small_limit() const noexcept;
  void run();
  void announce();
  // others_copy: how long, while others send copies to devices.
  void pause(bool urgent, std::chrono::milliseconds others_copy);
  void serve(std::vector<WindowRequest>& requests);
  void serve_large(WindowRequest& request);
  void serve_small(std::span<WindowRequest> requests);
  void register_placed(std::span<Placed> placed);
  bool make_room(std::uint64_t bytes, std::size_t mappings);
  bool machine_has_room(std::uint64_t bytes);
  bool groups_have_room(std::uint64_t bytes) const noexcept;
  void forget(Kept& kept);
  bool release_idle(std::uint64_t unused_ns);
  void publish(std::span<Placed> placed, std::shared_ptr<MappedRegion> region);
  void refuse(WindowRequest& request, bool permanently, std::uint64_t retry_in_ns);
  int map(WindowRequest& request, std::byte* at, std::uint64_t bytes);
  void set_note(std::string note);
  void drop_windows(MappedFile& file);
  std::string budget_note() const;

  const MappedBudget budget_;
  const std::uint64_t window_bytes_;
  const std::size_t mapping_budget_;
  const bool many_cpus_;
  const std::shared_ptr<NearThreads> near_;  // may be null
  std::atomic<std::uint64_t> traffic_{0};    // copies sent to devices
  std::atomic<unsigned> waiters_{0};
  std::uint64_t seen_traffic_ = 0;    // the thread's own
  std::uint64_t ample_until_ns_ = 0;  // the thread's own: until then the machine has gigabytes to spare
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Key, std::shared_ptr<MappedFile>, KeyHash> files;  // guarded by mutex
  };
  std::array<Shard, 64> shards_;  // sharded, because many threads look up many files
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WindowRequest> requests_;                 // guarded by mutex_
  bool stopping_ = false, started_ = false;             // guarded by mutex_
  std::string note_;                                    // guarded by mutex_
  std::vector<Kept> kept_;                              // the thread's own
  std::vector<std::shared_ptr<MappedRegion>> retired_;  // the thread's own: evicted, but still in use
  std::size_t mappings_ = 0;                            // the thread's own
  std::atomic<std::uint64_t> used_bytes_{0};
  std::thread thread_;
};

}  // namespace headrace::transfer

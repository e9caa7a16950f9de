// MappedCache: windows of files that a device takes out of the page cache itself.
//
// Mapping and registering a window takes milliseconds and a lock in the driver, so a thread does it in the background,
// off every request's way, and windows are kept: under a budget, since registered pages cannot be reclaimed, least
// recently used first out, and none longer than a minute unused. Small files share one registration. What is mapped is
// one version of a file: when identity, size or times differ, the windows are dropped.
//
// Threads: every call from any thread.
// Owns:    mappings, registrations, one thread while there is something to do. A window lives until its last user lets
//          go of it; devices are kept alive by their windows.
#pragma once

#include <headrace/status.h>

#include <array>
#include <atomic>
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

// A registered range of addresses: one large window, or many small files.
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
    std::uint64_t warmth_ns = 0;  // when it was asked
    std::uint64_t retry_ns = 0;   // not to be tried again before
    std::uint64_t touched_bytes = 0, touched_times = 0;
  };
  std::mutex mutex_;
  std::vector<WindowState> slots_;  // guarded by mutex_; grows with use
  bool dropped_ = false;            // guarded by mutex_: another version has taken its place
  WindowState& slot(std::size_t index);
};

// What may be registered. Registered pages cannot be reclaimed, and memory is one: by default a cache leaves room for
// those of other Contexts, and of other processes, on the machine and in each control group that limits memory.
struct MappedBudget {
  std::uint64_t bytes = 0;                          // of this cache
  std::uint64_t process_bytes = ~std::uint64_t{0};  // of all caches of the process
  std::uint64_t machine_bytes = ~std::uint64_t{0};  // pinned by anybody, as far as the kernel tells
  // Control groups: what their processes have mapped, registered or not, stays within half of the page cache's room.
  std::function<std::vector<os::MemoryGroups::PageCache>()> groups = nullptr;  // null: there are none
};

class MappedCache {
 public:
  // Its thread follows `near`, if there is one.
  // cpus: that read beside it.
  explicit MappedCache(const MappedBudget& budget, std::shared_ptr<NearThreads> near = nullptr,
                       unsigned cpus = os::usable_cpus());
  ~MappedCache();
  // In a forked child: nothing is joined, unregistered or unmapped.
  static void abandon(std::unique_ptr<MappedCache> cache) noexcept { (void)cache.release(); }

  std::uint64_t window_bytes() const noexcept { return window_bytes_; }

  // The entry of this version of a file. Throws std::bad_alloc.
  std::shared_ptr<MappedFile> file(const std::shared_ptr<device::Device>& device, const os::FileIdentity& identity);

  // Null unless the window is registered. Throws std::bad_alloc.
  std::shared_ptr<MappedWindow> window(MappedFile& file, std::size_t index, std::uint64_t now_ns);

  // When a window whose bytes are read by other means is worth its registration. kSoon: few bytes are under way, so
  // that those means are slow. kOften: threads keep up with the bus, if there are enough of them.
  enum class Worth : std::uint8_t { kNow, kSoon, kOften };
  // Counts bytes read from a window by other means, and asks for it to be registered once it is worth it. `path` names
  // the file if there is no handle. hurry: others' copies do not hold it back. True: it has now been asked for.
  bool touch(const std::shared_ptr<MappedFile>& file, std::size_t index, std::uint64_t bytes,
             const std::shared_ptr<os::FileHandle>& handle, const char* path, Worth worth, bool hurry = false);
  // touch() for bytes that a reader took by other means; when that asks for a window, the next ones are asked for as
  // well, so that they are ready by the time a sequential reader comes to them.
  void note_read(const std::shared_ptr<MappedFile>& file, std::size_t index, std::uint64_t bytes,
                 const std::shared_ptr<os::FileHandle>& handle, const char* path, Worth worth);
  static constexpr std::size_t kWindowsAhead = 4;
  // Until no request for this window is waiting or under way.
  void wait(MappedFile& file, std::size_t index);

  // What the page cache seems to hold of a window, from some of its pages: asked again when the answer is older than a
  // fifth of a second.
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
    bool hurry = false;
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
  void pause(bool hurry);
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
  void refuse(WindowRequest& request, bool for_good, std::uint64_t retry_in_ns);
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
  std::uint64_t ample_until_ns_ = 0;  // the thread's own: the machine has gigabytes to spare until then
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Key, std::shared_ptr<MappedFile>, KeyHash> files;  // guarded by mutex
  };
  std::array<Shard, 64> shards_;  // many threads look up many files
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WindowRequest> requests_;                 // guarded by mutex_
  bool stopping_ = false, started_ = false;             // guarded by mutex_
  std::string note_;                                    // guarded by mutex_
  std::vector<Kept> kept_;                              // the thread's own
  std::vector<std::shared_ptr<MappedRegion>> retired_;  // the thread's own: still in use by somebody
  std::size_t mappings_ = 0;                            // the thread's own
  std::atomic<std::uint64_t> used_bytes_{0};
  std::thread thread_;
};

}  // namespace headrace::transfer

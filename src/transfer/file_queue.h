// The inside of headrace::FileQueue: requests become parts, parts become waves.
//
// A range goes one of three ways. Mapped: a piece of the wave that is being filled, taken by the device out of a
// registered window. Buffered: parts read by the crew into the slab. Direct: parts read by the queue's own engine into
// the slab. Whatever lies in the slab joins the next wave; a wave is one batch of copies and one event, and when the
// event has passed its slots are free and its requests a step further. Writes go the other way round.
//
// Nothing allocates once lists, waves and parts have been as large as the workload needs. Identity of a file is asked
// once before and once after a wave that takes bytes from its mapping.
//
// The last few files that no request needs are kept open: what was found out about them is used again. Those that the
// program has let go of are the library's, and closed where somebody needs a descriptor.
//
// Threads: one at a time; requests need not be waited for by the thread that made them, and that may have ended. Files
//          that are kept are closed by any thread.
//          In a forked child all that was under way ends as kForked, and nothing is begun.
// Owns:    slab, streams, engine, waves. Files, windows and the context are kept alive while they are needed.
#pragma once

#include <headrace/file.h>
#include <headrace/trace.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/descriptors.h"
#include "base/file_handle.h"
#include "base/page_buffer.h"
#include "device/device.h"
#include "io/request_queue.h"
#include "transfer/file_part.h"
#include "transfer/mapped_cache.h"
#include "transfer/register_later.h"
#include "transfer/resources.h"
#include "transfer/router.h"
#include "transfer/slab_map.h"

namespace headrace {

// The program's claim on a file; queues may keep it open for longer.
class File::Impl {
 public:
  explicit Impl(std::shared_ptr<base::FileHandle> file) noexcept : handle(std::move(file)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (handle.use_count() > 1) handle->end_claim();
  }
  const std::shared_ptr<base::FileHandle> handle;
};

class FileQueue::Impl final : private base::DescriptorKeeper {
 public:
  Impl(std::shared_ptr<transfer::Resources> resources, std::shared_ptr<device::Device> device,
       const FileQueueOptions& options);
  ~Impl();
  Status prepare();

  Status add(const std::shared_ptr<base::FileHandle>& file, std::span<const FileRange> ranges, bool write,
             std::uint64_t tag);
  Status add_paths(std::span<const PathRange> ranges, std::uint64_t tag);
  void flush();
  std::size_t wait(std::span<FileCompletion> out, std::size_t at_least, std::chrono::nanoseconds timeout);
  std::size_t pending() const noexcept { return pending_; }
  FileStats stats() const;
  // stats() without texts, and without the system calls of engine and router.
  const FileStats& counters() const noexcept { return stats_; }
  // Lets go of files that no pending request needs; the queue otherwise keeps the last ones it used.
  void drop_idle_files() noexcept;
  // Lets another thread use the queue from now on. REQUIRES: nothing pending.
  void leave_thread();

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  static constexpr std::uint64_t kPageUnit = 4096;
  static constexpr std::size_t kWavePieces = 4096;  // a wave is sent off with so many from mappings, or 16 MiB

  using FileIndex = std::unordered_map<const base::FileHandle*, Index>;
  // A file that requests in hand read from.
  struct FileState : transfer::RoutedFile {
    std::size_t requests = 0;
    std::uint64_t idle_since_ns = 0;  // while no request needs it
    FileIndex::node_type entry;       // of file_index_, while it names no file: used again
  };
  struct Request {
    std::uint64_t tag = 0;
    bool write = false;
    bool under_way = false;  // from add() until it is in ended_
    bool listed = false;     // in issuing_
    bool stopped = false;    // has failed: nothing more of it is begun
    Index file = kNone;
    std::size_t count = 0;            // of ranges
    std::vector<FileRange> ranges;    // a copy of the caller's
    std::span<const FileRange> list;  // what is issued from: the copy, or at first the caller's own
    std::vector<PathRange> paths;
    std::size_t next = 0;           // first range not wholly issued
    std::uint64_t next_byte = 0;    // within it
    std::uint64_t outstanding = 0;  // parts and pieces under way
    std::uint64_t bytes = 0;
    Status status;
  };
  struct Share {  // of a request in a wave: pieces from a mapping
    Index request = kNone;
    std::uint64_t pieces = 0;
    std::uint64_t end = 0;  // of the file, as far as they reach
  };
  struct Wave {
    bool in_flight = false;
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    std::uint64_t launched_ns = 0;  // 0 unless a trace is recorded
    std::vector<device::Piece> pieces;
    std::vector<transfer::FilePart*> parts;
    std::vector<Share> shares;
    std::vector<std::shared_ptr<transfer::MappedWindow>> windows;
    std::unique_ptr<device::Event> event;
    void clear();
  };
  // Waves in one direction, used in turn on two streams.
  struct Lane {
    std::vector<Wave> waves;
    std::size_t filling = 0, oldest = 0, in_flight = 0;
    std::unique_ptr<device::Stream> streams[2];
    bool to_host = false;
  };
  Result<Index> take_request();
  Index file_state(const std::shared_ptr<base::FileHandle>& file);
  void end_file_use(Index index) noexcept;
  void let_go(Index index) noexcept;
  std::unique_lock<std::mutex> lock_files() noexcept;
  std::vector<Index>::iterator oldest_unclaimed() noexcept;
  std::uint64_t oldest_ns() noexcept override;
  bool close_oldest() noexcept override;
  void issue();
  void take_small();
  bool issue_request(Index index);
  bool issue_paths(Index index);
  bool issue_write(Index index);

  transfer::FilePart* take_part(Index request, std::uint64_t slot_bytes);
  void start_part(transfer::FilePart& part);
  void start_direct(transfer::FilePart& part);
  void start_engine(bool wait_follows);
  void read_arrived(transfer::FilePart& part);
  void written(transfer::FilePart& part);
  void finish_part(transfer::FilePart& part);
  void free_part(transfer::FilePart& part);
  void step(Index request, std::uint64_t count);
  void fail(Index request, Status status);
  void end_if_done(Index request);
  void end_all(const Status& status);

  Status make_lane(Lane& lane, bool to_host);
  Wave* filling(Lane& lane);
  static bool full(const Wave& wave);
  void launch(Lane& lane);
  bool poll_waves(Lane& lane);
  void finish_wave(Lane& lane, Wave& wave);
  void check_shares(Wave& wave);

  void work(std::size_t at_least, std::chrono::nanoseconds timeout);
  bool progress();
  bool collect();
  bool reap_engine(std::chrono::nanoseconds timeout);
  bool spin_on_wave();
  void idle(std::uint64_t deadline_ns, std::uint64_t busy_ns);
  Status make_engine();
  std::span<std::byte> slab() const noexcept {
    return {slab_, slab_ != nullptr ? options_.staging_bytes : std::size_t{0}};
  }
  trace::Stage awaited() const noexcept;

  const std::shared_ptr<transfer::Resources> resources_;
  const std::shared_ptr<device::Device> device_;
  const FileQueueOptions options_;
  const bool staged_;
  transfer::MappedCache* mapped_ = nullptr;
  transfer::Notes notes_;
  transfer::FileRouter router_;

  std::byte* slab_ = nullptr;
  base::PageBuffer unpinned_slab_;  // of a device that copies nothing out of it: pages are made as they are used
  std::optional<transfer::SlabMap> slab_map_;
  std::vector<transfer::FilePart> parts_;
  std::vector<transfer::FilePart*> free_parts_;
  std::vector<transfer::FilePart*> to_crew_, arrived_, collected_;
  std::shared_ptr<transfer::FileCrew> crew_;
  transfer::NearThreads::Use near_use_;

  std::unique_ptr<io::Engine> engine_;
  std::optional<io::RequestQueue> engine_queue_;
  bool engine_failed_ = false;
  transfer::RegisterLater registering_;
  std::vector<io::IoRequest> to_engine_;
  std::vector<io::Completion> from_engine_;
  std::size_t direct_in_flight_ = 0;  // with those in to_engine_
  bool waiting_ = false;              // in wait(): what is in to_engine_ is started by the call that waits for it
  std::uint64_t engine_polled_ns_ = 0;

  // Which files there are and which are idle is changed under the lock; what a request needs stays where it is.
  std::mutex files_mutex_;  // taken with the lock of Descriptors held
  std::vector<FileState> files_;
  FileIndex file_index_;           // of files_, by what they name
  std::vector<Index> free_files_;  // those that name none
  std::vector<Index> idle_files_;  // those that no request needs, longest idle first; a few
  std::vector<Request> requests_;
  std::vector<Index> free_requests_;
  std::vector<Index> issuing_;  // oldest first, from issuing_head_ on
  std::size_t issuing_head_ = 0;
  std::vector<Index> ended_;  // from ended_head_ on
  std::size_t ended_head_ = 0;
  std::size_t pending_ = 0;
  Lane in_, out_;
  std::uint64_t wave_number_ = 0;
  FileStats stats_;
};

}  // namespace headrace

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
// Threads: one at a time; requests need not be waited for by the thread that made them, and that may have ended. Files
//          that are kept are closed by any thread.
//          In a forked child all that was under way ends as kForked, and nothing is begun.
// Owns:    slab, streams, engine, waves. Files, windows and the context are kept alive while they are needed.
#pragma once

#include <headrace/file.h>
#include <headrace/trace.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_handle.h"
#include "base/page_buffer.h"
#include "device/device.h"
#include "transfer/direct_lane.h"
#include "transfer/file_part.h"
#include "transfer/mapped_cache.h"
#include "transfer/queue_files.h"
#include "transfer/request_list.h"
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

class FileQueue::Impl final {
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
  std::size_t pending() const noexcept { return requests_.pending(); }
  FileStats stats() const;
  // stats() without texts, and without the system calls of engine and router.
  const FileStats& counters() const noexcept { return stats_; }
  // Lets go of files that no pending request needs; the queue otherwise keeps the last ones it used.
  void drop_idle_files() noexcept { files_.drop_idle(); }
  // Lets another thread use the queue from now on. REQUIRES: nothing pending.
  void leave_thread();

 private:
  using Index = std::uint32_t;
  static constexpr std::uint64_t kPageUnit = 4096;
  static constexpr std::size_t kWavePieces = 4096;  // a wave is sent off with so many from mappings, or 16 MiB

  using Request = transfer::FileRequest;
  struct Share {  // of a request in a wave: pieces from a mapping
    Index request = 0;
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

  transfer::DirectLane direct_;
  bool waiting_ = false;  // in wait(): what was added to direct_ is started by the call that waits for it

  transfer::QueueFiles files_;
  transfer::RequestList requests_;
  Lane in_, out_;
  std::uint64_t wave_number_ = 0;
  FileStats stats_;
};

}  // namespace headrace

// Mover: moves bytes between files and device memory, for headrace::FileQueue and the cuFile library. Requests become
// parts, parts become batches of copies.
//
// A range takes one of three paths. Mapped: it becomes a piece of the batch being filled, which the device copies from
// a registered window. Buffered: the crew reads parts into the slab. Direct: the mover's own engine reads parts into
// the slab. Parts in the slab join the next batch; when a batch has passed, its slots are free and its requests have
// progressed. Writes go the other way round.
//
// The source files call downwards only: mover.cc (takes requests, returns completions, makes progress), mover_issue.cc
// (splits a request into parts and pieces), mover_parts.cc (starts and ends parts), then the lanes, which return what
// has completed and never call upwards.
//
// Nothing allocates once lists, batches and parts have been as large as the workload needs. A file's identity is
// queried once before and once after a batch that takes bytes from its mapping.
//
// Threads: one at a time. A request may be waited for by another thread than the one that made it, which may have
//          ended. Any thread may close files that are kept.
//          In a forked child everything in flight ends as kForked, and nothing is started.
// Owns:    slab, streams, engine, batches. Keeps files, windows and the context alive while it needs them.
#pragma once

#include <headrace/file.h>
#include <headrace/trace.h>
#include <headrace_bench/file_queue.h>

#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "os/file_handle.h"
#include "transfer/context/resources.h"
#include "transfer/fetch/straight_reads.h"
#include "transfer/files/copy_lane.h"
#include "transfer/files/crew_lane.h"
#include "transfer/files/direct_lane.h"
#include "transfer/files/file_part.h"
#include "transfer/files/part_pool.h"
#include "transfer/files/queue_files.h"
#include "transfer/files/request_list.h"
#include "transfer/pagecache/router.h"

namespace headrace::transfer {

class Mover {
 public:
  Mover(std::shared_ptr<Resources> resources, std::shared_ptr<device::Device> device, const FileQueueOptions& options,
        const QueueSkips& skips = {});
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  ~Mover();
  Status prepare();

  Status add(const std::shared_ptr<os::FileHandle>& file, std::span<const FileRange> ranges, bool write,
             std::uint64_t tag);
  Status add_paths(std::span<const PathRange> ranges, std::uint64_t tag);
  void flush();
  std::size_t wait(std::span<FileCompletion> out, std::size_t at_least, std::chrono::nanoseconds timeout);
  std::size_t pending() const noexcept { return requests_.pending(); }
  FileStats stats() const;
  // stats() without texts, and without the system calls of engine and router.
  const FileStats& counters() const noexcept { return stats_; }
  // Releases files that no pending request needs; otherwise the most recently used ones are kept.
  void drop_idle_files() noexcept { files_.drop_idle(); }
  // Allows another thread to use the mover from now on. REQUIRES: nothing pending.
  void leave_thread();

 private:
  using Index = RequestList::Index;

  // mover.cc
  void work(std::size_t at_least, std::chrono::nanoseconds timeout);
  bool progress();
  Status check_cancelled();
  bool collect();
  bool take_passed(CopyLane& lane);
  bool take_arrived();
  bool reap_engine(std::chrono::nanoseconds timeout);
  void idle(std::uint64_t deadline_ns, std::uint64_t busy_ns);
  trace::Stage awaited_stage() const noexcept;

  // mover_issue.cc
  void issue();
  bool issue_ranges(Index index);
  bool issue_paths(Index index);
  bool issue_write(Index index);
  FilePart* take_part(Index request, std::uint64_t slot_bytes);

  // mover_parts.cc
  CopyBatch* filling(CopyLane& lane);
  void launch(CopyLane& lane);
  void start_part(FilePart& part);
  void start_direct(FilePart& part);
  bool open_direct() noexcept;
  bool goes_straight(FileRequest& request);
  bool retry_through_slot(FilePart& part);
  Status wait_for_caller_stream();
  void start_engine(bool wait_follows);
  bool try_another_way(FilePart& part);
  bool arrive(FilePart& part);
  void finish_part(FilePart& part);
  void finish_batch(CopyLane& lane, CopyBatch& batch);
  void check_shares(const CopyBatch& batch);

  const std::shared_ptr<Resources> resources_;
  const std::shared_ptr<device::Device> device_;
  const FileQueueOptions options_;
  const QueueSkips skips_;
  const bool staged_;
  Router router_;
  QueueFiles files_;
  RequestList requests_;
  PartPool parts_;
  std::vector<FilePart*> arrived_;
  CrewLane crew_;
  DirectLane direct_;
  CopyLane in_{CopyLane::Direction::kToDevice}, out_{CopyLane::Direction::kToHost};
  std::unique_ptr<device::Stream> caller_stream_;  // both made when first needed
  std::unique_ptr<device::Event> caller_stream_event_;
  bool cancelled_ = false;  // options_.cancel was triggered, and all requests have failed
  StraightReads straight_reads_{"queue"};
  bool waiting_ = false;  // in wait(): parts added to direct_ are started by the call that waits for them
  NearThreads::Use near_use_;
  FileStats stats_;
};

}  // namespace headrace::transfer

// ReadOperation: one read on its way from the store into the caller's tensor.
//
// The plan fills waves; workers claim runs of a wave's groups, read what is in the page cache themselves and send the
// rest to the I/O service in one batch a claim; a wave's sink takes what was read, and is launched once it has all. A
// wave comes back by event. Locks are taken per claim and per wave, never per chunk; nothing is allocated once the
// waves exist.
//
// Threads: work() on any number of threads; the rest from any thread.
// Owns:    waves and lanes; plan and device until the read has ended. The plan keeps the Context alive; it is let go of
//          before the end is announced, so that the last owner is normally the caller and not a worker.
#pragma once

#include <headrace/array.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptors.h"
#include "base/fork.h"
#include "base/trace.h"
#include "device/device.h"
#include "transfer/chunk_sink.h"
#include "transfer/cold_reads.h"
#include "transfer/device_sink.h"
#include "transfer/fetcher.h"
#include "transfer/io_service.h"
#include "transfer/lane.h"
#include "transfer/mapped_reads.h"
#include "transfer/placement.h"
#include "transfer/plan.h"
#include "transfer/read_report.h"
#include "transfer/read_sizes.h"
#include "transfer/read_tasks.h"
#include "transfer/resources.h"
#include "transfer/router.h"
#include "transfer/turns.h"
#include "transfer/wave.h"
#include "transfer/worker_pool.h"

namespace headrace::transfer {

// When a read began, and how long its plan took to make: both are counted.
struct ReadBegun {
  std::uint64_t start_ns = 0;
  double plan_seconds = 0;
};

class ReadOperation final : public Workload,
                            public base::DescriptorWaiter,
                            public std::enable_shared_from_this<ReadOperation> {
 public:
  // Fails before anything is read: kResourceExhausted when not even one chunk fits the budgets.
  static Result<std::shared_ptr<ReadOperation>> create(Resources& resources, std::unique_ptr<Plan> plan,
                                                       std::shared_ptr<device::Device> device, ReadOptions options,
                                                       const ReadBegun& begun);
  ~ReadOperation() override;

  Progress work() override;
  void descriptor_closed() noexcept override;

  // Starts on the pool's workers and returns.
  void start();
  // Starts and lets the calling thread work along until the read has ended.
  Status run();
  Status wait();
  bool wait_for(std::chrono::nanoseconds timeout);  // done(), then or after `timeout`
  bool done() const;
  void cancel();
  // REQUIRES: done().
  const Stats& stats() const { return report_.stats(); }
  const std::vector<ChunkError>& errors() const { return report_.errors(); }

 private:
  enum class ClaimKind : std::uint8_t { kNone, kFinished, kFill, kGroups, kJobs, kDrain };
  struct Claim {
    ClaimKind kind = ClaimKind::kNone;
    Wave* wave = nullptr;
    std::uint32_t begin = 0, end = 0;
    trace::Stage waits_for = trace::Stage::kWait;  // of kNone: what has to go on before there is something to do
  };

  ReadOperation(Resources& resources, std::unique_ptr<Plan> plan, std::shared_ptr<device::Device> device,
                ReadOptions options, std::uint64_t start_ns);
  Status prepare();
  Result<ReadSizes> size(ChunkDecoding& decoding);
  Status make_waves(const ReadSizes& sizes, ChunkDecoding decoding);
  std::shared_ptr<PlacementPolicy> placement_policy(const ReadSizes& sizes, std::size_t first_stage);
  Claim claim();
  Claim claim_locked();
  Wave* passed_wave_locked();
  trace::Stage waits_for_locked() const;
  void fill_wave(Wave& wave, Lane& lane);
  void fill_later(Wave& wave);
  void put_back(Wave& wave, std::uint32_t begin, std::uint32_t end);
  void wait_for_descriptor();
  void run_groups(Wave& wave, std::uint32_t begin, std::uint32_t end, Lane& lane);
  void run_jobs(Lane& lane);
  void finish_groups(Wave& wave, std::uint32_t count, Lane& lane);
  void release_wave_locked(Wave& wave);
  bool stopped_locked();
  bool complete_locked();
  void give_back();
  Lane* acquire_lane();
  void release_lane(Lane* lane);

  // group_io.cc: one group from object to stored bytes, and a wave from its launch to its end.
  enum class GroupResult : std::uint8_t { kDone, kCold, kMapped, kStarved };
  GroupResult process_group(Wave& wave, std::uint32_t group_index, Lane& lane);
  GroupResult read_group(Wave& wave, std::uint32_t group_index, const store::ByteSource& object, std::uint64_t offset,
                         std::uint64_t length, Lane& lane);
  void unpack_group(Wave& wave, const Group& group, const StoredRange& whole, Lane& lane);
  Status admit_length(const Group& group, std::uint64_t length, Lane& lane) const;
  void post_cold(Wave& wave, Lane& lane);
  bool try_post_cold(Wave& wave, Lane& lane);
  Status launch_wave(Wave& wave, Lane& lane);
  void drain_wave(Wave& wave, Lane& lane);
  Status take_returned(Wave& wave, std::span<const std::uint32_t> returned, Lane& lane);
  void check_sources(const Wave& wave);

  static constexpr std::uint32_t kMaxGroupsPerClaim = 64;

  Resources& resources_;
  const WorkerPool::Notifier notifier_;
  std::unique_ptr<Plan> plan_;
  const Fetcher fetcher_;  // of the plan's store
  const std::shared_ptr<device::Device> device_;
  const ReadOptions options_;
  const bool cache_reads_;  // by the workers; an engine asked for by name gets everything
  const std::uint64_t start_ns_;
  ReadReport report_;
  const ReadTasks tasks_;
  ObjectRouter router_;
  ColdReads cold_;
  MappedReads mapped_;
  std::unique_ptr<ChunkSink> cpu_sink_;     // of waves that the CPU decodes
  std::unique_ptr<ChunkSink> device_sink_;  // and the device; null: none
  std::optional<Turns> turns_;
  std::uint64_t planned_bytes_ = 0;  // most that one group's stored bytes take, but for unusual ones
  std::string decode_note_;          // why the device does not decode
  NearThreads::Use near_use_;        // from start() on
  std::vector<std::unique_ptr<Wave>> waves_;
  std::vector<std::unique_ptr<Lane>> lanes_;

  mutable std::mutex mutex_;
  base::ProcessOwn<std::condition_variable> ended_;
  std::atomic<bool> starved_{false};  // nothing is opened before another file of the process is closed
  // Guarded by mutex_:
  std::vector<Lane*> free_lanes_;
  std::vector<Wave*> filled_;  // oldest first
  struct Left {                // groups that were claimed, and found no descriptor
    Wave* wave;
    std::uint32_t begin, end;
  };
  std::vector<Left> left_;
  bool filling_ = false, exhausted_ = false, draining_ = false, ending_ = false, done_ = false;
  bool dropped_ = false;  // what was not claimed when the read was stopped
  std::uint64_t asked_ns_ = 0;
};

}  // namespace headrace::transfer

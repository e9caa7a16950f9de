// ReadOperation: one read on its way from the store into the caller's tensor.
//
// The plan fills waves; workers claim runs of a wave's groups, read what is in the page cache themselves and send the
// rest to the I/O service in one batch a claim; chunks are decoded into the tensor (devices the CPU can address) or
// into the wave's pinned slab, which then crosses the bus in one copy call and is placed by one assemble call. A slab
// comes back by event. Locks are taken per claim and per wave, never per chunk; nothing is allocated once the waves
// exist.
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
#include "transfer/cold_reads.h"
#include "transfer/fetcher.h"
#include "transfer/io_service.h"
#include "transfer/lane.h"
#include "transfer/placement.h"
#include "transfer/plan.h"
#include "transfer/read_report.h"
#include "transfer/read_sizes.h"
#include "transfer/resources.h"
#include "transfer/router.h"
#include "transfer/staging.h"
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
  bool on_device(const Wave& wave) const noexcept { return staged_ && wave.turn.kind == WaveKind::kGpu; }
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
  Claim claim();
  Claim claim_locked();
  Wave* passed_wave_locked();
  trace::Stage waits_for_locked() const;
  void notice_copies_locked();
  void fill_wave(Wave& wave, Lane& lane);
  void fill_later(Wave& wave);
  void put_back(Wave& wave, std::uint32_t begin, std::uint32_t end);
  void wait_for_descriptor();
  void run_groups(Wave& wave, std::uint32_t begin, std::uint32_t end, Lane& lane);
  void run_jobs(Lane& lane);
  void drain_wave(Wave& wave, Lane& lane);
  void finish_groups(Wave& wave, std::uint32_t count, Lane& lane);
  void check_sources(const Wave& wave);
  Status launch_wave(Wave& wave, Lane& lane);
  Status queue_wave(Wave& wave, Lane& lane);
  Status assemble_several(Wave& wave, std::span<const SeveralBoxes> tasks, Lane& lane);
  bool choose_kind(Wave& wave);
  CpuWork cpu_work(const Wave& wave) const;
  void release_wave_locked(Wave& wave);
  bool stopped_locked();
  bool complete_locked();
  void give_back();
  Lane* acquire_lane();
  void release_lane(Lane* lane);

  // mapped_read.cc: what the device takes out of the page cache itself.
  bool map_group(Wave& wave, std::uint32_t group_index, const store::ByteSource& object, std::uint64_t offset,
                 std::uint64_t length, Lane& lane);
  bool place_together(Wave& wave, const Group& group, std::uint64_t offset, std::uint64_t length);
  Status add_pieces(std::uint32_t task_index, std::uint64_t offset, std::uint64_t length, std::size_t first,
                    Lane& lane);
  bool map_task(Wave& wave, const Group& group, std::uint32_t task_index, std::uint64_t offset, std::uint64_t length,
                Lane& lane);
  void note_unmapped(const Wave& wave, const Group& group, std::uint64_t offset, std::uint64_t length, Lane& lane);
  bool hand_over_mapped(Wave& wave, Lane& lane);
  Status add_mapped_pieces(Wave& wave, bool scattered);
  void settle_mapped(Wave& wave, Lane& lane);
  Status read_mapped_again(Wave& wave, std::uint32_t task_index, Lane& lane, std::span<const std::byte>& encoded);
  void close_mapped(Wave& wave) noexcept;

  // device_decode.cc: waves that carry encoded bytes.
  Status make_decoder();
  std::optional<std::span<std::byte>> reserve_encoded(Wave& wave, std::uint32_t task_index, std::uint64_t bytes);
  void stage_encoded(Wave& wave, const Group& group, std::uint32_t task_index, std::span<const std::byte> encoded,
                     Lane& lane);
  Status place_encoded(Wave& wave, std::uint32_t task_index, std::uint64_t length, Lane& lane);
  Status queue_decode(Wave& wave, Lane& lane);
  std::size_t count_decoded(Wave& wave, Lane& lane);
  device::DecodeIndices indices_of(const Wave& wave) const;
  device::DecodeIndices give_indices(Wave& wave);
  void keep_indices(const Wave& wave, Lane& lane);
  Status decode_returned(Wave& wave, Lane& lane);
  Status upload_returned(Wave& wave, std::vector<device::Box>& boxes, std::vector<SeveralBoxes>& several, Lane& lane);
  static const store::ByteSource& object_of(const Wave& wave, std::uint32_t group_index);
  bool lend_temporaries(Lane& lane);

  // group_io.cc: one group from object to decoded bytes.
  enum class GroupResult : std::uint8_t { kDone, kCold, kMapped, kStarved };
  GroupResult process_group(Wave& wave, std::uint32_t group_index, Lane& lane);
  GroupResult read_group(Wave& wave, std::uint32_t group_index, const store::ByteSource& object, std::uint64_t offset,
                         std::uint64_t length, Lane& lane);
  std::optional<std::span<std::byte>> encoded_target(Wave& wave, std::uint32_t group_index, std::uint64_t length,
                                                     Lane& lane);
  void unpack_group(Wave& wave, std::uint32_t group_index, const StoredRange& whole, Lane& lane);
  Status admit_length(const Group& group, std::uint64_t length, Lane& lane) const;
  void post_cold(Wave& wave, Lane& lane);
  bool try_post_cold(Wave& wave, Lane& lane);
  void decode_group(Wave& wave, std::uint32_t group_index, std::span<const std::byte> data, std::uint64_t data_offset,
                    Lane& lane);
  Status place_task(Wave& wave, std::uint32_t task_index, std::span<const std::byte> decoded, std::uint64_t skipped,
                    Lane& lane);
  Status stage_boxes(Wave& wave, std::uint32_t task_index, std::span<const std::byte> decoded, std::uint64_t skipped,
                     TaskDetail& detail) const;
  void fill_task(Wave& wave, const Group& group, std::uint32_t task_index, Lane& lane);
  void fail_task(Wave& wave, const Group& group, const Task& task, Lane& lane, Status status);
  void fail_group(Wave& wave, std::uint32_t group_index, Lane& lane, Status status);
  void describe(const Group& group, const Task& task, Lane& lane) const;
  std::span<std::byte> staged_target(const Wave& wave, std::uint32_t task_index) const;
  std::span<std::byte> place_on_device(const Wave& wave, std::uint32_t task_index) const;

  static constexpr std::uint32_t kMaxGroupsPerClaim = 64;

  Resources& resources_;
  const WorkerPool::Notifier notifier_;
  std::unique_ptr<Plan> plan_;
  const Fetcher fetcher_;  // of the plan's store
  const std::shared_ptr<device::Device> device_;
  const ReadOptions options_;
  const bool staged_;
  const bool cache_reads_;  // by the workers; an engine asked for by name gets everything
  ObjectRouter router_;
  ColdReads cold_;
  bool may_map_ = false;             // the device may take bytes out of the page cache
  std::uint64_t planned_bytes_ = 0;  // most that one group's stored bytes take, but for unusual ones
  std::uint64_t slab_stride_ = 0;    // bytes between decoded chunks in a slab
  std::size_t wave_tasks_ = 0;       // most of a wave
  std::size_t trial_tasks_ = 0;      // and of one that finds out who decodes faster
  WaveAreas areas_;
  std::unique_ptr<device::ChunkDecoder> decoder_;  // null: every chunk is decoded by the CPU
  std::size_t device_stage_ = 0;                   // first that the decoder undoes
  std::uint64_t index_stride_ = 0;                 // 0: no decode indices
  std::shared_ptr<PlacementPolicy> policy_;        // kAuto with a decoder
  std::string decode_note_;                        // why the device does not decode
  NearThreads::Use near_use_;                      // from start() on
  const std::uint64_t start_ns_;
  ReadReport report_;
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

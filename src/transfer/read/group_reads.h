// GroupReads: gets each group of a read's waves from its object and gives the stored bytes to the wave's sink.
//
// A worker itself reads what the page cache has. The rest of a claim goes to the I/O service in one batch, and to the
// sink on completion. Nothing is allocated once the waves exist.
// group_reads.cc handles files and completions, group_ranges.cc ranges of stores.
//
// Threads: run() and resume() from any number of threads, for different groups and each with its own Worker; the rest
//          from any thread.
// Owns:    nothing of the waves.
// Fails:   a group that cannot be read is reported as failed; running out of memory stops the read.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transfer/context/resources.h"
#include "transfer/context/worker.h"
#include "transfer/fetch/cold_reads.h"
#include "transfer/fetch/fetcher.h"
#include "transfer/pagecache/router.h"
#include "transfer/plan/plan.h"
#include "transfer/read/answer_cache.h"
#include "transfer/read/mapped_reads.h"
#include "transfer/read/placing.h"
#include "transfer/read/read_tasks.h"
#include "transfer/read/scheduler.h"
#include "transfer/read/wave.h"
#include "transfer/read/wave_form.h"

namespace headrace::transfer {

class GroupReads {
 public:
  // Everything outlives it. kept: KeptChunks::in_memory; null: none.
  // staged_device: into whose memory an engine may read; null: none.
  GroupReads(Resources& resources, Plan& plan, const ReadTasks& tasks, Router& router, MappedReads& mapped,
             const WaveForms& forms, const std::vector<std::unique_ptr<Wave>>& waves, ChunkCache* kept,
             std::shared_ptr<device::Device> staged_device);

  // See WaveWork.
  WaveWork::RunResult run(std::uint32_t wave, std::uint32_t begin, std::uint32_t end, Worker& worker);
  std::size_t in_flight() const { return cold_.in_flight(); }
  bool any_completed() const noexcept { return cold_.any_completed(); }
  bool idle() const { return cold_.idle(); }
  std::span<const std::uint32_t> resume(Worker& worker, std::size_t workers);
  void cancel();

  // Call when the wave has read everything it needs of its sources: stops the read if one of them has changed.
  void check_sources(const Wave& wave);

 private:
  enum class Ended : std::uint8_t { kDone, kCold, kMapped, kStarved };

  Ended process_group(Wave& wave, std::uint32_t group_index, Worker& worker);
  Ended read_group(Wave& wave, std::uint32_t group_index, const StoredRange& range, const std::optional<RawSpan>& part,
                   Worker& worker);
  Ended read_file(Wave& wave, std::uint32_t group_index, const StoredRange& range, Worker& worker);
  Ended want_range(Wave& wave, std::uint32_t group_index, const StoredRange& range, Worker& worker);
  std::uint64_t asked_bytes(const codec::Chain& chain, std::uint64_t length) const noexcept;
  bool requests_whole_object(const Wave& wave, const StoredRange& chunk) const noexcept;
  bool open_local(Wave& wave, std::uint32_t group_index, const StoredRange& range, Worker& worker);
  static void note_local(Wave& wave, std::uint32_t group_index, const store::ByteSource& object);
  void request_from_store(Wave& wave, std::uint32_t group_index, std::uint64_t offset, std::uint64_t length,
                          Worker& worker);
  static void set_range(Wave& wave, std::uint32_t group_index, const store::ByteSource::Ranges& of, bool whole);
  bool resume_file(Wave& wave, std::uint32_t group_index, Status status, Worker& worker);
  bool resume_range(Wave& wave, std::uint32_t group_index, Status status, Worker& worker);
  bool resume_table(Wave& wave, std::uint32_t group_index, Worker& worker);
  bool resume_part(Wave& wave, std::uint32_t group_index, Status& status, Worker& worker);
  bool tells_versions() const noexcept;
  void give(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
            Worker& worker) const;
  std::uint64_t expected_bytes(const codec::Chain& chain) const noexcept;
  bool restart(Worker& worker);
  void read_long(Wave& wave, std::uint32_t group_index, std::uint64_t size_bytes, Worker& worker);
  void read_here(Wave& wave, const TaskGroup& group, const StoredRange& range, Worker& worker);
  bool parks(const Wave& wave, std::uint64_t length) const noexcept;
  Status admit_length(const Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) const;
  bool post_cold(std::uint32_t wave, Worker& worker);
  bool try_post_cold(std::uint32_t wave, Worker& worker);
  bool aim_straight(Wave& wave, std::uint32_t group_index);
  bool leave_straight(Wave& wave, std::uint32_t group_index);

  Resources& resources_;
  Plan& plan_;
  const ReadTasks& tasks_;
  Router& router_;
  MappedReads& mapped_;
  const WaveForms& forms_;
  const std::vector<std::unique_ptr<Wave>>& waves_;
  const AnswerCache answers_;
  const bool tells_lengths_;  // whether the store reports the size of whole objects
  const Fetcher fetcher_;     // for the plan's store
  ColdReads cold_;
  const std::shared_ptr<device::Device> staged_device_;
  // For a user's store: the object size that it reported last, 0: none yet; and whether it has reported a version in
  // this read.
  std::atomic<std::uint64_t> seen_bytes_{0};
  std::atomic<bool> tells_versions_{false};
};

}  // namespace headrace::transfer

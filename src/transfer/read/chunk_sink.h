// ChunkSink: where the chunks of a read go. A wave belongs to one sink, from begin() until it is settled.
//
//   HostSink      decodes into the tensor, which the CPU can address
//   StagedSink    decodes into a pinned slab, which is copied to the device in one call and placed in one call
//   DeviceSink    copies encoded bytes to the device, which decodes and places them
//   ElementsSink  keeps elements of variable length, which are gathered once the read has ended
//
// A task that fails is noted in the read's report; a wave that cannot be launched is returned as a Status.
//
// Threads: room() to take_mapped() from any number of threads, for different groups and each with its own Worker; the
//          rest from one thread at a time, before or after those.
// Owns:    nothing of a wave. All work that it queued has finished once drain() has returned.
// Fails:   every call may throw std::bad_alloc unless it is noexcept; only drain() may be called for the wave after
//          that.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>

#include "os/file_handle.h"
#include "os/page_buffer.h"
#include "transfer/context/worker.h"
#include "transfer/read/mapped_range.h"
#include "transfer/read/read_tasks.h"
#include "transfer/read/wave.h"

namespace headrace::transfer {

// A part of a chunk: stored bytes from which codec::Chain::decode_part() produces a run of the decoded bytes.
struct StoredPart {
  std::span<const std::byte> bytes;
  std::uint64_t skipped = 0;     // decoded bytes before the first that these produce
  std::uint64_t part_bytes = 0;  // decoded bytes that these produce
};

// The available stored bytes of a task.
struct StoredChunk {
  std::span<const std::byte> bytes;
  std::uint64_t skipped = 0;     // decoded bytes before the first that these produce; for raw chunks and parts
  std::uint64_t part_bytes = 0;  // how many bytes codec::Chain::decode_part() produces; 0: the whole chunk is decoded
  // The parts after the first, where a chunk has several. Each is decoded to its own place in the chunk.
  std::span<const StoredPart> more = {};
};

class ChunkSink {
 public:
  virtual ~ChunkSink() = default;

  // The wave has been filled. Sizes the wave's lists, which only grow.
  virtual void begin(Wave& wave) { (void)wave; }

  // Whether the sink allocates memory of any length for stored bytes itself. The read then neither plans nor charges
  // that memory, and does not park long chunks with the I/O service.
  virtual bool has_own_buffers() const noexcept { return false; }
  // Where a worker puts the group's stored bytes, exactly `length`; nullopt: the group has failed.
  std::optional<std::span<std::byte>> room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker);
  // Memory of the sink's own into which a store may write up to `length` of the group's stored bytes, so that they need
  // no copy; empty: none.
  virtual std::span<std::byte> arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) {
    return (void)wave, (void)group, (void)length, (void)worker, std::span<std::byte>();
  }
  // Scratch for an object that its store unpacks to `length` bytes, and the locks that are held while it unpacks.
  struct UnpackRoom {
    os::PageBuffer* scratch = nullptr;
    std::shared_lock<std::shared_mutex> shared;
    std::unique_lock<std::shared_mutex> exclusive;
  };
  virtual Result<UnpackRoom> unpack_room(std::uint64_t length, Worker& worker);
  // The worker has finished or parked a group, and no longer uses its memory.
  virtual void end_group(Worker& worker) noexcept { (void)worker; }
  // Takes a group's tasks. `data` holds the object's bytes from `data_offset` on.
  void take(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
            Worker& worker);
  // Takes one task that has stored bytes.
  void take_chunk(Wave& wave, const TaskGroup& group, std::uint32_t task_index, std::span<const std::byte> data,
                  std::uint64_t data_offset, Worker& worker);
  // Takes the only task of a group, for which Chain::cut() produced a part.
  void take_part(Wave& wave, const TaskGroup& group, const StoredChunk& part, Worker& worker);
  // The most parts in which a chunk may be given; 0: only whole chunks.
  virtual std::size_t most_parts(const Wave& wave) const noexcept { return (void)wave, 0; }
  bool takes_parts(const Wave& wave) const noexcept { return most_parts(wave) > 0; }
  // Takes the group's chunks from the cache. `version`: their content; nullopt: it is unknown, so nothing is cached.
  // object_bytes: size of an object that is one chunk, perhaps unknown. False: some chunks are missing, so the group
  // has to be read; the cached ones are then taken together with it.
  virtual bool take_kept(Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
                         std::uint64_t object_bytes, Worker& worker) {
    return (void)wave, (void)group, (void)version, (void)object_bytes, (void)worker, false;
  }
  // The chunk's store has answered with `bytes` stored bytes, which will be taken. versioned: the store reported their
  // version; without one the chunk is not cached.
  virtual void note_answer(Wave& wave, std::uint32_t task_index, std::uint64_t bytes, bool versioned) noexcept {
    (void)wave, (void)task_index, (void)bytes, (void)versioned;
  }
  // Whether the whole chunk has to be read because the wave will put it in the cache.
  virtual bool keeps(const Wave& wave, std::uint32_t task_index) const noexcept {
    return (void)wave, (void)task_index, false;
  }
  // The wave has ended, successfully or not.
  virtual void release(Wave& wave) noexcept { (void)wave; }
  // Takes a task that has no stored bytes.
  void fill(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker);
  // Whether the wave's stored bytes may stay in a mapping, from which the device copies them.
  virtual bool takes_mapped(const Wave& wave) const noexcept { return (void)wave, false; }
  // REQUIRES: takes_mapped(wave).
  Status take_mapped(Wave& wave, const TaskGroup& group, const MappedRange& range, Worker& worker);
  // Whether an engine may read stored bytes of the wave into the device's memory.
  virtual bool takes_straight(const Wave& wave) const noexcept { return (void)wave, false; }
  // The device's memory for the group's stored bytes [offset, offset + length) of their object; empty: they have to go
  // through host memory. take_straight() or leave_straight() follows, unless the read stops. REQUIRES:
  // takes_straight(wave).
  virtual std::span<std::byte> straight_room(Wave& wave, const TaskGroup& group, std::uint64_t offset,
                                             std::uint64_t length) {
    return (void)wave, (void)group, (void)offset, (void)length, std::span<std::byte>();
  }
  // Takes a group's tasks, whose bytes are in straight_room().
  void take_straight(Wave& wave, const TaskGroup& group, std::uint64_t offset, std::uint64_t length, Worker& worker);
  // The engine could not read there; take() follows.
  virtual void leave_straight(Wave& wave, const TaskGroup& group) noexcept { (void)wave, (void)group; }
  // Whether the body of a part may stay in a mapping; its head may not.
  virtual bool has_mapped_room(const Wave& wave, std::uint64_t head_bytes, std::uint64_t bytes) const noexcept {
    return (void)wave, (void)head_bytes, (void)bytes, false;
  }
  // For the only task of a group, which worker.detail describes. `stored_at`: offset of the range within the task's
  // stored bytes. REQUIRES: has_mapped_room().
  Status take_mapped_part(Wave& wave, const TaskGroup& group, const MappedPart& part, std::uint64_t stored_at,
                          Worker& worker);

  // Every group was taken, filled or has failed: queues the remaining work. Even a failed launch may have queued
  // something, for which drain() waits.
  virtual Status launch(Wave& wave, Worker& worker);
  virtual bool launches() const noexcept { return false; }
  // Whether the device has finished. Queries the device.
  virtual bool passed(const Wave& wave);
  // For the trace: notes when the queued stages ended, as far as that is visible yet.
  virtual void notice(Wave& wave);
  // Waits until the device has finished.
  virtual Status drain(Wave& wave);
  // After drain(): whether settle() will return any tasks.
  virtual bool returns_tasks(const Wave& wave) const noexcept;
  // After drain(), once chunks whose mapped file shrank have been marked as failed: counts the placed chunks. Returns
  // the tasks that the device handed back, for decode_returned().
  virtual std::span<const std::uint32_t> settle(Wave& wave, Worker& worker);
  // Decodes on the CPU a task that the device handed back; the CPU's verdict counts. `data`: the task's stored bytes if
  // they stayed in a mapping, else empty.
  virtual Status decode_returned(Wave& wave, std::uint32_t task_index, std::span<const std::byte> data, Worker& worker);
  virtual Status finish_returned(Wave& wave, Worker& worker);

 private:
  Status take_one(Wave& wave, const TaskGroup& group, std::uint32_t task_index, std::span<const std::byte> data,
                  std::uint64_t data_offset, Worker& worker);
  // Notes a group's tasks, whose stored bytes [offset, offset + length) no CPU reads. pieces_of: adds each task's piece
  // of it; null: adds none.
  Status note_unread(Wave& wave, const TaskGroup& group, std::uint64_t offset, std::uint64_t length,
                     const MappedRange* pieces_of, Worker& worker);

 protected:
  explicit ChunkSink(const ReadTasks& tasks) noexcept : tasks_(tasks) {}

  // Memory of the sink's own for a group's stored bytes, of any size; null: use the Worker's. Called for groups of one
  // task, and for all groups where has_own_buffers().
  virtual Result<std::span<std::byte>> own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                                  Worker& worker) {
    return (void)wave, (void)group, (void)length, (void)worker, std::span<std::byte>();
  }
  // REQUIRES: worker.detail describes the task.
  virtual Status take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                           Worker& worker) = 0;
  // Places a task from the cache. False: it is not cached.
  virtual bool place_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) {
    return (void)wave, (void)group, (void)task_index, (void)worker, false;
  }
  virtual Status fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) = 0;
  // Bytes delivered by a task that has no stored bytes.
  virtual std::uint64_t filled_bytes(const WaveTasks& wave, const TaskDetail& detail) const noexcept {
    return ReadTasks::element_bytes(wave, detail);
  }
  // Notes a task whose `length` stored bytes are in the mapping, or in the device's memory if the chunk is `straight`;
  // for a raw task they begin at byte `skipped`. REQUIRES: worker.detail describes the task.
  virtual Status note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t length,
                             Worker& worker);
  // Returns the place of the head, from which it can be copied to the device. REQUIRES: worker.detail describes the
  // task.
  virtual Result<std::span<const std::byte>> note_mapped_part(Wave& wave, std::uint32_t task_index,
                                                              const MappedPart& part, std::uint64_t stored_at,
                                                              Worker& worker);
  // Reserves space for [offset, offset + length) of the object as it lies there, so that one copy moves it. False: each
  // task has a place of its own.
  virtual bool reserve_together(Wave& wave, const TaskGroup& group, std::uint64_t offset, std::uint64_t length) const;

  // Undoes the task's codecs into `target`, which must have room for the result; shortens `target` to the used part.
  Status decode(Wave& wave, const Task& task, const StoredChunk& stored, std::span<std::byte>& target,
                Worker& worker) const;
  // Prepares the worker's workspace for the wave's chain. False: out of memory.
  static bool prepare(const Wave& wave, Worker& worker);
  // Counts a chunk that the CPU has decoded and placed.
  void count_taken(const WaveTasks& wave, std::uint64_t delivered, Worker& worker) const;

  const ReadTasks tasks_;
};

}  // namespace headrace::transfer

// ChunkSink: where the chunks of a read end. A wave belongs to one sink, from begin() until it is settled.
//
//   HostSink    decodes into the tensor, which the CPU can address
//   StagedSink  decodes into a pinned slab, which crosses the bus in one copy and is placed by one call
//   DeviceSink  takes encoded bytes across, which the device decodes and places
//   ElementsSink  keeps elements of variable length, which are gathered once the read has ended
//
// A task that fails goes to the read's report; a wave that cannot be launched is a Status.
//
// Threads: room() to take_mapped() from any number of threads, for different groups and each with a Worker of its own;
// the rest from one thread at a time, after or before those. Owns:    nothing of a wave; what it queued is through once
// drain() has returned. Fails:   everything may throw std::bad_alloc unless it is noexcept; the wave is then good for
// drain() only.
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

// Of a chunk, the stored bytes that give some of the decoded ones, by codec::Chain::decode_part().
struct StoredPart {
  std::span<const std::byte> bytes;
  std::uint64_t skipped = 0;     // decoded bytes before those that these give
  std::uint64_t part_bytes = 0;  // that these give
};

// What there is of a task's stored bytes.
struct StoredChunk {
  std::span<const std::byte> bytes;
  std::uint64_t skipped = 0;     // decoded bytes before those that these give: of raw chunks and of parts
  std::uint64_t part_bytes = 0;  // what is decoded, by codec::Chain::decode_part(); 0: the whole chunk
  // Where a chunk has several parts, those behind the first. Each is decoded to its own place in the chunk.
  std::span<const StoredPart> more = {};
};

class ChunkSink {
 public:
  virtual ~ChunkSink() = default;

  // The wave has been filled. Makes room in its lists, which only grow.
  virtual void begin(Wave& wave) { (void)wave; }

  // Whether stored bytes lie in rooms of the sink's own, of any length: neither planned nor charged by the read, which
  // parks none that are long.
  virtual bool own_rooms() const noexcept { return false; }
  // Where a worker puts the group's stored bytes, exactly `length`; nothing: the group has failed.
  std::optional<std::span<std::byte>> room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker);
  // Memory of the sink's that a store may write the group's stored bytes to, up to `length` of them, and from where
  // they are taken without a copy; empty: it has none.
  virtual std::span<std::byte> arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) {
    return (void)wave, (void)group, (void)length, (void)worker, std::span<std::byte>();
  }
  // Scratch for an object of `length` bytes that its store unpacks, and what has to be held meanwhile.
  struct UnpackRoom {
    os::PageBuffer* scratch = nullptr;
    std::shared_lock<std::shared_mutex> with_others;
    std::unique_lock<std::shared_mutex> by_itself;
  };
  virtual Result<UnpackRoom> unpack_room(std::uint64_t length, Worker& worker);
  // The worker is through with a group, or has parked it: it uses no room of it any more.
  virtual void end_group(Worker& worker) noexcept { (void)worker; }
  // `data` holds the object's bytes from `data_offset` on.
  void take(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
            Worker& worker);
  // Likewise of one task, of which something is stored.
  void take_chunk(Wave& wave, const TaskGroup& group, std::uint32_t task_index, std::span<const std::byte> data,
                  std::uint64_t data_offset, Worker& worker);
  // Likewise of a group's only task, of which Chain::cut() gave a part.
  void take_part(Wave& wave, const TaskGroup& group, const StoredChunk& part, Worker& worker);
  // In how many parts a chunk may come; 0: only as a whole.
  virtual std::size_t most_parts(const Wave& wave) const noexcept { return (void)wave, 0; }
  bool takes_parts(const Wave& wave) const noexcept { return most_parts(wave) > 0; }
  // Takes the chunks of a group that are kept. `version`: what they are of; nothing: they are not kept. object_bytes:
  // of an object of its own, perhaps unknown. False: not all of them are, and it is to be read; those that are will be
  // taken with it.
  virtual bool take_kept(Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
                         std::uint64_t object_bytes, Worker& worker) {
    return (void)wave, (void)group, (void)version, (void)object_bytes, (void)worker, false;
  }
  // The chunk's store has answered, and it will be taken: `bytes` are stored of it. versioned: the store has told which
  // version they are of, without which the chunk is not kept.
  virtual void note_answer(Wave& wave, std::uint32_t task_index, std::uint64_t bytes, bool versioned) noexcept {
    (void)wave, (void)task_index, (void)bytes, (void)versioned;
  }
  // Whether all of a chunk is to be taken, since it will be kept.
  virtual bool keeps(const Wave& wave, std::uint32_t task_index) const noexcept {
    return (void)wave, (void)task_index, false;
  }
  // The wave is over, whatever became of it.
  virtual void release(Wave& wave) noexcept { (void)wave; }
  // Nothing is stored of the task.
  void fill(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker);
  // Whether the wave's stored bytes may stay in a mapping, out of which the device takes them.
  virtual bool takes_mapped(const Wave& wave) const noexcept { return (void)wave, false; }
  // REQUIRES: takes_mapped(wave).
  Status take_mapped(Wave& wave, const TaskGroup& group, const MappedRange& range, Worker& worker);
  // Whether a part of a chunk may stay there, but for its head.
  virtual bool has_mapped_room(const Wave& wave, std::uint64_t head_bytes, std::uint64_t bytes) const noexcept {
    return (void)wave, (void)head_bytes, (void)bytes, false;
  }
  // Of a group's only task, which is described. `stored_at`: where the range begins in what is stored of the task.
  // REQUIRES: has_mapped_room().
  Status take_mapped_part(Wave& wave, const TaskGroup& group, const MappedPart& part, std::uint64_t stored_at,
                          Worker& worker);

  // All groups were taken, filled or have failed: queues what is left to do. Even where it fails something may be
  // queued, for which drain() waits.
  virtual Status launch(Wave& wave, Worker& worker);
  virtual bool launches() const noexcept { return false; }
  // Whether the device is through. A question to the device.
  virtual bool passed(const Wave& wave);
  // For the trace: notes when the parts of what is queued ended, as far as that can be seen now.
  virtual void notice(Wave& wave);
  // Waits until the device is through.
  virtual Status drain(Wave& wave);
  // Drained: whether settle() will give any.
  virtual bool hands_back(const Wave& wave) const noexcept;
  // Drained, and what was taken out of mappings is good but for chunks that say they failed: counts what was placed.
  // Gives tasks that the device handed back, for take_again().
  virtual std::span<const std::uint32_t> settle(Wave& wave, Worker& worker);
  // The CPU decodes what the device handed back, and its verdict counts. `data`: the task's stored bytes if they had
  // stayed in a mapping, else empty.
  virtual Status take_again(Wave& wave, std::uint32_t task_index, std::span<const std::byte> data, Worker& worker);
  virtual Status finish_again(Wave& wave, Worker& worker);

 private:
  Status take_one(Wave& wave, const TaskGroup& group, std::uint32_t task_index, std::span<const std::byte> data,
                  std::uint64_t data_offset, Worker& worker);

 protected:
  explicit ChunkSink(const ReadTasks& tasks) noexcept : tasks_(tasks) {}

  // Room of the sink's own for a group's stored bytes, of any size; null: none, the Worker's will do. Asked of groups
  // of one task, and of all where own_rooms().
  virtual Result<std::span<std::byte>> own_room(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                                Worker& worker) {
    return (void)wave, (void)group, (void)length, (void)worker, std::span<std::byte>();
  }
  // worker.detail describes the task.
  virtual Status take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                           Worker& worker) = 0;
  // Places a task that is kept. False: it is not.
  virtual bool place_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) {
    return (void)wave, (void)group, (void)task_index, (void)worker, false;
  }
  virtual Status fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) = 0;
  // That a task gives of which nothing is stored.
  virtual std::uint64_t filled_bytes(const WaveTasks& wave, const TaskDetail& detail) const noexcept {
    return ReadTasks::element_bytes(wave, detail);
  }
  // worker.detail describes the task, of which `length` bytes are stored in the mapping; of a raw one from byte
  // `skipped` on.
  virtual Status note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t length,
                             Worker& worker);
  // worker.detail describes the task. Gives the head's place, which can be copied to the device.
  virtual Result<std::span<const std::byte>> note_mapped_part(Wave& wave, std::uint32_t task_index,
                                                              const MappedPart& part, std::uint64_t stored_at,
                                                              Worker& worker);
  // Makes room for the range as it lies in the object, so that it comes in one piece. False: each task has its own.
  virtual bool reserve_together(Wave& wave, const TaskGroup& group, const MappedRange& range) const;

  // Undoes the task's codecs into `target`, of at least the size of what they give, of which it gives the used part.
  Status decode(Wave& wave, const Task& task, const StoredChunk& stored, std::span<std::byte>& target,
                Worker& worker) const;
  // The worker's workspace for the wave's chain. False: no memory.
  static bool prepare(const Wave& wave, Worker& worker);
  // The CPU has decoded and placed a chunk.
  void count_taken(const WaveTasks& wave, std::uint64_t delivered, Worker& worker) const;

  const ReadTasks tasks_;
};

}  // namespace headrace::transfer

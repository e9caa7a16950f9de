// SlabSink: what the sinks of staged devices have in common. Each wave has a pinned slab, a device slab and a stream;
// boxes are noted as chunks arrive and placed at launch. Chunks that an earlier read left in a ChunkCache are placed
// from there.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "device/device.h"
#include "transfer/read/chunk_cache.h"
#include "transfer/read/chunk_sink.h"

namespace headrace::transfer {

class SlabSink : public ChunkSink {
 public:
  void begin(Wave& wave) override;
  bool launches() const noexcept final { return true; }
  Status launch(Wave& wave, Worker& worker) final;
  bool passed(const Wave& wave) final;
  void notice(Wave& wave) final;
  Status drain(Wave& wave) final;
  bool take_kept(Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
                 std::uint64_t object_bytes, Worker& worker) final;
  void note_answer(Wave& wave, std::uint32_t task_index, std::uint64_t bytes, bool versioned) noexcept final;
  bool keeps(const Wave& wave, std::uint32_t task_index) const noexcept final;
  void release(Wave& wave) noexcept final;

 protected:
  // kept: a cache of the same device, or null. decodes: the device decodes chunks, so the encoded area precedes them in
  // its slab. maps: stored bytes may stay in a mapping where the sink allows it for a wave.
  SlabSink(const ReadTasks& tasks, std::shared_ptr<device::Device> device, std::shared_ptr<ChunkCache> kept,
           bool decodes, bool maps);

  // For a sink with a cache: whether the wave's chunks can be cached, and whether they are cached as stored.
  virtual bool may_keep(const Wave& wave) const noexcept = 0;
  virtual bool keeps_encoded() const noexcept = 0;
  // Notes a task whose chunk is in the cache.
  virtual Status note_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker);
  bool place_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) final;
  // Withdraws the cache entry of a chunk, because only a part of the chunk will be read.
  void withdraw(WaveChunk& chunk) const noexcept;
  // A decoded chunk's place in the cache, whether filled already or to be filled; empty: none.
  std::span<std::byte> kept_place(const Wave& wave, std::uint32_t task_index) const noexcept;

  // Queues the copies and the work that follows them.
  virtual Status queue(Wave& wave, Worker& worker) = 0;
  Status fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) final;

  // A decoded chunk's place in the pinned slab. A wave never has more tasks than the slab has room for.
  std::span<std::byte> pinned_place(const Wave& wave, std::uint32_t task_index) const;
  // A decoded chunk's place on the device, from which its elements are placed.
  std::span<std::byte> device_place(const Wave& wave, std::uint32_t task_index) const;
  // Notes the described task's boxes for the launch. `decoded` is the decoded chunk from byte `skipped` on; null: fill.
  // Where a task has several boxes, each is checked against its place on the device when it is made.
  Status note_boxes(Wave& wave, std::uint32_t task_index, std::span<const std::byte> decoded, std::uint64_t skipped,
                    TaskDetail& detail) const;

  // Copies wave.stage.pieces in one call.
  Status copy_pieces(Wave& wave, Worker& worker) const;
  // Makes one assemble call.
  Status assemble(const Wave& wave, std::span<const device::Box> boxes) const;
  // Empties the wave's list of tasks with several boxes.
  static void begin_several(Wave& wave);
  // Makes one assemble call per batch of boxes: a task may have as many boxes as elements.
  Status assemble_several(Wave& wave, std::span<const SeveralBoxes> tasks, Worker& worker) const;

  const std::shared_ptr<device::Device> device_;
  const std::shared_ptr<ChunkCache> kept_;
  const bool maps_;

 private:
  const bool decodes_;
};

}  // namespace headrace::transfer

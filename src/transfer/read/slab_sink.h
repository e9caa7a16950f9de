// SlabSink: what sinks of devices that do not use the host's memory have in common. A wave has a pinned slab and one on
// the device, and a stream; its boxes are noted as its chunks come, and placed when it is launched. Chunks that an
// earlier read has left in a ChunkCache are placed out of that.
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
  // kept: null, or a cache of the same device. decodes: chunks are decoded on the device, where encoded bytes lie
  // before them. maps: stored bytes may stay in a mapping where a sink says so of a wave.
  SlabSink(const ReadTasks& tasks, std::shared_ptr<device::Device> device, std::shared_ptr<ChunkCache> kept,
           bool decodes, bool maps);

  // Of a sink with a cache: whether the wave's chunks can be kept; and if so, whether as they are stored.
  virtual bool may_keep(const Wave& wave) const noexcept = 0;
  virtual bool keeps_encoded() const noexcept = 0;
  // Notes a task whose chunk is in the cache.
  virtual Status note_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker);
  bool place_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) final;
  // A chunk that was to be kept, and of which not all will come, has no place in the cache.
  void keep_not(WaveChunk& chunk) const noexcept;
  // A decoded chunk's place in the cache, where it is or will be; empty: it has none.
  std::span<std::byte> kept_place(const Wave& wave, std::uint32_t task_index) const noexcept;

  // Queues copies and what comes after them.
  virtual Status queue(Wave& wave, Worker& worker) = 0;
  Status fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) final;

  // A decoded chunk's place in the pinned slab; a wave has no more tasks than there is room for.
  std::span<std::byte> pinned_place(const Wave& wave, std::uint32_t task_index) const;
  // And on the device, before its elements are placed.
  std::span<std::byte> device_place(const Wave& wave, std::uint32_t task_index) const;
  // For the launch: the described task's boxes, out of `decoded`, which is the decoded chunk from byte `skipped` on;
  // null: fill. Where several boxes follow, they are compared with their place on the device as they are made.
  Status note_boxes(Wave& wave, std::uint32_t task_index, std::span<const std::byte> decoded, std::uint64_t skipped,
                    TaskDetail& detail) const;

  // wave.stage.pieces, in one copy call.
  Status copy_pieces(Wave& wave, Worker& worker) const;
  // One assemble call.
  Status assemble(const Wave& wave, std::span<const device::Box> boxes) const;
  // Empties the wave's list of tasks with several boxes.
  static void begin_several(Wave& wave);
  // One for every batch of boxes: a task may have as many as elements.
  Status assemble_several(Wave& wave, std::span<const SeveralBoxes> tasks, Worker& worker) const;

  const std::shared_ptr<device::Device> device_;
  const std::shared_ptr<ChunkCache> kept_;
  const bool maps_;

 private:
  const bool decodes_;
};

}  // namespace headrace::transfer

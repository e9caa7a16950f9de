// StagedSink: the CPU decodes chunks into the wave's pinned slab, which one call copies to the device and one assemble
// call places. Raw chunks may be copied from a mapping instead. Chunks are cached in decoded form.
#pragma once

#include <memory>
#include <utility>

#include "transfer/read/slab_sink.h"
#include "transfer/read/wanted_runs.h"

namespace headrace::transfer {

class StagedSink final : public SlabSink {
 public:
  // kept: see SlabSink.
  StagedSink(const ReadTasks& tasks, std::shared_ptr<device::Device> device, std::shared_ptr<ChunkCache> kept,
             bool maps) noexcept
      : SlabSink(tasks, std::move(device), std::move(kept), false, maps) {}

  void begin(Wave& wave) override;
  std::span<std::byte> arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) override;
  bool takes_mapped(const Wave& wave) const noexcept override { return maps_ && wave.tasks.chain().raw(); }
  // Chunks for the cache would have to wait until it does not need their place any more.
  bool takes_straight(const Wave& wave) const noexcept override { return kept_ == nullptr && wave.tasks.chain().raw(); }
  std::span<std::byte> straight_room(Wave& wave, const TaskGroup& group, std::uint64_t offset,
                                     std::uint64_t length) override;
  void leave_straight(Wave& wave, const TaskGroup& group) noexcept override;
  std::size_t most_parts(const Wave& wave) const noexcept override { return (void)wave, WantedRuns::kMax; }
  std::span<const std::uint32_t> settle(Wave& wave, Worker& worker) override;

 private:
  Result<std::span<std::byte>> own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                          Worker& worker) override;
  Status take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                   Worker& worker) override;
  Status queue(Wave& wave, Worker& worker) override;
  Status note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t length,
                     Worker& worker) override;
  // A cache of stored bytes takes only chunks that decode to themselves.
  bool may_keep(const Wave& wave) const noexcept override {
    return wave.tasks.chain().raw() || kept_->form() == ChunkCache::Form::kDecoded;
  }
  bool keeps_encoded() const noexcept override { return false; }
  void keep_whole(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t bytes) const noexcept;
  // Whether the pinned slab lacks the chunk, because it is mapped or straight.
  bool is_elsewhere(const Wave& wave, std::size_t task_index) const noexcept;
  bool scatters(const Wave& wave, std::size_t& live) const;
  Status copy_runs(Wave& wave, Worker& worker) const;
  Status add_mapped_slabs(Wave& wave) const;
  Status add_mapped_runs(Wave& wave) const;
};

}  // namespace headrace::transfer

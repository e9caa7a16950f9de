// DeviceSink: collects encoded bytes in the wave's slab; one copy moves them to the device, one call decodes them there
// and one places the chunks. The CPU decodes chunks that the device hands back from the same bytes after the wave has
// finished, and the CPU's verdict is final.
#pragma once

#include <memory>
#include <optional>

#include "device/decode.h"
#include "transfer/plan/index_cache.h"
#include "transfer/read/slab_sink.h"

namespace headrace::transfer {

class DeviceSink final : public SlabSink {
 public:
  // For waves whose form has a decoder. `indices` outlives the sink. kept: see SlabSink.
  DeviceSink(const ReadTasks& tasks, std::shared_ptr<device::Device> device, IndexCache& indices,
             std::shared_ptr<ChunkCache> kept, bool maps);

  void begin(Wave& wave) override;
  std::span<std::byte> arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) override;
  bool takes_mapped(const Wave& wave) const noexcept override;
  bool takes_straight(const Wave& wave) const noexcept override { return decoding(wave).first_stage == 0; }
  std::span<std::byte> straight_room(Wave& wave, const TaskGroup& group, std::uint64_t offset,
                                     std::uint64_t length) override;
  void leave_straight(Wave& wave, const TaskGroup& group) noexcept override;
  bool has_mapped_room(const Wave& wave, std::uint64_t head_bytes, std::uint64_t bytes) const noexcept override;
  std::size_t most_parts(const Wave& wave) const noexcept override;
  bool returns_tasks(const Wave& wave) const noexcept override;
  std::span<const std::uint32_t> settle(Wave& wave, Worker& worker) override;
  Status decode_returned(Wave& wave, std::uint32_t task_index, std::span<const std::byte> data,
                         Worker& worker) override;
  Status finish_returned(Wave& wave, Worker& worker) override;

 private:
  Result<std::span<std::byte>> own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                          Worker& worker) override;
  Status take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                   Worker& worker) override;
  Status queue(Wave& wave, Worker& worker) override;
  std::optional<std::span<std::byte>> reserve(Wave& wave, std::uint32_t task_index, std::uint64_t bytes) const;
  Status note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t length,
                     Worker& worker) override;
  Result<std::span<const std::byte>> note_mapped_part(Wave& wave, std::uint32_t task_index, const MappedPart& part,
                                                      std::uint64_t stored_at, Worker& worker) override;
  bool reserve_together(Wave& wave, const TaskGroup& group, std::uint64_t offset, std::uint64_t length) const override;
  bool has_room_apart(const Wave& wave, std::uint64_t head_bytes, std::uint64_t bytes) const noexcept;
  Status note_encoded(Wave& wave, std::uint32_t task_index, const StoredChunk& stored, Worker& worker) const;
  Status gather(Wave& wave, std::size_t& boxes) const;
  Status add_encoded_pieces(Wave& wave) const;
  Status add_apart(Wave& wave) const;
  std::span<const device::DecodeOutcome> outcomes(const Wave& wave) const noexcept;
  device::DecodeIndices indices_of(const Wave& wave) const;
  device::DecodeIndices give_indices(Wave& wave) const;
  void keep_indices(const Wave& wave, Worker& worker) const;
  bool may_keep(const Wave& wave) const noexcept override;
  bool keeps_encoded() const noexcept override {
    return kept_ != nullptr && kept_->form() == ChunkCache::Form::kEncoded;
  }
  Status note_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) override;
  Status take_kept_encoded(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker);
  Status move_kept(Wave& wave) const;
  std::span<const std::byte> head_of(const Wave& wave, const WaveChunk& chunk) const noexcept;
  Result<std::span<const std::byte>> fetch_stored(const Wave& wave, const WaveChunk& chunk, Worker& worker) const;
  void count_decoded(const Wave& wave, Worker& worker) const;

  static const ChunkDecoding& decoding(const Wave& wave) noexcept { return wave.form->decoding; }
  static const WaveAreas& areas(const Wave& wave) noexcept { return wave.form->sizes.areas; }

  IndexCache& indices_;
};

}  // namespace headrace::transfer

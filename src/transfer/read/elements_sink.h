// ElementsSink: the sink of a read of variable-length elements. The selected elements of each chunk are kept in memory
// of the worker that decoded it.
//
// Threads: see ChunkSink. The kept elements belong to the caller once the read has ended.
// Fails:   exceeding max_bytes (kResourceExhausted) ends the read, since no single chunk is at fault.
#pragma once

#include "transfer/read/chunk_sink.h"
#include "transfer/read/elements.h"

namespace headrace::transfer {

class ElementsSink final : public ChunkSink {
 public:
  // `out` outlives the read.
  ElementsSink(const ReadTasks& tasks, Elements& out) noexcept : ChunkSink(tasks), out_(out) {}

  bool has_own_buffers() const noexcept override { return true; }
  Result<UnpackRoom> unpack_room(std::uint64_t length, Worker& worker) override;
  void end_group(Worker& worker) noexcept override { out_.release_second_half(out_.portion(worker.number)); }

 private:
  Result<std::span<std::byte>> own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                          Worker& worker) override;
  Status take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                   Worker& worker) override;
  Status fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) override;
  std::uint64_t filled_bytes(const WaveTasks& wave, const TaskDetail& detail) const noexcept override;
  Status decode(const codec::Chain& chain, std::span<const std::byte> encoded, Elements::Portion& portion,
                Worker& worker) const;
  Status keep_box(const device::Box& box, Elements::Portion& portion, std::uint64_t& bytes) const;

  Elements& out_;
};

}  // namespace headrace::transfer

// HostSink: decodes chunks into a tensor that the CPU can address. A raw chunk that is one run of the tensor is read
// there directly.
#pragma once

#include "transfer/read/chunk_sink.h"
#include "transfer/read/wanted_runs.h"

namespace headrace::transfer {

class HostSink final : public ChunkSink {
 public:
  explicit HostSink(const ReadTasks& tasks) noexcept : ChunkSink(tasks) {}
  std::size_t most_parts(const Wave& wave) const noexcept override { return (void)wave, WantedRuns::kMax; }
  std::span<std::byte> arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) override;

 private:
  Result<std::span<std::byte>> own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                          Worker& worker) override;
  Status take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                   Worker& worker) override;
  Status fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) override;
  Status place(const WaveTasks& wave, std::span<const std::byte> decoded, std::uint64_t skipped, Worker& worker) const;
};

}  // namespace headrace::transfer

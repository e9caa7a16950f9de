// EncodedSink: where a read ends whose chunks are kept as a decoder gets them, with where their elements go.
//
// Threads: as ChunkSink has it. What was kept belongs to the caller once the read has ended.
// Fails:   kResourceExhausted where the account has no room for what is kept; it ends the read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "device/box.h"
#include "transfer/read/chunk_sink.h"
#include "zarr/index/batch_memory.h"

namespace headrace::zarr {

inline constexpr std::uint64_t kEncodedAlignment = 64;  // of chunks: decoders may use their widest accesses

// Without a source, and where in the decoded chunk that begins.
struct SourcedBox {
  device::Box box;
  std::int64_t source_offset;
};

struct EncodedChunk {
  std::uint64_t ordinal = 0;  // the plan's
  std::string key;
  std::uint64_t at = 0, bytes = 0;  // in the encoded bytes
  std::vector<SourcedBox> boxes;
  std::byte* in_place = nullptr;  // decodes to here, nothing to assemble
};

struct EncodedChunks {
  std::vector<EncodedChunk> chunks;  // as they came; sort() puts them in the plan's order
  std::vector<SourcedBox> absent;    // to be filled
  std::vector<std::byte> encoded;
  bool apart = false;  // some chunk is not decoded in place

  void sort();
};

class EncodedSink final : public transfer::ChunkSink {
 public:
  // The chain's first `undone` stages are undone before a chunk is kept. `memory` and `out` outlive the read.
  EncodedSink(const transfer::ReadTasks& tasks, std::size_t undone, BatchMemory& memory, EncodedChunks& out) noexcept
      : ChunkSink(tasks), undone_(undone), memory_(memory), out_(out) {}

 private:
  Status take_task(transfer::Wave& wave, const transfer::TaskGroup& group, std::uint32_t task_index,
                   const transfer::StoredChunk& stored, transfer::Worker& worker) override;
  Status fill_task(transfer::Wave& wave, std::uint32_t task_index, transfer::Worker& worker) override;
  Status keep_locked(const transfer::Wave& wave, EncodedChunk chunk, std::span<const std::byte> encoded,
                     transfer::Worker& worker);
  Status add_boxes_locked(const transfer::Wave& wave, std::vector<SourcedBox>& boxes, transfer::Worker& worker);
  Status add_to_lists_locked(std::uint64_t bytes);
  Status make_room_locked(std::uint64_t bytes);

  const std::size_t undone_;
  std::mutex mutex_;
  BatchMemory& memory_;  // guarded by mutex_, as all below
  EncodedChunks& out_;
  std::uint64_t lists_bytes_ = 0;  // of chunks and boxes, and what is made of them for the device
};

}  // namespace headrace::zarr

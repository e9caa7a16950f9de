// EncodedSink: the sink of a read that keeps its chunks in the encoded form that a decoder gets, with the destinations
// of their elements.
//
// Threads: as ChunkSink. Once the read has ended, the caller owns what was kept.
// Fails:   kResourceExhausted if the account has no room for what is kept; it ends the read.
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

inline constexpr std::uint64_t kEncodedAlignment = 64;  // of chunks, so that decoders may use their widest accesses

// A box without its source pointer, and the offset of its source in the decoded chunk.
struct SourcedBox {
  device::Box box;
  std::int64_t source_offset;
};

struct EncodedChunk {
  std::uint64_t ordinal = 0;  // as the plan numbers it
  std::string key;
  std::uint64_t at = 0, bytes = 0;  // in the encoded bytes
  std::vector<SourcedBox> boxes;
  std::byte* in_place = nullptr;  // decoded directly to here; nothing to assemble
};

struct EncodedChunks {
  std::vector<EncodedChunk> chunks;  // in order of arrival; sort() puts them in the plan's order
  std::vector<SourcedBox> absent;    // destinations of absent chunks
  std::vector<std::byte> encoded;
  bool apart = false;  // some chunk is not decoded in place

  void sort();
};

class EncodedSink final : public transfer::ChunkSink {
 public:
  // The chain's first `decoded_stages` stages are decoded before a chunk is kept. `memory` and `out` must outlive the
  // read.
  EncodedSink(const transfer::ReadTasks& tasks, std::size_t decoded_stages, BatchMemory& memory,
              EncodedChunks& out) noexcept
      : ChunkSink(tasks), decoded_stages_(decoded_stages), memory_(memory), out_(out) {}

 private:
  Status take_task(transfer::Wave& wave, const transfer::TaskGroup& group, std::uint32_t task_index,
                   const transfer::StoredChunk& stored, transfer::Worker& worker) override;
  Status fill_task(transfer::Wave& wave, std::uint32_t task_index, transfer::Worker& worker) override;
  Status keep_locked(const transfer::Wave& wave, EncodedChunk chunk, std::span<const std::byte> encoded,
                     transfer::Worker& worker);
  Status add_boxes_locked(const transfer::Wave& wave, std::vector<SourcedBox>& boxes, transfer::Worker& worker);
  Status add_to_lists_locked(std::uint64_t bytes);
  Status make_room_locked(std::uint64_t bytes);

  const std::size_t decoded_stages_;
  std::mutex mutex_;
  BatchMemory& memory_;  // guarded by mutex_, as all below
  EncodedChunks& out_;
  std::uint64_t lists_bytes_ = 0;  // of chunks and boxes, and of the device's lists built from them
};

}  // namespace headrace::zarr

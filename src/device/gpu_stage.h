// GpuCodec: one codec's decoder on a GPU, with a few launches for all chunks of a wave.
//
// A codec's .cu file creates one from a DecodeStage; the CUDA plug-in chains them. No CUDA header is needed here:
// streams are opaque, and results are cudaError_t as int.
//
// Rules for every stage, for any input bytes: it skips chunks whose outcome is already an error; it writes only to
// [dst, dst + dst_bytes) and the scratch, and reads only [src, src + src_bytes); every loop is bounded by validated
// counts; no kernel waits for another block except blocks with lower tickets. Launch geometry and scratch follow from
// the Limits, which come from metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "device/decode.h"

struct CUevent_st;
struct CUstream_st;

namespace headrace::device::gpu {

using NativeStream = CUstream_st*;
using NativeEvent = CUevent_st*;

// In device memory, one per item.
struct Chunk {
  const unsigned char* src;
  unsigned char* dst;
  std::uint64_t src_bytes;
  std::uint64_t dst_bytes;   // in: capacity; out: bytes produced, which differ only if the stage is not exact
  std::uint64_t enough = 0;  // DecodeItem::enough
};

struct Limits {
  std::uint32_t chunks = 0;
  std::uint64_t src_bytes = 0, dst_bytes = 0;                  // maximum over all chunks
  std::uint64_t largest_src_bytes = 0, largest_dst_bytes = 0;  // maximum of one
};

// Lets a stage with several steps report each as it is queued. A stage that reports nothing counts as one step.
class Marks {
 public:
  Marks() noexcept = default;
  Marks(DecodeMarks* to, Stream& stream) noexcept : to_(to), stream_(&stream) {}
  void queued(const char* step) const noexcept {
    if (to_ == nullptr) return;
    to_->queued(step, *stream_);
    step_queued_ = true;
  }
  void stage_queued(const char* codec) const noexcept {
    if (!step_queued_) queued(codec);
    step_queued_ = false;
  }

 private:
  DecodeMarks* to_ = nullptr;
  Stream* stream_ = nullptr;
  mutable bool step_queued_ = false;
};

// Decode indices of a batch (device/decode.h), in device memory. Bytes past the given sizes are not read. A stage
// writes to a chunk's entry only if it collects.
struct IndexMemory {
  unsigned char* entries = nullptr;  // `stride` bytes per chunk; null: a batch without indices
  std::uint64_t stride = 0;          // multiple of 16, at least the stage's index_bytes()
  const std::uint32_t* given = nullptr;
  std::uint32_t* made = nullptr;  // initially kIndexNothing; raised by atomicMax
  bool any_given = false;         // at least one chunk has an index
};

// A second stream for work that becomes a branch, while launches are being captured into a graph.
struct Branch {
  NativeStream stream = nullptr;  // null: no branch
  NativeEvent begun = nullptr, ended = nullptr;
};

struct Batch {
  Chunk* chunks = nullptr;            // device memory
  std::uint64_t* outcomes = nullptr;  // device memory, DecodeOutcome words; lowered by atomicMin
  Limits limits;                      // limits.chunks is the exact count
  unsigned stage = 0;                 // for DecodeOutcome::pack
  std::byte* scratch = nullptr;       // device memory, aligned to 256 bytes
  std::uint64_t scratch_bytes = 0;    // enough for a batch of these limits
  int multiprocessors = 1;
  Marks marks;
  IndexMemory index;
  Branch branch;
};

// Scratch that suffices for every batch within `limits`. bytes_of(limits) is what one batch takes. It grows with each
// limit, except that batches of up to `few` chunks use a method that may take more than larger batches do.
template <class BytesOf>
std::uint64_t max_scratch(const Limits& limits, std::uint32_t few, const BytesOf& bytes_of) {
  const std::uint64_t bytes = bytes_of(limits);
  if (limits.chunks <= few) return bytes;
  const auto least = [](std::uint64_t all, std::uint64_t chunks, std::uint64_t largest) {
    return largest < all / chunks ? chunks * largest : all;
  };
  Limits part = limits;
  part.chunks = few;
  part.src_bytes = least(limits.src_bytes, few, limits.largest_src_bytes);
  part.dst_bytes = least(limits.dst_bytes, few, limits.largest_dst_bytes);
  const std::uint64_t part_bytes = bytes_of(part);
  return bytes < part_bytes ? part_bytes : bytes;
}

// Scratch layout of a stage that lists its streams, one per chunk: their number, the streams, then working memory.
template <class Stream>
struct StreamList {
  static constexpr std::uint64_t kAlignment = 256, kStreamsAt = kAlignment;
  static constexpr std::uint64_t end(std::uint32_t chunks) {
    return kStreamsAt + (chunks * sizeof(Stream) + kAlignment - 1) / kAlignment * kAlignment;
  }
};

class GpuCodec {
 public:
  virtual ~GpuCodec() = default;
  // Suffices for every batch within the limits.
  virtual std::uint64_t scratch_bytes(const Limits& limits) const noexcept = 0;
  // Queues the launches; returns a cudaError_t.
  virtual int enqueue(const Batch& batch, NativeStream stream) const noexcept = 0;
  // Maximum index size of a chunk with this many decoded bytes; 0: indices are not used.
  virtual std::uint64_t index_bytes(std::uint64_t /*dst_bytes*/) const noexcept { return 0; }
  // See ChunkDecoder.
  virtual bool ends_early() const noexcept { return false; }
  virtual bool wants_large_batches() const noexcept { return false; }
  // Whether enqueue() queues everything through a Launcher, which can load kernels without launching them.
  virtual bool can_load() const noexcept { return false; }
};

// One row of the table of codecs with GPU code (generated from codecs/).
struct StageRow {
  const char* codec;
  // Null if there is no GPU decoder for this configuration.
  std::unique_ptr<GpuCodec> (*make)(const DecodeStage& stage);
};

std::span<const StageRow> stages();

}  // namespace headrace::device::gpu

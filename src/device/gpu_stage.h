// GpuStage: one codec's decoder on a GPU, a few launches for all chunks of a wave.
//
// A codec's .cu file makes one from a DecodeStage; the CUDA plug-in strings them together. No CUDA header is needed
// here: streams are opaque and results are cudaError_t as int.
//
// Rules of every stage: a chunk whose outcome is already an error is left alone; nothing outside
// [dst, dst + dst_bytes) and the scratch is written and nothing outside [src, src + src_bytes) is read, whatever the
// bytes are; every loop is bounded by validated counts; no kernel waits for another block except on blocks with lower
// tickets. Launch geometry and scratch follow from the Limits, which come from metadata.
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

// In device memory, one for each item.
struct Chunk {
  const unsigned char* src;
  unsigned char* dst;
  std::uint64_t src_bytes;
  std::uint64_t dst_bytes;   // in: capacity; out: produced, which differs only where the stage is not exact
  std::uint64_t enough = 0;  // DecodeItem::enough
};

struct Limits {
  std::uint32_t chunks = 0;
  std::uint64_t src_bytes = 0, dst_bytes = 0;                  // of all chunks together, at most
  std::uint64_t largest_src_bytes = 0, largest_dst_bytes = 0;  // of one, at most
};

// Where a stage of several steps says of each that it is queued. A stage that says nothing counts as one step.
class Marks {
 public:
  Marks() noexcept = default;
  Marks(DecodeMarks* to, Stream& stream) noexcept : to_(to), stream_(&stream) {}
  void queued(const char* step) const noexcept {
    if (to_ == nullptr) return;
    to_->queued(step, *stream_);
    said_ = true;
  }
  void stage_queued(const char* codec) const noexcept {
    if (!said_) queued(codec);
    said_ = false;
  }

 private:
  DecodeMarks* to_ = nullptr;
  Stream* stream_ = nullptr;
  mutable bool said_ = false;
};

// Decode indices of a batch (device/decode.h), in device memory. What lies behind the bytes given is not read; a stage
// writes to a chunk's share only where it collects.
struct IndexMemory {
  unsigned char* entries = nullptr;  // `stride` bytes for each chunk; null: a batch without
  std::uint64_t stride = 0;          // multiple of 16, at least the stage's index_bytes()
  const std::uint32_t* given = nullptr;
  std::uint32_t* made = nullptr;  // kIndexNothing before; raised by atomicMax
  bool any_given = false;         // of a chunk at least
};

// A second stream, where launches are being made into a graph: what is queued there becomes a branch of it.
struct Branch {
  NativeStream stream = nullptr;  // null: there is none
  NativeEvent begun = nullptr, ended = nullptr;
};

struct Batch {
  Chunk* chunks = nullptr;            // device memory
  std::uint64_t* outcomes = nullptr;  // device memory, DecodeOutcome words: lowered by atomicMin
  Limits limits;                      // limits.chunks is the exact count
  unsigned stage = 0;                 // for DecodeOutcome::pack
  std::byte* scratch = nullptr;       // device memory, aligned to 256 bytes
  std::uint64_t scratch_bytes = 0;    // enough for a batch of these limits
  int multiprocessors = 1;
  Marks marks;
  IndexMemory index;
  Branch branch;
};

// Enough scratch for every batch within `limits`. bytes_of(limits), what one batch takes, grows with each of the
// limits, except that batches of up to `few` chunks are decoded in a way that may take more than larger batches do.
template <class BytesOf>
std::uint64_t most_scratch(const Limits& limits, std::uint32_t few, const BytesOf& bytes_of) {
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

// Scratch of a stage that lists its streams, one a chunk: how many there are, the streams, then what decoding them
// takes.
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
  // Enough for every batch within the limits, which may have fewer chunks and bytes.
  virtual std::uint64_t scratch_bytes(const Limits& limits) const noexcept = 0;
  // Queues the launches; a cudaError_t.
  virtual int enqueue(const Batch& batch, NativeStream stream) const noexcept = 0;
  // Most bytes that the index of a chunk takes which decodes to so many; 0: no use is made of one.
  virtual std::uint64_t index_bytes(std::uint64_t /*dst_bytes*/) const noexcept { return 0; }
  // See ChunkDecoder.
  virtual bool ends_early() const noexcept { return false; }
  virtual bool wants_large_batches() const noexcept { return false; }
  // Whether all that enqueue() queues goes through a Launcher, which can load kernels without launching them.
  virtual bool can_load() const noexcept { return false; }
};

// One row of the table of codecs with GPU code (generated from codecs/).
struct StageRow {
  const char* codec;
  // Null if this configuration has no decoder here.
  std::unique_ptr<GpuCodec> (*make)(const DecodeStage& stage);
};

std::span<const StageRow> stages();

}  // namespace headrace::device::gpu

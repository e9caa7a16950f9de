// Wave: tasks of a read that are processed together, with its state grouped by the stage that uses it.
//
// Threads: see WaveWork and ChunkSink. Vectors keep their capacity from one use of a wave to the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/box.h"
#include "device/decode.h"
#include "device/device.h"
#include "store/store.h"
#include "transfer/context/staging.h"
#include "transfer/context/worker.h"
#include "transfer/fetch/io_service.h"
#include "transfer/placement/placement.h"
#include "transfer/plan/index_cache.h"
#include "transfer/plan/plan.h"
#include "transfer/read/wave_form.h"

namespace headrace::transfer {

class ChunkSink;

// State of a group that is read in two steps, see cold_part.h.
struct ColdPart {
  static constexpr std::size_t kHeadBytes = 1024;  // limit of a part's own head, enough for 250 blocks

  enum class PartRequest : std::uint8_t { kAll, kTable, kPart } request = PartRequest::kAll;
  std::uint64_t offset = 0, length = 0;  // the whole chunk, as in its job; kUnknown until the table has arrived
  codec::StreamPart part;                // set for kPart
};

// State for getting from objects to stored bytes.
struct WaveFetch {
  std::vector<ReadJob> jobs;  // one per group, used by cold groups
  // One per group: opened for its job, or a cached file that replaces a store's object.
  std::vector<store::ByteSource> objects;
  std::vector<StoreRead> reads;       // one per group, where a user's store reads
  std::vector<ColdPart> parts;        // one per group, where most chunks are wanted in part
  std::vector<std::byte> part_heads;  // ColdPart::kHeadBytes for each group
  MappedShare mapped;                 // guarded by MappedReads until the launch
};

// A task with several boxes, which the plan produces one by one.
struct SeveralBoxes {
  std::uint32_t task;
  const std::byte* src;  // the decoded chunk on the device, to which boxes are relative; null: fill
};

// Staged devices only: state for getting from a slab to the tensor.
struct WaveStage {
  static constexpr int kNoBoxes = -1, kSeveralBoxes = -2;  // special values of a box's rank

  std::unique_ptr<StagingSlot> slot;
  std::vector<device::Box> boxes;  // one per task. Rank kNoBoxes: nothing to place. kSeveralBoxes: src is the base of
                                   // the boxes, null to fill; the plan produces the boxes again at the launch
  std::vector<SeveralBoxes> several;  // tasks of the launch with several boxes
  std::vector<device::Box> batch;     // some of the boxes of `several`
  std::vector<device::Piece> pieces;
  std::uint64_t bus_bytes = 0;  // that its copy moves
};

// A task of a wave that the device decodes or copies from the page cache.
struct WaveChunk {
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoBox = ~std::uint32_t{0};

  std::uint64_t at = kNowhere;  // offset in the encoded area of both slabs
  std::uint64_t room = 0;       // bytes reserved at that offset
  std::uint64_t bytes = 0;
  std::span<std::byte> dst;     // destination of decoding; empty: nothing to decode
  std::uint64_t delivered = 0;  // bytes of elements
  bool part = false;            // `bytes` hold a part, and only that part is decoded to `dst`
  std::uint64_t skipped = 0;    // decoded bytes that precede the part
  std::uint64_t enough = 0;     // only this many leading bytes of dst are wanted; 0: all
  bool apart = false;           // a piece of its own moves it, since it does not adjoin the others
  bool mapped = false;          // its bytes are not in the pinned slab, except for the head of a part
  // An engine reads its bytes into the device's memory, to the place they would have been copied to. The pinned slab
  // has them too where that failed (`apart`).
  bool straight = false;
  std::uint64_t head_at = 0, head_bytes = 0;
  std::uint64_t stored_at = 0;  // offset of the mapped bytes within the task's stored bytes
  bool failed = false;          // for mapped chunks: found to be bad after the launch
  std::uint32_t box = kNoBox;   // index among the wave's boxes at launch; kNoBox: nothing to place
  bool several = false;         // it has several boxes to place
  // Its place in the ChunkCache, if any; whether this wave fills that place; and the entry's number.
  std::span<std::byte> kept;
  bool keeps = false;
  std::uint32_t entry = 0;
  // For chunks cached as stored: their first bytes, readable by the CPU; and whether this wave decodes the chunk from
  // the cache. A part is put together in the encoded area: its head comes from the pinned slab, the bytes from
  // `stored_at` on come from the cache.
  std::span<const std::byte> kept_head;
  bool from_kept = false;

  std::uint64_t wanted_bytes() const noexcept { return enough != 0 ? enough : dst.size(); }
  bool in_pinned_slab() const noexcept { return !mapped && (!straight || apart); }
};

// State of waves of encoded bytes, which the device decodes.
struct WaveDecode {
  std::vector<WaveChunk> chunks;              // one per task, where the device may decode or map
  std::vector<device::Box> kept_moves;        // copies of stored bytes to and from the ChunkCache
  std::atomic<std::uint64_t> used{0};         // bytes used of the slot's encoded area, from its start
  std::atomic<std::uint64_t> mapped_used{0};  // bytes used of the device's encoded area, from its end
  std::vector<device::DecodeItem> items;
  std::vector<std::uint32_t> item_tasks;  // the task of each item
  std::vector<IndexKey> index_keys;       // the key of each item, where decode indices are kept
  // Tasks that the device handed back, and the bytes of the pinned slab that their decoded chunks occupy until they are
  // uploaded.
  std::vector<std::uint32_t> returned;
  std::vector<device::Box> returned_boxes;
  std::uint64_t returned_bytes = 0;
};

// Who decodes the wave, and how long that takes: input of the placement policy.
struct WaveTurn {
  WaveKind kind = WaveKind::kCpu;
  bool probe = false;
  bool in_policy = false;       // the policy's begin() was called for this wave
  bool is_measurement = false;  // the wave's duration is a valid measurement of its kind
  std::uint64_t started_ns = 0;
  std::atomic<std::uint64_t> cpu_decoded{0}, cpu_decode_ns{0};  // bytes, and decode time summed over threads
};

// Times for the trace; 0 where the end was not observed.
struct WaveTimes {
  std::uint64_t launched_ns = 0, copied_ns = 0, decoded_ns = 0;
  bool copy_marked = false;  // the slot's `copied` event marks where the copy ends and decoding begins
};

struct Wave {
  std::shared_ptr<const WaveForm> form;  // of all its tasks
  WaveTasks tasks;
  WaveFetch fetch;
  WaveStage stage;
  WaveDecode decode;
  WaveTurn turn;
  WaveTimes times;
  ChunkSink* sink = nullptr;  // the destination of its chunks

  // The object that a group is read from: the shared source, unless the group has an open object of its own that is a
  // direct descriptor or a cached file in place of a store's object.
  const store::ByteSource& object_of(std::uint32_t group_index) const {
    const TaskGroup& group = tasks.groups[group_index];
    const store::ByteSource& own = fetch.objects[group_index];
    if (group.source == kNoSource) return own;
    const store::ByteSource& shared = *tasks.sources[group.source].object;
    return own.is_open() && shared.offers(store::Offer::kRanges) ? own : shared;
  }
};

}  // namespace headrace::transfer

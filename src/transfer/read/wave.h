// Wave: tasks of a read that go through it together, in parts by who needs them.
//
// Threads: as WaveWork and ChunkSink have it. Vectors keep their capacity from one use of a wave to the next.
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

// How far a group is that is read in two steps: cold_part.h.
struct ColdPart {
  static constexpr std::size_t kHeadBytes = 1024;  // that a part may begin with, which is of 250 blocks

  enum class Asks : std::uint8_t { kAll, kTable, kPart } asks = Asks::kAll;
  std::uint64_t offset = 0, length = 0;  // of all of it, as its job has it; kUnknown: until the table has come
  codec::StreamPart part;                // kPart
};

// From objects to stored bytes.
struct WaveFetch {
  std::vector<ReadJob> jobs;               // one per group, used by cold groups
  std::vector<store::ByteSource> objects;  // one per group: opened for its job, or in the place of a store
  std::vector<StoreRead> reads;            // likewise, where a user's store reads
  std::vector<ColdPart> parts;             // likewise, where most chunks are wanted in part
  std::vector<std::byte> part_heads;       // ColdPart::kHeadBytes of each
  MappedShare mapped;                      // guarded by MappedReads until the launch
};

// A task whose boxes the plan gives one by one.
struct SeveralBoxes {
  std::uint32_t task;
  const std::byte* src;  // of the decoded chunk on the device; null: fill
};

// Staged devices only: from a slab to the tensor.
struct WaveStage {
  static constexpr int kNoBoxes = -1, kSeveralBoxes = -2;  // instead of a box's rank

  std::unique_ptr<StagingSlot> slot;
  std::vector<device::Box> boxes;     // one per task; rank kNoBoxes: nothing to place; kSeveralBoxes: src is what they
                                      // are relative to, null to fill, and the plan gives them again at the launch
  std::vector<SeveralBoxes> several;  // of the launch
  std::vector<device::Box> batch;     // some of their boxes
  std::vector<device::Piece> pieces;
  std::uint64_t bus_bytes = 0;  // of its copy
};

// A task of a wave that the device decodes, or takes out of the page cache.
struct WaveChunk {
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoBox = ~std::uint32_t{0};

  std::uint64_t at = kNowhere;  // in the encoded area of both slabs
  std::uint64_t room = 0;       // reserved there
  std::uint64_t bytes = 0;
  std::span<std::byte> dst;     // where it is decoded to; empty: nothing to decode
  std::uint64_t delivered = 0;  // bytes of elements
  bool part = false;            // `bytes` are of a part, which is all that is decoded to `dst`:
  std::uint64_t skipped = 0;    // so many decoded bytes lie before it
  std::uint64_t enough = 0;     // of the first bytes of dst, which has room for all; 0: all are wanted
  bool apart = false;           // its room is for the longest chunk
  bool mapped = false;          // not in the pinned slab, but for the head of a part:
  std::uint64_t head_at = 0, head_bytes = 0;
  std::uint64_t stored_at = 0;  // of what is mapped, in what is stored of the task
  bool failed = false;          // of mapped ones: found out later
  std::uint32_t box = kNoBox;   // of the wave's boxes at launch: what is left to place
  bool several = false;         // what is left to place are several boxes
  // Its place in the ChunkCache, if it has one; and whether it is put there by this wave, as which entry.
  std::span<std::byte> kept;
  bool keeps = false;
  std::uint32_t entry = 0;
  // Of what is kept as it is stored: its first bytes, for the CPU; and whether this wave decodes it out of there. A
  // part lies in the encoded area: its head comes from the pinned slab, what is behind `stored_at` from there.
  std::span<const std::byte> kept_head;
  bool from_kept = false;

  std::uint64_t wanted_bytes() const noexcept { return enough != 0 ? enough : dst.size(); }
};

// Waves of encoded bytes, which the device decodes.
struct WaveDecode {
  std::vector<WaveChunk> chunks;              // one per task, where the device may decode or map
  std::vector<device::Box> kept_moves;        // of stored bytes, to and out of the ChunkCache
  std::atomic<std::uint64_t> used{0};         // of the slot's encoded area, from its start
  std::atomic<std::uint64_t> mapped_used{0};  // of the device's, from its end
  std::vector<device::DecodeItem> items;
  std::vector<std::uint32_t> item_tasks;  // the task of each item
  std::vector<IndexKey> index_keys;       // of each item, where indices are kept
  // Tasks that the device handed back, and what of the pinned slab their decoded chunks take until they are uploaded.
  std::vector<std::uint32_t> returned;
  std::vector<device::Box> returned_boxes;
  std::uint64_t returned_bytes = 0;
};

// Who decodes, and how long it takes: for the placement policy.
struct WaveTurn {
  WaveKind kind = WaveKind::kCpu;
  bool probe = false;
  bool counts = false;  // the policy has been told that it began
  bool tells = false;   // how long it takes says something about its kind
  std::uint64_t begun_ns = 0;
  std::atomic<std::uint64_t> cpu_decoded{0}, cpu_decode_ns{0};  // bytes, and the time of all threads for them
};

// When what is recording: 0 where it was not seen to have ended.
struct WaveTimes {
  std::uint64_t launched_ns = 0, copied_ns = 0, decoded_ns = 0;
  bool copy_marked = false;  // the slot's `copied` tells where the copy ends and decoding begins
};

struct Wave {
  std::shared_ptr<const WaveForm> form;  // of its tasks
  WaveTasks tasks;
  WaveFetch fetch;
  WaveStage stage;
  WaveDecode decode;
  WaveTurn turn;
  WaveTimes times;
  ChunkSink* sink = nullptr;  // that its chunks go to

  // The object that a group is read from. A direct descriptor may have taken the place of its own, and a file that a
  // cache has that of a store.
  const store::ByteSource& object_of(std::uint32_t group_index) const {
    const TaskGroup& group = tasks.groups[group_index];
    const store::ByteSource& own = fetch.objects[group_index];
    if (group.source == kNoSource) return own;
    const store::ByteSource& shared = *tasks.sources[group.source].object;
    return own.is_open() && shared.offers(store::Offer::kRanges) ? own : shared;
  }
};

}  // namespace headrace::transfer

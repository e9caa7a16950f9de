// ReadOperation, waves that the device decodes: encoded bytes go into the wave's slab, one copy takes them to the
// device, one call undoes the codecs. What it hands back is decoded by the CPU from the same bytes once the wave is
// through, and what the CPU says of them is what counts.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/part.h"
#include "codec/device_stages.h"
#include "transfer/operation.h"
#include "transfer/placing.h"

namespace headrace::transfer {

// Leaves decoder_ null where the CPU is to decode.
Status ReadOperation::make_decoder() {
  const codec::Chain& chain = plan_->chain();
  const bool wanted = options_.placement == Placement::kGpu;
  if (options_.placement == Placement::kCpu || chain.raw() || (!staged_ && !wanted)) return {};
  device_stage_ = codec::device_stage_begin(chain, *device_);
  Result<std::unique_ptr<device::ChunkDecoder>> made(
      Status(Code::kUnsupported, Layer::kTransfer, "device " + device_->info().name + " is the CPU"));
  if (staged_) made = codec::make_decoder(chain, *device_);
  if (made.ok()) {
    decoder_ = std::move(*made);
    return {};
  }
  if (made.status().code() != Code::kUnsupported) return std::move(made).status();
  if (wanted) {
    return Status(Code::kUnsupported, Layer::kTransfer,
                  "decoding on the device was asked for: " + made.status().message());
  }
  decode_note_ = made.status().message();
  return {};
}

bool ReadOperation::choose_kind(Wave& wave) {
  wave.tasks.max_tasks = wave_tasks_;
  wave.decode.used.store(0, std::memory_order_relaxed);
  wave.decode.mapped_used.store(0, std::memory_order_relaxed);
  wave.turn.kind = decoder_ != nullptr ? WaveKind::kGpu : WaveKind::kCpu;
  if (policy_ != nullptr && decoder_ != nullptr) {
    wave.turn.begun_ns = base::now_ns();
    const WaveChoice choice = policy_->begin(wave.turn.begun_ns, may_map_ ? resources_.mapped().registered_bytes() : 0);
    wave.turn.kind = choice.kind;
    wave.turn.probe = choice.probe;
    wave.turn.counts = true;
    wave.turn.cpu_decoded.store(0, std::memory_order_relaxed);
    wave.turn.cpu_decode_ns.store(0, std::memory_order_relaxed);
    if (choice.trial) wave.tasks.max_tasks = trial_tasks_;
    // A probe takes about as long as one chunk, and leaves threads to the device's waves where chunks are large.
    if (choice.probe) {
      wave.tasks.max_tasks = std::min(wave_tasks_, std::max({lanes_.size() / 2, wave_tasks_ / 8, std::size_t{1}}));
    }
  }
  return on_device(wave);
}

CpuWork ReadOperation::cpu_work(const Wave& wave) const {
  const std::uint64_t ns = wave.turn.cpu_decode_ns.load(std::memory_order_relaxed);
  if (on_device(wave) || ns == 0) return {};
  const auto bytes = static_cast<double>(wave.turn.cpu_decoded.load(std::memory_order_relaxed));
  return {bytes * 1e9 / static_cast<double>(ns), lanes_.size(),
          std::min<std::uint64_t>(plan_->chunk_count(), wave_tasks_)};
}

bool ReadOperation::lend_temporaries(Lane& lane) {
  const auto bytes = static_cast<std::size_t>(plan_->chain().temporary_bytes());
  if (bytes == 0) return true;
  for (int i = 0; i < 2; ++i) {
    lane.workspace.temporary[i] = lane.memory->temporary[i].reserve(bytes);
    if (lane.workspace.temporary[i].data() == nullptr) return false;
  }
  return true;
}

// Room for the encoded bytes of one task, the same at every call; nothing: more than any chunk may have.
std::optional<std::span<std::byte>> ReadOperation::reserve_encoded(Wave& wave, std::uint32_t task_index,
                                                                   std::uint64_t bytes) {
  EncodedChunk& chunk = wave.decode.chunks[task_index];
  if (chunk.at == EncodedChunk::kNowhere) {
    chunk.room = base::align_up(bytes, kSlabAlignment);
    // What is mapped has no place in the pinned slab: its places grow towards the others', and the area has room for
    // the longest that all tasks together may have.
    std::atomic<std::uint64_t>& used = chunk.mapped ? wave.decode.mapped_used : wave.decode.used;
    const std::uint64_t before = used.fetch_add(chunk.room, std::memory_order_relaxed);
    const bool fits = before <= areas_.encoded_bytes && chunk.room <= areas_.encoded_bytes - before;
    chunk.at = chunk.mapped ? areas_.encoded_bytes - before - chunk.room : before;
    if (!fits) chunk.room = 0;
  }
  if (bytes > chunk.room) return std::nullopt;
  return base::part(wave.stage.slot->pinned, chunk.at, bytes);
}

// lane.detail describes the task. `encoded` holds what is stored, maybe in the slab already.
void ReadOperation::stage_encoded(Wave& wave, const Group& group, std::uint32_t task_index,
                                  std::span<const std::byte> encoded, Lane& lane) {
  const codec::Chain& chain = plan_->chain();
  const Task& task = wave.tasks.tasks[task_index];
  Status status = chain.check_encoded_size(encoded.size());
  if (status.ok() && device_stage_ > 0) {
    const std::span<std::byte> target =
        lane.memory->decoded.reserve(static_cast<std::size_t>(chain.capacity_before(device_stage_)));
    if (target.data() == nullptr || !lend_temporaries(lane)) {
      return fail_task(wave, group, task, lane, Status::out_of_memory());
    }
    trace::Timer timer(trace::Stage::kDecode);
    HEADRACE_DELAY("transfer.decode");
    std::size_t produced = 0;
    status = chain.decode_until(device_stage_, encoded, target, lane.workspace, produced);
    timer.set_bytes(produced);
    lane.stats.decode_seconds += timer.stop();
    encoded = target.first(std::min(produced, target.size()));
  }
  if (!status.ok()) return fail_task(wave, group, task, lane, std::move(status));
  const auto place = reserve_encoded(wave, task_index, encoded.size());
  if (!place) {
    return fail_task(wave, group, task, lane,
                     Status(Code::kInternal, Layer::kTransfer, "a wave's slab is too small for its encoded bytes"));
  }
  if (place->data() != encoded.data() && !encoded.empty()) {
    std::memcpy(place->data(), encoded.data(), encoded.size());
  }
  status = place_encoded(wave, task_index, encoded.size(), lane);
  if (!status.ok()) fail_task(wave, group, task, lane, std::move(status));
}

// lane.detail describes the task, which has its place in the encoded area.
Status ReadOperation::place_encoded(Wave& wave, std::uint32_t task_index, std::uint64_t length, Lane& lane) {
  const device::ElementOp& op = plan_->element_op();
  EncodedChunk& chunk = wave.decode.chunks[task_index];
  chunk.bytes = length;
  const device::Box& box = lane.detail.box;
  chunk.delivered = lane.detail.element_count() * op.element_bytes;
  // Straight into the tensor, where decoders may write with their widest accesses.
  const bool in_place = lane.detail.whole_chunk && op.moves_bytes_only() &&
                        reinterpret_cast<std::uintptr_t>(box.dst) % kSlabAlignment == 0;
  lane.described = nullptr;  // the box is spent
  if (in_place) {
    const auto target = whole_target(lane.detail, plan_->chain().decoded_bytes());
    if (!target) return Status(Code::kInternal, Layer::kTransfer, "a chunk reaches beyond the tensor");
    chunk.dst = *target;
    wave.stage.boxes[task_index].rank = WaveStage::kNoBoxes;
    return {};
  }
  const auto place = base::part(place_on_device(wave, task_index), 0, plan_->chain().decoded_bytes());
  if (!place) return Status(Code::kInternal, Layer::kTransfer, "a wave's slab is too small for a decoded chunk");
  HEADRACE_TRY(stage_boxes(wave, task_index, *place, 0, lane.detail));
  chunk.dst = *place;
  return {};
}

// One copy call, one decode call, at most one assemble call for chunks with one box each.
Status ReadOperation::queue_decode(Wave& wave, Lane& lane) {
  StagingSlot& slot = *wave.stage.slot;
  const std::size_t count = wave.tasks.tasks.size();
  wave.decode.items.clear();
  wave.decode.item_tasks.clear();
  wave.stage.pieces.clear();
  wave.stage.several.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    EncodedChunk& chunk = wave.decode.chunks[i];
    if (!chunk.dst.empty()) {
      const auto src =
          base::part(slot.on_device.first(static_cast<std::size_t>(areas_.encoded_bytes)), chunk.at, chunk.bytes);
      if (!src) return Status(Code::kInternal, Layer::kTransfer, "encoded bytes lie outside of their area");
      wave.decode.items.push_back({src->data(), src->size(), chunk.dst.data()});
      wave.decode.item_tasks.push_back(static_cast<std::uint32_t>(i));
    }
    if (wave.stage.boxes[i].rank == WaveStage::kNoBoxes) continue;
    if (wave.stage.boxes[i].rank == WaveStage::kSeveralBoxes) {
      wave.stage.several.push_back({static_cast<std::uint32_t>(i), wave.stage.boxes[i].src});
      chunk.several = true;
      continue;
    }
    if (kept != i) wave.stage.boxes[kept] = wave.stage.boxes[i];
    chunk.box = static_cast<std::uint32_t>(kept++);
  }
  const auto used =
      static_cast<std::size_t>(std::min(wave.decode.used.load(std::memory_order_relaxed), areas_.encoded_bytes));
  if (used > 0 && !wave.decode.items.empty())
    wave.stage.pieces.push_back({slot.pinned.data(), slot.on_device.data(), used});
  HEADRACE_TRY(add_mapped_pieces(wave, true));
  for (const device::Piece& piece : wave.stage.pieces) lane.stats.bus_bytes += piece.bytes;
  if (!wave.stage.pieces.empty()) HEADRACE_TRY(device_->copy_to_device(wave.stage.pieces, *slot.stream));
  if (trace::recording() && device_->record(*slot.copied, *slot.stream).ok()) wave.times.copy_marked = true;
  if (!wave.decode.items.empty()) {
    auto* const outcomes = reinterpret_cast<device::DecodeOutcome*>(slot.pinned.data() + areas_.outcomes_at);
    HEADRACE_TRY(decoder_->decode(wave.decode.items,
                                  slot.on_device.subspan(static_cast<std::size_t>(areas_.scratch_at),
                                                         static_cast<std::size_t>(areas_.scratch_bytes)),
                                  {outcomes, wave.decode.items.size()}, *slot.stream, nullptr, give_indices(wave)));
  }
  if (kept > 0) {
    HEADRACE_TRY(
        device_->assemble({wave.stage.boxes.data(), kept}, plan_->element_op(), plan_->fill_element(), *slot.stream));
  }
  return assemble_several(wave, wave.stage.several, lane);
}

device::DecodeIndices ReadOperation::indices_of(const Wave& wave) const {
  if (index_stride_ == 0) return {};
  return {wave.stage.slot->pinned.data() + areas_.indices_at,
          wave.stage.slot->on_device.data() + areas_.indices_on_device_at, index_stride_,
          static_cast<std::uint32_t>(wave.decode.items.size())};
}

// What is known of the wave's chunks goes with them; of the others it is to be collected. The cache is locked once.
device::DecodeIndices ReadOperation::give_indices(Wave& wave) {
  const device::DecodeIndices indices = indices_of(wave);
  if (index_stride_ == 0) return indices;
  wave.decode.index_keys.clear();
  for (const std::uint32_t task : wave.decode.item_tasks) {
    wave.decode.index_keys.push_back(plan_->index_key(group_of(wave.tasks, task), wave.tasks.tasks[task]));
  }
  IndexCache::Access cache(resources_.indices());
  for (std::size_t i = 0; i < wave.decode.items.size(); ++i) {
    indices.given(i) =
        cache.find(wave.decode.index_keys[i], wave.decode.items[i].src_bytes, indices.entries(i), index_stride_);
  }
  return indices;
}

// The wave is through: what it has collected is kept, and what was of no use is not.
void ReadOperation::keep_indices(const Wave& wave, Lane& lane) {
  if (index_stride_ == 0 || wave.decode.items.empty()) return;
  const auto* const outcomes =
      reinterpret_cast<const device::DecodeOutcome*>(wave.stage.slot->pinned.data() + areas_.outcomes_at);
  const device::DecodeIndices indices = indices_of(wave);
  IndexCache::Access cache(resources_.indices());
  for (std::size_t i = 0; i < wave.decode.items.size(); ++i) {
    const std::uint32_t given = indices.given(i), made = indices.made(i);
    const bool was_given = given != device::kIndexNone && given != device::kIndexCollect;
    if (was_given && made == device::kIndexBad) {
      cache.drop(wave.decode.index_keys[i]);
      ++lane.stats.bad_indices;
    }
    if (!outcomes[i].ok() || wave.decode.chunks[wave.decode.item_tasks[i]].failed) continue;
    const std::uint64_t encoded_bytes = wave.decode.items[i].src_bytes;
    if (was_given && made == device::kIndexNothing) ++lane.stats.indexed_chunks;
    if (made == device::kIndexUseless) cache.keep_useless(wave.decode.index_keys[i], encoded_bytes);
    if (given == device::kIndexCollect && made != device::kIndexNothing && made <= index_stride_) {
      cache.keep(wave.decode.index_keys[i], encoded_bytes, {indices.entries(i), made});
    }
  }
}

// The wave is through. Counts what the device has decoded; how many chunks it hands back.
std::size_t ReadOperation::count_decoded(Wave& wave, Lane& lane) {
  const auto* const outcomes =
      reinterpret_cast<const device::DecodeOutcome*>(wave.stage.slot->pinned.data() + areas_.outcomes_at);
  std::size_t good = 0, failed = 0;
  std::uint64_t delivered = 0;
  for (std::size_t i = 0; i < wave.decode.items.size(); ++i) {
    const EncodedChunk& chunk = wave.decode.chunks[wave.decode.item_tasks[i]];
    failed += chunk.failed ? 1 : 0;
    if (!outcomes[i].ok() || chunk.failed) continue;
    ++good;
    delivered += chunk.delivered;
  }
  lane.stats.chunks += good;
  lane.stats.gpu_chunks += good;
  lane.stats.decoded_bytes += delivered;
  lane.stats.gpu_decoded_bytes += delivered;
  report_.add_done(good);
  return wave.decode.items.size() - good - failed;
}

// Decodes on the CPU what the device has handed back, into what is free of the wave's pinned slab, and uploads it from
// there whenever that is full. The CPU's verdict on a chunk counts, whatever the device's was.
Status ReadOperation::decode_returned(Wave& wave, Lane& lane) {
  const codec::Chain& chain = plan_->chain();
  const auto* const outcomes =
      reinterpret_cast<const device::DecodeOutcome*>(wave.stage.slot->pinned.data() + areas_.outcomes_at);
  // Behind what is encoded, where the slab has room for one chunk even if all of that area is used: both are multiples
  // of kSlabAlignment, and a coarser alignment would reach into the outcomes.
  const std::uint64_t first = std::min(wave.decode.used.load(std::memory_order_relaxed), areas_.encoded_bytes);
  std::uint64_t at = first;
  std::vector<device::Box> boxes;
  std::vector<SeveralBoxes> several;
  wave.stage.pieces.clear();
  lane.described = nullptr;
  for (std::size_t i = 0; i < wave.decode.items.size(); ++i) {
    if (outcomes[i].ok() || wave.decode.chunks[wave.decode.item_tasks[i]].failed) continue;
    if (report_.stopped()) break;
    const std::uint32_t task_index = wave.decode.item_tasks[i];
    const EncodedChunk& chunk = wave.decode.chunks[task_index];
    const Group& group = group_of(wave.tasks, task_index);
    const Task& task = wave.tasks.tasks[task_index];
    if (at + slab_stride_ > areas_.outcomes_at) {
      HEADRACE_TRY(upload_returned(wave, boxes, several, lane));
      at = first;
    }
    const auto target = base::part(wave.stage.slot->pinned.first(static_cast<std::size_t>(areas_.outcomes_at)), at,
                                   chain.decoded_bytes());
    const auto staged = base::part(wave.stage.slot->pinned, chunk.at, chunk.bytes);
    Status status;
    if (!target || !staged || chunk.dst.size() < target->size()) {
      status = Status(Code::kInternal, Layer::kTransfer, "a wave's slab is too small for a decoded chunk");
    }
    std::span<const std::byte> encoded = staged.value_or(std::span<std::byte>());
    if (status.ok() && chunk.mapped) status = read_mapped_again(wave, task_index, lane, encoded);
    if (status.ok() && !lend_temporaries(lane)) status = Status::out_of_memory();
    if (status.ok()) {
      trace::Timer timer(trace::Stage::kDecode, chain.decoded_bytes());
      HEADRACE_DELAY("transfer.decode");
      status = chain.decode_from(device_stage_, encoded, *target, lane.workspace);
      lane.stats.decode_seconds += timer.stop();
    }
    if (!status.ok()) {
      fail_task(wave, group, task, lane, std::move(status));
      continue;
    }
    wave.stage.pieces.push_back({target->data(), chunk.dst.data(), target->size()});
    if (chunk.box != EncodedChunk::kNoBox) boxes.push_back(wave.stage.boxes[chunk.box]);
    if (chunk.several) several.push_back({task_index, chunk.dst.data()});
    at += slab_stride_;
    ++lane.stats.chunks;
    ++lane.stats.cpu_chunks;
    ++lane.stats.returned_chunks;
    lane.stats.decoded_bytes += chunk.delivered;
    lane.stats.cpu_decoded_bytes += chunk.delivered;
    report_.add_done(1);
  }
  return upload_returned(wave, boxes, several, lane);
}

Status ReadOperation::upload_returned(Wave& wave, std::vector<device::Box>& boxes, std::vector<SeveralBoxes>& several,
                                      Lane& lane) {
  if (wave.stage.pieces.empty()) return {};
  StagingSlot& slot = *wave.stage.slot;
  for (const device::Piece& piece : wave.stage.pieces) lane.stats.bus_bytes += piece.bytes;
  HEADRACE_TRY(device_->copy_to_device(wave.stage.pieces, *slot.stream));
  if (!boxes.empty()) {
    HEADRACE_TRY(device_->assemble(boxes, plan_->element_op(), plan_->fill_element(), *slot.stream));
  }
  HEADRACE_TRY(assemble_several(wave, several, lane));
  HEADRACE_TRY(device_->record(*slot.event, *slot.stream));
  HEADRACE_TRY(device_->synchronize(*slot.event));
  wave.stage.pieces.clear();
  boxes.clear();
  several.clear();
  return {};
}

}  // namespace headrace::transfer

// ReadOperation, per wave: from decoded or encoded bytes in its slab to elements in the tensor, and back to a free
// slab.
#include <algorithm>
#include <new>
#include <utility>

#include "base/clock.h"
#include "transfer/operation.h"
#include "transfer/placing.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kManyReads = 16;  // of files, that take longer than waking a thread

}  // namespace

// Moves the wave's slab to the device and its chunks to their places.
Status ReadOperation::launch_wave(Wave& wave, Lane& lane) {
  trace::Timer timer(trace::Stage::kAssemble);
  const std::uint64_t bus_bytes_before = lane.stats.bus_bytes;
  Status status;
  wave.times.copy_marked = false;
  try {
    status = on_device(wave) ? queue_decode(wave, lane) : queue_wave(wave, lane);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  wave.turn.tells = std::exchange(wave.stage.slot->used, true);
  Status recorded = device_->record(*wave.stage.slot->event, *wave.stage.slot->stream);
  wave.stage.bus_bytes = lane.stats.bus_bytes - bus_bytes_before;
  wave.times.launched_ns = timer.start_ns();
  wave.times.copied_ns = wave.times.decoded_ns = 0;
  lane.stats.assemble_seconds += timer.stop();
  // Without the event nothing tells when the device is through; freeing its memory waits for that.
  if (!recorded.ok()) wave.stage.slot.reset();
  return status.ok() ? recorded : status;
}

// A wave of elements: one copy call, at most one assemble call.
Status ReadOperation::queue_wave(Wave& wave, Lane& lane) {
  const device::ElementOp& op = plan_->element_op();
  StagingSlot& slot = *wave.stage.slot;
  const std::size_t count = wave.tasks.tasks.size();
  bool scattered = !op.moves_bytes_only();
  std::size_t live = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const device::Box& box = wave.stage.boxes[i];
    if (box.rank == WaveStage::kNoBoxes) continue;
    scattered = scattered || box.rank == WaveStage::kSeveralBoxes || box.src == nullptr ||
                !device::is_contiguous(box, op.element_bytes);
    ++live;
  }
  if (live == 0) return {};
  wave.stage.pieces.clear();
  if (!scattered) {
    // Every chunk is one run of the tensor: the bytes go straight there, neighbours as one piece.
    for (std::size_t i = 0; i < count; ++i) {
      const device::Box& box = wave.stage.boxes[i];
      if (box.rank < 0 || (may_map_ && wave.decode.chunks[i].mapped)) continue;
      const std::size_t bytes = static_cast<std::size_t>(box.element_count()) * op.element_bytes;
      if (bytes == 0) continue;
      if (!wave.stage.pieces.empty()) {
        device::Piece& last = wave.stage.pieces.back();
        if (last.src + last.bytes == box.src && last.dst + last.bytes == box.dst) {
          last.bytes += bytes;
          continue;
        }
      }
      wave.stage.pieces.push_back({box.src, box.dst, bytes});
    }
    HEADRACE_TRY(add_mapped_pieces(wave, false));
    for (const device::Piece& piece : wave.stage.pieces) lane.stats.bus_bytes += piece.bytes;
    return device_->copy_to_device(wave.stage.pieces, *slot.stream);
  }
  HEADRACE_TRY(add_mapped_pieces(wave, true));
  device::Piece* last = nullptr;  // of the pinned slab
  std::size_t kept = 0;
  wave.stage.several.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (wave.stage.boxes[i].rank == WaveStage::kNoBoxes) continue;
    const std::byte*& src = [&]() -> const std::byte*& {
      if (wave.stage.boxes[i].rank == WaveStage::kSeveralBoxes) {
        return wave.stage.several.emplace_back(SeveralBoxes{static_cast<std::uint32_t>(i), wave.stage.boxes[i].src})
            .src;
      }
      if (kept != i) wave.stage.boxes[kept] = wave.stage.boxes[i];
      return wave.stage.boxes[kept++].src;
    }();
    if (src == nullptr) continue;
    src = slot.on_device.data() + (src - slot.pinned.data());
    if (may_map_ && wave.decode.chunks[i].mapped) continue;
    // The slab as it is, gaps and all; in parts where some of it comes from elsewhere.
    const std::size_t at = i * slab_stride_;
    if (last == nullptr || (!wave.fetch.mapped.pieces.empty() && last->src + last->bytes != slot.pinned.data() + at)) {
      wave.stage.pieces.push_back({slot.pinned.data() + at, slot.on_device.data() + at, 0});
      last = &wave.stage.pieces.back();
    }
    const std::size_t most = std::min(slot.pinned.size(), slot.on_device.size());
    last->bytes =
        static_cast<std::size_t>(slot.pinned.data() + std::min<std::size_t>(at + slab_stride_, most) - last->src);
  }
  for (const device::Piece& piece : wave.stage.pieces) lane.stats.bus_bytes += piece.bytes;
  if (!wave.stage.pieces.empty()) HEADRACE_TRY(device_->copy_to_device(wave.stage.pieces, *slot.stream));
  if (kept > 0)
    HEADRACE_TRY(device_->assemble({wave.stage.boxes.data(), kept}, op, plan_->fill_element(), *slot.stream));
  return assemble_several(wave, wave.stage.several, lane);
}

// One assemble call for every batch of boxes: a task may have as many as elements.
Status ReadOperation::assemble_several(Wave& wave, std::span<const SeveralBoxes> tasks, Lane& lane) {
  constexpr std::size_t kBatch = 2048;
  if (tasks.empty()) return {};
  std::vector<device::Box>& batch = wave.stage.batch;
  batch.clear();
  batch.reserve(kBatch);
  lane.described = nullptr;
  const auto launch = [&] {
    const Status status =
        device_->assemble(batch, plan_->element_op(), plan_->fill_element(), *wave.stage.slot->stream);
    batch.clear();
    return status;
  };
  for (const SeveralBoxes& each : tasks) {
    plan_->describe(group_of(wave.tasks, each.task), wave.tasks.tasks[each.task], lane.detail);
    const std::span<const std::byte> place = place_on_device(wave, each.task);
    do {
      if (each.src != nullptr) {
        HEADRACE_TRY(take_from(lane.detail, plan_->element_op(), place, place.data() - each.src));
      } else {
        HEADRACE_TRY(check_target(lane.detail, plan_->element_op()));
      }
      batch.push_back(lane.detail.box);
      if (batch.size() == kBatch) HEADRACE_TRY(launch());
    } while (plan_->next_box(lane.detail));
  }
  return batch.empty() ? Status() : launch();
}

// All that the wave takes of its sources has been read. Of one that was changed meanwhile no chunk is known to be
// right, and those that are wrong lie in the tensor already: the read ends, whatever errors it collects.
void ReadOperation::check_sources(const Wave& wave) {
  try {
    if (Status status = fetcher_.check_unchanged(wave.tasks.sources); !status.ok()) report_.stop(std::move(status));
  } catch (const std::bad_alloc&) {
    report_.stop(Status::out_of_memory());
  }
}

void ReadOperation::drain_wave(Wave& wave, Lane& lane) {
  const std::uint64_t start = base::now_ns();
  Status status;
  if (wave.stage.slot != nullptr && wave.times.copy_marked) {
    trace::Span wait(trace::WaitFor{trace::Stage::kCopy});
    status = device_->synchronize(*wave.stage.slot->copied);
    if (wave.times.copied_ns == 0) wave.times.copied_ns = base::now_ns();
  }
  if (wave.stage.slot != nullptr && status.ok()) {
    trace::Span wait(trace::WaitFor{wave.times.copy_marked ? trace::Stage::kDecode : trace::Stage::kCopy});
    status = device_->synchronize(*wave.stage.slot->event);
  }
  if (!status.ok()) wave.stage.slot.reset();
  if (trace::recording()) {
    if (wave.times.copied_ns == 0) wave.times.copied_ns = base::now_ns();
    trace::record(trace::Stage::kCopy, wave.times.launched_ns, wave.times.copied_ns, wave.stage.bus_bytes,
                  trace::LaneKind::kDevice);
    if (wave.times.copy_marked) {
      trace::record(trace::Stage::kDecode, wave.times.copied_ns,
                    wave.times.decoded_ns != 0 ? wave.times.decoded_ns : base::now_ns(),
                    wave.decode.items.size() * plan_->chain().decoded_bytes(), trace::LaneKind::kDevice);
    }
  }
  lane.stats.copy_seconds += static_cast<double>(base::now_ns() - start) * 1e-9;
  bool others_wait = true;  // until this thread is done here, or has to do what takes a while
  const auto let_others_wait = [&] {
    others_wait = false;
    {
      std::lock_guard lock(mutex_);
      draining_ = false;
    }
    notifier_.notify();
  };
  // Every file is asked for its size, and closed.
  if (wave.fetch.mapped.reads.size() > kManyReads) let_others_wait();
  if (!wave.fetch.mapped.reads.empty() && status.ok() && !report_.stopped()) {
    try {
      settle_mapped(wave, lane);
    } catch (const std::bad_alloc&) {
      status = Status::out_of_memory();
    }
  }
  if (on_device(wave) && status.ok() && !report_.stopped()) {
    keep_indices(wave, lane);
    if (count_decoded(wave, lane) > 0) {
      // What the device hands back takes the CPU a while: others can wait for the next waves meanwhile.
      if (others_wait) let_others_wait();
      try {
        status = decode_returned(wave, lane);
      } catch (const std::bad_alloc&) {
        status = Status::out_of_memory();
      }
      // Freeing the slab waits for what was queued since.
      if (!status.ok()) wave.stage.slot.reset();
    }
  }
  if (status.ok() && !report_.stopped()) check_sources(wave);
  close_mapped(wave);
  if (!status.ok()) report_.stop(std::move(status));
  {
    std::lock_guard lock(mutex_);
    if (others_wait) draining_ = false;
    wave.being_drained = false;
    release_wave_locked(wave);
  }
  notifier_.notify();
}

}  // namespace headrace::transfer

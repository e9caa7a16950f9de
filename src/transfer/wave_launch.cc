// ReadOperation, per wave: from decoded or encoded bytes in its slab to elements in the tensor, and back to a free
// slab.
#include <algorithm>
#include <new>
#include <utility>

#include "base/clock.h"
#include "transfer/operation.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kManyReads = 16;  // of files, that take longer than waking a thread

}  // namespace

// Moves the wave's slab to the device and its chunks to their places.
Status ReadOperation::launch_wave(Wave& wave, Lane& lane) {
  trace::Timer timer(trace::Stage::kAssemble);
  const std::uint64_t bus_bytes_before = lane.stats.bus_bytes;
  Status status;
  wave.copy_marked = false;
  try {
    status = on_device(wave) ? queue_decode(wave, lane) : queue_wave(wave, lane);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  wave.tells = std::exchange(wave.slot->used, true);
  Status recorded = device_->record(*wave.slot->event, *wave.slot->stream);
  wave.bus_bytes = lane.stats.bus_bytes - bus_bytes_before;
  wave.launched_ns = timer.start_ns();
  wave.copied_ns = wave.decoded_ns = 0;
  lane.stats.assemble_seconds += timer.stop();
  // Without the event nothing tells when the device is through; freeing its memory waits for that.
  if (!recorded.ok()) wave.slot.reset();
  return status.ok() ? recorded : status;
}

// A wave of elements: one copy call, at most one assemble call.
Status ReadOperation::queue_wave(Wave& wave, Lane& lane) {
  const device::ElementOp& op = plan_->element_op();
  StagingSlot& slot = *wave.slot;
  const std::size_t count = wave.tasks.tasks.size();
  bool scattered = !op.moves_bytes_only();
  std::size_t live = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const device::Box& box = wave.boxes[i];
    if (box.rank == kNoBoxes) continue;
    scattered =
        scattered || box.rank == kSeveralBoxes || box.src == nullptr || !device::is_contiguous(box, op.element_bytes);
    ++live;
  }
  if (live == 0) return {};
  wave.pieces.clear();
  if (!scattered) {
    // Every chunk is one run of the tensor: the bytes go straight there, neighbours as one piece.
    for (std::size_t i = 0; i < count; ++i) {
      const device::Box& box = wave.boxes[i];
      if (box.rank < 0 || (may_map_ && wave.encoded[i].mapped)) continue;
      const std::size_t bytes = static_cast<std::size_t>(box.element_count()) * op.element_bytes;
      if (bytes == 0) continue;
      if (!wave.pieces.empty()) {
        device::Piece& last = wave.pieces.back();
        if (last.src + last.bytes == box.src && last.dst + last.bytes == box.dst) {
          last.bytes += bytes;
          continue;
        }
      }
      wave.pieces.push_back({box.src, box.dst, bytes});
    }
    HEADRACE_TRY(add_mapped_pieces(wave, false));
    for (const device::Piece& piece : wave.pieces) lane.stats.bus_bytes += piece.bytes;
    return device_->copy_to_device(wave.pieces, *slot.stream);
  }
  HEADRACE_TRY(add_mapped_pieces(wave, true));
  device::Piece* last = nullptr;  // of the pinned slab
  std::size_t kept = 0;
  wave.several.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (wave.boxes[i].rank == kNoBoxes) continue;
    const std::byte*& src = [&]() -> const std::byte*& {
      if (wave.boxes[i].rank == kSeveralBoxes) {
        return wave.several.emplace_back(SeveralBoxes{static_cast<std::uint32_t>(i), wave.boxes[i].src}).src;
      }
      if (kept != i) wave.boxes[kept] = wave.boxes[i];
      return wave.boxes[kept++].src;
    }();
    if (src == nullptr) continue;
    src = slot.on_device.data() + (src - slot.pinned.data());
    if (may_map_ && wave.encoded[i].mapped) continue;
    // The slab as it is, gaps and all; in parts where some of it comes from elsewhere.
    const std::size_t at = i * slab_stride_;
    if (last == nullptr || (!wave.mapped.pieces.empty() && last->src + last->bytes != slot.pinned.data() + at)) {
      wave.pieces.push_back({slot.pinned.data() + at, slot.on_device.data() + at, 0});
      last = &wave.pieces.back();
    }
    const std::size_t most = std::min(slot.pinned.size(), slot.on_device.size());
    last->bytes =
        static_cast<std::size_t>(slot.pinned.data() + std::min<std::size_t>(at + slab_stride_, most) - last->src);
  }
  for (const device::Piece& piece : wave.pieces) lane.stats.bus_bytes += piece.bytes;
  if (!wave.pieces.empty()) HEADRACE_TRY(device_->copy_to_device(wave.pieces, *slot.stream));
  if (kept > 0) HEADRACE_TRY(device_->assemble({wave.boxes.data(), kept}, op, plan_->fill_element(), *slot.stream));
  return assemble_several(wave, wave.several, lane);
}

// One assemble call for every batch of boxes: a task may have as many as elements.
Status ReadOperation::assemble_several(Wave& wave, std::span<const SeveralBoxes> tasks, Lane& lane) {
  constexpr std::size_t kBatch = 2048;
  if (tasks.empty()) return {};
  std::vector<device::Box>& batch = wave.batch;
  batch.clear();
  batch.reserve(kBatch);
  lane.described = nullptr;
  const auto launch = [&] {
    const Status status = device_->assemble(batch, plan_->element_op(), plan_->fill_element(), *wave.slot->stream);
    batch.clear();
    return status;
  };
  for (const SeveralBoxes& each : tasks) {
    plan_->describe(group_of(wave, each.task), wave.tasks.tasks[each.task], lane.detail);
    const std::span<const std::byte> place = place_on_device(wave, each.task);
    do {
      if (each.src != nullptr) {
        HEADRACE_TRY(take_from(lane.detail, place, place.data() - each.src));
      } else {
        HEADRACE_TRY(check_target(lane.detail));
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
    Status status = plan_->store().check_unchanged();
    for (const Source& source : wave.tasks.sources) {
      if (status.ok()) status = source.check_version();
    }
    if (!status.ok()) stop(std::move(status));
  } catch (const std::bad_alloc&) {
    stop(Status::out_of_memory());
  }
}

void ReadOperation::drain_wave(Wave& wave, Lane& lane) {
  const std::uint64_t start = base::now_ns();
  Status status;
  if (wave.slot != nullptr && wave.copy_marked) {
    trace::Span wait(trace::WaitFor{trace::Stage::kCopy});
    status = device_->synchronize(*wave.slot->copied);
    if (wave.copied_ns == 0) wave.copied_ns = base::now_ns();
  }
  if (wave.slot != nullptr && status.ok()) {
    trace::Span wait(trace::WaitFor{wave.copy_marked ? trace::Stage::kDecode : trace::Stage::kCopy});
    status = device_->synchronize(*wave.slot->event);
  }
  if (!status.ok()) wave.slot.reset();
  if (trace::recording()) {
    if (wave.copied_ns == 0) wave.copied_ns = base::now_ns();
    trace::record(trace::Stage::kCopy, wave.launched_ns, wave.copied_ns, wave.bus_bytes, trace::LaneKind::kDevice);
    if (wave.copy_marked) {
      trace::record(trace::Stage::kDecode, wave.copied_ns, wave.decoded_ns != 0 ? wave.decoded_ns : base::now_ns(),
                    wave.items.size() * plan_->chain().decoded_bytes(), trace::LaneKind::kDevice);
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
  if (wave.mapped.reads.size() > kManyReads) let_others_wait();
  if (!wave.mapped.reads.empty() && status.ok() && !stop_.load(std::memory_order_relaxed)) {
    try {
      settle_mapped(wave, lane);
    } catch (const std::bad_alloc&) {
      status = Status::out_of_memory();
    }
  }
  if (on_device(wave) && status.ok() && !stop_.load(std::memory_order_relaxed)) {
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
      if (!status.ok()) wave.slot.reset();
    }
  }
  if (status.ok() && !stop_.load(std::memory_order_relaxed)) check_sources(wave);
  close_mapped(wave);
  {
    std::lock_guard lock(mutex_);
    if (others_wait) draining_ = false;
    wave.being_drained = false;
    if (!status.ok()) stop_locked(std::move(status));
    release_wave_locked(wave);
  }
  notifier_.notify();
}

}  // namespace headrace::transfer

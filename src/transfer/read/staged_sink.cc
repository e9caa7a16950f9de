#include "transfer/read/staged_sink.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/part.h"
#include "base/trace.h"
#include "transfer/read/placing.h"

namespace headrace::transfer {
namespace {

Status slab_too_small() { return Status(Code::kInternal, Layer::kTransfer, "a wave's slab is too small for a chunk"); }

}  // namespace

void StagedSink::begin(Wave& wave) {
  SlabSink::begin(wave);
  if (wave.tasks.chain().raw() || kept_ != nullptr) wave.decode.chunks.assign(wave.tasks.tasks.size(), WaveChunk());
}

Result<std::span<std::byte>> StagedSink::own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                                    Worker& worker) {
  (void)length, (void)worker;
  return wave.tasks.chain().raw() ? pinned_place(wave, group.first_task) : std::span<std::byte>();
}

std::span<std::byte> StagedSink::arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                              Worker& worker) {
  (void)worker;
  if (group.task_count != 1 || !wave.tasks.chain().raw()) return {};
  return base::part(pinned_place(wave, group.first_task), 0, length).value_or(std::span<std::byte>());
}

// Chunks lie one stride apart; a range of several is read only if they lie so in their object, too.
std::span<std::byte> StagedSink::straight_room(Wave& wave, const TaskGroup& group, std::uint64_t offset,
                                               std::uint64_t length) {
  const std::uint64_t stride = wave.form->sizes.stride;
  for (std::uint32_t i = 0; group.task_count > 1 && i < group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[group.first_task + i];
    if (task.length == 0 || task.offset != offset + i * stride) return {};
  }
  const auto room = base::part(wave.stage.slot->on_device, group.first_task * stride, group.task_count * stride);
  const auto place = room ? base::part(*room, 0, length) : std::nullopt;
  if (!place) return {};
  for (std::uint32_t i = 0; i < group.task_count; ++i) wave.decode.chunks[group.first_task + i].straight = true;
  return *place;
}

void StagedSink::leave_straight(Wave& wave, const TaskGroup& group) noexcept {
  for (std::uint32_t i = 0; i < group.task_count; ++i) wave.decode.chunks[group.first_task + i].straight = false;
}

Status StagedSink::take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                             Worker& worker) {
  (void)group;
  const Task& task = wave.tasks.tasks[task_index];
  std::span<std::byte> target = pinned_place(wave, task_index);
  if (wave.tasks.chain().raw()) {
    const auto place = base::part(target, 0, stored.bytes.size());
    if (!place) return slab_too_small();
    target = *place;
    if (target.data() != stored.bytes.data() && !stored.bytes.empty()) {
      trace::Timer timer(trace::Stage::kAssemble, stored.bytes.size());
      std::memcpy(target.data(), stored.bytes.data(), stored.bytes.size());
      worker.stats.assemble_seconds += timer.stop();
    }
  } else {
    HEADRACE_TRY(decode(wave, task, stored, target, worker));
  }
  const std::uint64_t delivered = ReadTasks::element_bytes(wave.tasks, worker.detail);
  worker.described = nullptr;  // the boxes are consumed
  const std::uint64_t skipped = stored.more.empty() ? stored.skipped : 0;
  keep_whole(wave, task_index, skipped, target.size());
  HEADRACE_TRY(note_boxes(wave, task_index, target, skipped, worker.detail));
  count_taken(wave.tasks, delivered, worker);
  return {};
}

Status StagedSink::note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t length,
                               Worker& worker) {
  worker.stats.stored_bytes += length;
  WaveChunk& chunk = wave.decode.chunks[task_index];
  chunk.delivered = ReadTasks::element_bytes(wave.tasks, worker.detail);
  worker.described = nullptr;  // the boxes are consumed
  const auto place = base::part(pinned_place(wave, task_index), 0, length);
  if (!place) return slab_too_small();
  keep_whole(wave, task_index, skipped, length);
  HEADRACE_TRY(note_boxes(wave, task_index, *place, skipped, worker.detail));
  if (chunk.straight) {
    count_taken(wave.tasks, chunk.delivered, worker);
  } else {
    chunk.mapped = true;  // counted once the device has finished, because its file may shrink until then
  }
  return {};
}

void StagedSink::keep_whole(Wave& wave, std::uint32_t task_index, std::uint64_t skipped,
                            std::uint64_t bytes) const noexcept {
  if (!keeps(wave, task_index)) return;
  WaveChunk& chunk = wave.decode.chunks[task_index];
  if (skipped != 0 || bytes != chunk.kept.size()) withdraw(chunk);
}

bool StagedSink::is_elsewhere(const Wave& wave, std::size_t task_index) const noexcept {
  return wave.tasks.chain().raw() && !wave.decode.chunks[task_index].in_pinned_slab();
}

// Whether a kernel has to place the wave's chunks. `live`: the number of chunks to place.
bool StagedSink::scatters(const Wave& wave, std::size_t& live) const {
  bool scattered = !wave.tasks.op().moves_bytes_only();
  live = 0;
  for (std::size_t i = 0; i < wave.tasks.tasks.size(); ++i) {
    const device::Box& box = wave.stage.boxes[i];
    if (box.rank == WaveStage::kNoBoxes) continue;
    scattered = scattered || box.rank == WaveStage::kSeveralBoxes || box.src == nullptr ||
                !kept_place(wave, static_cast<std::uint32_t>(i)).empty() ||
                (wave.tasks.chain().raw() && wave.decode.chunks[i].straight) ||
                !device::is_contiguous(box, wave.tasks.op().element_bytes);
    ++live;
  }
  return scattered;
}

// One copy call, at most one assemble call.
Status StagedSink::queue(Wave& wave, Worker& worker) {
  StagingSlot& slot = *wave.stage.slot;
  const auto stride = static_cast<std::size_t>(wave.form->sizes.stride);
  std::size_t live = 0;
  const bool scattered = scatters(wave, live);
  if (live == 0) return {};
  wave.stage.pieces.clear();
  if (!scattered) return copy_runs(wave, worker);
  HEADRACE_TRY(add_mapped_slabs(wave));
  device::Piece* last = nullptr;  // the last piece of the pinned slab
  std::size_t kept = 0;
  begin_several(wave);
  for (std::size_t i = 0; i < wave.tasks.tasks.size(); ++i) {
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
    const auto task = static_cast<std::uint32_t>(i);
    if (const std::span<std::byte> cached = kept_place(wave, task); !cached.empty()) {
      WaveChunk& chunk = wave.decode.chunks[i];
      if (!chunk.keeps) continue;  // it is placed from the cache
      const std::byte* const from = pinned_place(wave, task).data();
      src = cached.data() + (src - from);
      chunk.dst = cached;
      if (is_elsewhere(wave, i)) continue;
      wave.stage.pieces.push_back({from, cached.data(), cached.size()});
      last = nullptr;
      continue;
    }
    src = slot.on_device.data() + (src - slot.pinned.data());
    if (is_elsewhere(wave, i)) {
      last = nullptr;
      continue;
    }
    // Copies the slab as it is, gaps included; in several pieces where some of it comes from elsewhere.
    const std::size_t at = i * stride;
    if (last == nullptr || (!wave.fetch.mapped.pieces.empty() && last->src + last->bytes != slot.pinned.data() + at)) {
      wave.stage.pieces.push_back({slot.pinned.data() + at, slot.on_device.data() + at, 0});
      last = &wave.stage.pieces.back();
    }
    const std::size_t most = std::min(slot.pinned.size(), slot.on_device.size());
    last->bytes = static_cast<std::size_t>(slot.pinned.data() + std::min<std::size_t>(at + stride, most) - last->src);
  }
  HEADRACE_TRY(copy_pieces(wave, worker));
  HEADRACE_TRY(assemble(wave, {wave.stage.boxes.data(), kept}));
  return assemble_several(wave, wave.stage.several, worker);
}

// Every chunk is one run of the tensor: copies the bytes straight there, with neighbours merged into one piece.
Status StagedSink::copy_runs(Wave& wave, Worker& worker) const {
  for (std::size_t i = 0; i < wave.tasks.tasks.size(); ++i) {
    const device::Box& box = wave.stage.boxes[i];
    if (box.rank < 0 || is_elsewhere(wave, i)) continue;
    const std::size_t bytes = static_cast<std::size_t>(box.element_count()) * wave.tasks.op().element_bytes;
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
  HEADRACE_TRY(add_mapped_runs(wave));
  return copy_pieces(wave, worker);
}

// From the mappings to where the pinned slab would have been copied.
Status StagedSink::add_mapped_slabs(Wave& wave) const {
  for (const MappedShare::TaskBytes& piece : wave.fetch.mapped.pieces) {
    const auto dst = base::part(device_place(wave, piece.task), piece.within, piece.src.size());
    if (!dst) return Status(Code::kInternal, Layer::kTransfer, "a mapped piece exceeds its buffer");
    wave.stage.pieces.push_back({piece.src.data(), dst->data(), dst->size()});
  }
  return {};
}

// From the mappings straight to the tensor: the bytes of each chunk that are in its box.
Status StagedSink::add_mapped_runs(Wave& wave) const {
  for (const MappedShare::TaskBytes& piece : wave.fetch.mapped.pieces) {
    const device::Box& box = wave.stage.boxes[piece.task];
    const auto begin = static_cast<std::uint64_t>(box.src - pinned_place(wave, piece.task).data());
    const std::uint64_t end = begin + box.element_count() * wave.tasks.op().element_bytes;
    const std::uint64_t from = std::max(begin, piece.within), to = std::min(end, piece.within + piece.src.size());
    if (from >= to) continue;
    wave.stage.pieces.push_back(
        {piece.src.data() + (from - piece.within), box.dst + (from - begin), static_cast<std::size_t>(to - from)});
  }
  return {};
}

// Chunks that the CPU placed are already counted.
std::span<const std::uint32_t> StagedSink::settle(Wave& wave, Worker& worker) {
  for (const MappedShare::Read& read : wave.fetch.mapped.reads) {
    const TaskGroup& group = wave.tasks.groups[read.group];
    for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
      const WaveChunk& chunk = wave.decode.chunks[i];
      if (!chunk.mapped || chunk.failed) continue;
      count_taken(wave.tasks, chunk.delivered, worker);
    }
  }
  if (kept_ == nullptr) return {};
  for (WaveChunk& chunk : wave.decode.chunks) {
    if (!std::exchange(chunk.keeps, false)) continue;
    chunk.dst.empty() || chunk.failed ? kept_->abandon(chunk.entry) : kept_->keep(chunk.entry);
  }
  return {};
}

}  // namespace headrace::transfer

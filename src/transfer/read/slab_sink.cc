#include "transfer/read/slab_sink.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/part.h"
#include "base/trace.h"
#include "transfer/read/placing.h"

namespace headrace::transfer {

SlabSink::SlabSink(const ReadTasks& tasks, std::shared_ptr<device::Device> device, std::shared_ptr<ChunkCache> kept,
                   bool decodes, bool maps)
    : ChunkSink(tasks), device_(std::move(device)), kept_(std::move(kept)), maps_(maps), decodes_(decodes) {}

void SlabSink::begin(Wave& wave) {
  const std::size_t count = wave.tasks.tasks.size();
  if (wave.stage.boxes.size() < count) wave.stage.boxes.resize(count);
  // A task that is not noted later has failed and has nothing to place.
  for (std::size_t i = 0; i < count; ++i) wave.stage.boxes[i].rank = WaveStage::kNoBoxes;
}

std::span<std::byte> SlabSink::pinned_place(const Wave& wave, std::uint32_t task_index) const {
  const std::uint64_t stride = wave.form->sizes.stride;
  return base::part(wave.stage.slot->pinned, task_index * stride, stride).value_or(std::span<std::byte>());
}

std::span<std::byte> SlabSink::device_place(const Wave& wave, std::uint32_t task_index) const {
  if (const std::span<std::byte> kept = kept_place(wave, task_index); !kept.empty()) return kept;
  const WaveSizes& sizes = wave.form->sizes;
  return base::part(wave.stage.slot->on_device, (decodes_ ? sizes.areas.decoded_at : 0) + task_index * sizes.stride,
                    sizes.stride)
      .value_or(std::span<std::byte>());
}

std::span<std::byte> SlabSink::kept_place(const Wave& wave, std::uint32_t task_index) const noexcept {
  return kept_ == nullptr || keeps_encoded() ? std::span<std::byte>() : wave.decode.chunks[task_index].kept;
}

// Looks up chunks that are cached and claims entries for those to be cached.
bool SlabSink::take_kept(Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
                         std::uint64_t object_bytes, Worker& worker) {
  if (kept_ == nullptr || !version || !may_keep(wave)) return false;
  bool all = true;
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    if (task.length == 0) continue;
    const IndexKey key = tasks_.plan().index_key(group, task);
    const std::uint64_t stored_bytes = task.length == kWholeObject ? object_bytes : task.length;
    // Memory is not taken yet for chunks that may not exist or have no version.
    const bool answered = stored_bytes != store::ByteSource::kUnknown;
    const std::uint64_t bytes = keeps_encoded() ? stored_bytes : wave.tasks.chain().decoded_bytes();
    const ChunkCache::Found found =
        kept_->find({key.object, key.offset, *version}, answered ? bytes : ChunkCache::kUnknown);
    WaveChunk& chunk = wave.decode.chunks[i];
    chunk.kept = found.memory;
    chunk.kept_head = found.head;
    chunk.entry = found.entry;
    chunk.keeps = found.what == ChunkCache::Found::What::kToKeep;
    all = all && found.what == ChunkCache::Found::What::kKept;
  }
  for (std::uint32_t i = group.first_task; all && i < group.first_task + group.task_count; ++i) {
    if (wave.tasks.tasks[i].length == 0 || wave.decode.chunks[i].kept.empty()) {
      fill(wave, group, i, worker);
    } else {
      (void)place_kept(wave, group, i, worker);
    }
  }
  return all;
}

bool SlabSink::place_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) {
  if (kept_ == nullptr) return false;
  const WaveChunk& chunk = wave.decode.chunks[task_index];
  if (chunk.kept.empty() || chunk.keeps) return false;
  if (Status status = note_kept(wave, group, task_index, worker); !status.ok())
    tasks_.fail(wave.tasks, group, wave.tasks.tasks[task_index], worker, std::move(status));
  return true;
}

Status SlabSink::note_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) {
  tasks_.describe(group, wave.tasks.tasks[task_index], worker);
  const std::uint64_t delivered = ReadTasks::element_bytes(wave.tasks, worker.detail);
  worker.described = nullptr;  // the box is consumed
  HEADRACE_TRY(note_boxes(wave, task_index, wave.decode.chunks[task_index].kept, 0, worker.detail));
  ++worker.stats.kept_chunks;
  worker.stats.decoded_bytes += delivered;
  tasks_.report().add_done(1);
  return {};
}

bool SlabSink::keeps(const Wave& wave, std::uint32_t task_index) const noexcept {
  return kept_ != nullptr && wave.decode.chunks[task_index].keeps;
}

void SlabSink::note_answer(Wave& wave, std::uint32_t task_index, std::uint64_t bytes, bool versioned) noexcept {
  if (!keeps(wave, task_index)) return;
  WaveChunk& chunk = wave.decode.chunks[task_index];
  chunk.kept = {};
  if (versioned) {
    chunk.kept = kept_->take_room(chunk.entry, keeps_encoded() ? bytes : wave.tasks.chain().decoded_bytes());
  }
  if (!chunk.kept.empty()) return;
  kept_->drop(chunk.entry);
  chunk.keeps = false;
}

void SlabSink::withdraw(WaveChunk& chunk) const noexcept {
  kept_->abandon(chunk.entry);
  chunk.keeps = false;
  chunk.kept = {};
}

// Chunks that did not reach the cache are left to the next read.
void SlabSink::release(Wave& wave) noexcept {
  if (kept_ == nullptr) return;
  for (WaveChunk& chunk : wave.decode.chunks) {
    if (std::exchange(chunk.keeps, false)) kept_->abandon(chunk.entry);
  }
}

Status SlabSink::note_boxes(Wave& wave, std::uint32_t task_index, std::span<const std::byte> decoded,
                            std::uint64_t skipped, TaskDetail& detail) const {
  device::Box& box = wave.stage.boxes[task_index];
  const bool fills = decoded.data() == nullptr;
  if (detail.several) {
    box.src = fills ? nullptr : decoded.data() - skipped;
    box.rank = WaveStage::kSeveralBoxes;
    return {};
  }
  if (fills) {
    HEADRACE_TRY(check_target(detail, wave.tasks.op()));
  } else {
    HEADRACE_TRY(take_from(detail, wave.tasks.op(), decoded, static_cast<std::int64_t>(skipped)));
  }
  box = detail.box;
  return {};
}

// A missing object is cached as missing.
Status SlabSink::fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) {
  if (keeps(wave, task_index) && wave.decode.chunks[task_index].kept.empty()) {
    kept_->keep(wave.decode.chunks[task_index].entry);
    wave.decode.chunks[task_index].keeps = false;
  }
  return note_boxes(wave, task_index, {}, 0, worker.detail);
}

// Moves the wave's slab to the device and its chunks to their places.
Status SlabSink::launch(Wave& wave, Worker& worker) {
  trace::Timer timer(trace::Stage::kAssemble);
  const std::uint64_t bus_bytes_before = worker.stats.bus_bytes;
  Status status;
  wave.times.copy_marked = false;
  try {
    status = queue(wave, worker);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  wave.turn.is_measurement = std::exchange(wave.stage.slot->used, true);
  Status recorded = device_->record(*wave.stage.slot->event, *wave.stage.slot->stream);
  wave.stage.bus_bytes = worker.stats.bus_bytes - bus_bytes_before;
  wave.times.launched_ns = timer.start_ns();
  wave.times.copied_ns = wave.times.decoded_ns = 0;
  worker.stats.assemble_seconds += timer.stop();
  // Without the event nothing marks when the device has finished; freeing its memory waits for that.
  if (!recorded.ok()) wave.stage.slot.reset();
  return status.ok() ? recorded : status;
}

bool SlabSink::passed(const Wave& wave) {
  if (wave.stage.slot == nullptr) return false;
  const Result<bool> passed = device_->query(*wave.stage.slot->event);
  return passed.ok() && *passed;
}

// Otherwise the end of a copy would be observed only when an idle worker waits for it.
void SlabSink::notice(Wave& wave) {
  if (wave.stage.slot == nullptr) return;
  const auto note = [&](device::Event& event, std::uint64_t& at_ns) {
    if (at_ns != 0) return;
    if (Result<bool> done = device_->query(event); done.ok() && *done) at_ns = base::now_ns();
  };
  note(wave.times.copy_marked ? *wave.stage.slot->copied : *wave.stage.slot->event, wave.times.copied_ns);
  if (wave.times.copy_marked) note(*wave.stage.slot->event, wave.times.decoded_ns);
}

Status SlabSink::drain(Wave& wave) {
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
  if (!trace::recording()) return status;
  if (wave.times.copied_ns == 0) wave.times.copied_ns = base::now_ns();
  trace::record(trace::Stage::kCopy, wave.times.launched_ns, wave.times.copied_ns, wave.stage.bus_bytes,
                trace::TrackKind::kDevice);
  if (wave.times.copy_marked) {
    trace::record(trace::Stage::kDecode, wave.times.copied_ns,
                  wave.times.decoded_ns != 0 ? wave.times.decoded_ns : base::now_ns(),
                  wave.decode.items.size() * wave.tasks.chain().decoded_bytes(), trace::TrackKind::kDevice);
  }
  return status;
}

Status SlabSink::copy_pieces(Wave& wave, Worker& worker) const {
  if (wave.stage.pieces.empty()) return {};
  for (const device::Piece& piece : wave.stage.pieces) worker.stats.bus_bytes += piece.bytes;
  return device_->copy_to_device(wave.stage.pieces, *wave.stage.slot->stream);
}

Status SlabSink::assemble(const Wave& wave, std::span<const device::Box> boxes) const {
  if (boxes.empty()) return {};
  return device_->assemble(boxes, wave.tasks.op(), wave.tasks.form->fill.data(), *wave.stage.slot->stream);
}

// Reserves for all of the wave's tasks: `several` is a new list in each read.
void SlabSink::begin_several(Wave& wave) {
  const auto boxes = std::span(wave.stage.boxes).first(wave.tasks.tasks.size());
  const auto has_several = [](const device::Box& box) { return box.rank == WaveStage::kSeveralBoxes; };
  wave.stage.several.clear();
  wave.stage.several.reserve(static_cast<std::size_t>(std::count_if(boxes.begin(), boxes.end(), has_several)));
}

Status SlabSink::assemble_several(Wave& wave, std::span<const SeveralBoxes> tasks, Worker& worker) const {
  constexpr std::size_t kBatch = 2048;
  if (tasks.empty()) return {};
  std::vector<device::Box>& batch = wave.stage.batch;
  batch.clear();
  batch.reserve(kBatch);
  worker.described = nullptr;
  const auto launch_batch = [&] {
    Status status = assemble(wave, batch);
    batch.clear();
    return status;
  };
  for (const SeveralBoxes& each : tasks) {
    tasks_.plan().describe(group_of(wave.tasks, each.task), wave.tasks.tasks[each.task], worker.detail);
    const std::span<const std::byte> place = device_place(wave, each.task);
    do {
      if (each.src != nullptr) {
        HEADRACE_TRY(take_from(worker.detail, wave.tasks.op(), place, place.data() - each.src));
      } else {
        HEADRACE_TRY(check_target(worker.detail, wave.tasks.op()));
      }
      batch.push_back(worker.detail.box);
      if (batch.size() == kBatch) HEADRACE_TRY(launch_batch());
    } while (tasks_.plan().next_box(worker.detail));
  }
  return launch_batch();
}

}  // namespace headrace::transfer

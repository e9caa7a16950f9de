#include "transfer/read/chunk_sink.h"

#include <algorithm>
#include <utility>

#include "base/fault.h"
#include "base/part.h"
#include "base/trace.h"
#include "transfer/read/chunk_part.h"

namespace headrace::transfer {

std::optional<std::span<std::byte>> ChunkSink::room(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                                    Worker& worker) {
  std::span<std::byte> target;
  if (group.task_count == 1 || has_own_buffers()) {
    Result<std::span<std::byte>> own = own_buffer(wave, group, length, worker);
    if (!own.ok()) {
      tasks_.fail_group(wave.tasks, group, worker, own.status());
      return std::nullopt;
    }
    target = *own;
  }
  if (target.data() == nullptr) target = worker.memory->encoded.reserve(static_cast<std::size_t>(length));
  if (target.data() == nullptr) {
    tasks_.fail_group(wave.tasks, group, worker, Status::out_of_memory());
    return std::nullopt;
  }
  const std::optional<std::span<std::byte>> part = base::part(target, 0, length);
  if (!part) {
    // Sizes were checked before. Even if that check failed, nothing is written beyond the place.
    tasks_.fail_group(
        wave.tasks, group, worker,
        Status(Code::kInternal, Layer::kTransfer, "the stored bytes do not fit the space reserved for them")
            .with_range(group.offset, length));
  }
  return part;
}

Result<ChunkSink::UnpackRoom> ChunkSink::unpack_room(std::uint64_t length, Worker& worker) {
  (void)length;
  UnpackRoom room;
  room.scratch = &worker.memory->packed;
  return room;
}

void ChunkSink::take(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
                     Worker& worker) {
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    if (wave.tasks.tasks[i].length == 0) {
      fill(wave, group, i, worker);
    } else {
      take_chunk(wave, group, i, data, data_offset, worker);
    }
  }
}

void ChunkSink::take_chunk(Wave& wave, const TaskGroup& group, std::uint32_t task_index,
                           std::span<const std::byte> data, std::uint64_t data_offset, Worker& worker) {
  if (place_kept(wave, group, task_index, worker)) return;
  const Task& task = wave.tasks.tasks[task_index];
  tasks_.describe(group, task, worker);
  Status status = take_one(wave, group, task_index, data, data_offset, worker);
  if (!status.ok()) tasks_.fail(wave.tasks, group, task, worker, std::move(status));
}

Status ChunkSink::take_one(Wave& wave, const TaskGroup& group, std::uint32_t task_index,
                           std::span<const std::byte> data, std::uint64_t data_offset, Worker& worker) {
  const Task& task = wave.tasks.tasks[task_index];
  const codec::Chain& chain = wave.tasks.chain();
  const bool whole_object = task.length == kWholeObject;
  // A raw chunk that was read alone may be only a part.
  const bool raw_part = chain.raw() && (whole_object || group.task_count == 1);
  const auto bytes = whole_object || raw_part ? data : base::part(data, task.offset - data_offset, task.length);
  if (!bytes) return Status(Code::kInternal, Layer::kTransfer, "a chunk lies outside the range that was read for it");
  if (chain.raw() && !raw_part) HEADRACE_TRY(chain.check_encoded_size(bytes->size()));
  worker.stats.stored_bytes += bytes->size();
  StoredChunk stored{*bytes};
  if (raw_part) stored.skipped = data_offset - (whole_object ? 0 : task.offset);
  PartRoom parts;
  if (tasks_.parts() && takes_parts(wave) && !keeps(wave, task_index))
    (void)cut_out(tasks_, wave, group, task, worker, parts, stored);
  return take_task(wave, group, task_index, stored, worker);
}

void ChunkSink::take_part(Wave& wave, const TaskGroup& group, const StoredChunk& part, Worker& worker) {
  const Task& task = wave.tasks.tasks[group.first_task];
  tasks_.describe(group, task, worker);
  worker.stats.stored_bytes += part.bytes.size();
  for (const StoredPart& other : part.more) worker.stats.stored_bytes += other.bytes.size();
  Status status = take_task(wave, group, group.first_task, part, worker);
  if (!status.ok()) tasks_.fail(wave.tasks, group, task, worker, std::move(status));
}

void ChunkSink::fill(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) {
  const Task& task = wave.tasks.tasks[task_index];
  tasks_.describe(group, task, worker);
  const std::uint64_t delivered = filled_bytes(wave.tasks, worker.detail);
  worker.described = nullptr;  // the boxes are consumed
  if (Status status = fill_task(wave, task_index, worker); !status.ok()) {
    return tasks_.fail(wave.tasks, group, task, worker, std::move(status));
  }
  ++worker.stats.missing_chunks;
  worker.stats.decoded_bytes += delivered;
  tasks_.report().add_done(1);
}

Status ChunkSink::take_mapped(Wave& wave, const TaskGroup& group, const MappedRange& range, Worker& worker) {
  const bool together = reserve_together(wave, group, range.offset, range.length);
  HEADRACE_TRY(note_unread(wave, group, range.offset, range.length, together ? nullptr : &range, worker));
  if (!together) return {};
  return range.add_pieces(group.first_task, range.offset, range.length, worker.mapped.pieces);
}

void ChunkSink::take_straight(Wave& wave, const TaskGroup& group, std::uint64_t offset, std::uint64_t length,
                              Worker& worker) {
  (void)note_unread(wave, group, offset, length, nullptr, worker);  // fails only where pieces are added
}

Status ChunkSink::note_unread(Wave& wave, const TaskGroup& group, std::uint64_t begin, std::uint64_t bytes,
                              const MappedRange* pieces_of, Worker& worker) {
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    if (task.length == 0) {
      fill(wave, group, i, worker);
      continue;
    }
    if (place_kept(wave, group, i, worker)) continue;
    const bool whole_object = task.length == kWholeObject;
    const bool raw = wave.tasks.chain().raw() && (whole_object || group.task_count == 1);
    const std::uint64_t offset = whole_object || raw ? begin : task.offset;
    const std::uint64_t length = whole_object || raw ? bytes : task.length;
    tasks_.describe(group, task, worker);
    const std::uint64_t skipped = raw ? offset - (whole_object ? 0 : task.offset) : 0;
    Status status;
    if (wave.tasks.chain().raw() && !raw) status = wave.tasks.chain().check_encoded_size(length);
    if (status.ok()) status = note_mapped(wave, i, skipped, length, worker);
    if (!status.ok()) {
      tasks_.fail(wave.tasks, group, task, worker, std::move(status));
    } else if (pieces_of != nullptr) {
      HEADRACE_TRY(pieces_of->add_pieces(i, offset, length, worker.mapped.pieces));
    }
  }
  return {};
}

Status ChunkSink::note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t length,
                              Worker& worker) {
  (void)wave, (void)task_index, (void)skipped, (void)length, (void)worker;
  return Status(Code::kInternal, Layer::kTransfer, "this sink does not accept mapped ranges");
}

Status ChunkSink::take_mapped_part(Wave& wave, const TaskGroup& group, const MappedPart& part, std::uint64_t stored_at,
                                   Worker& worker) {
  const std::uint32_t i = group.first_task;
  worker.stats.stored_bytes += part.head.size() + part.range.length;
  const auto head = note_mapped_part(wave, i, part, stored_at, worker);
  if (!head.ok()) {
    tasks_.fail(wave.tasks, group, wave.tasks.tasks[i], worker, head.status());
    return {};
  }
  worker.mapped.pieces.push_back({i, *head, 0});
  return part.range.add_pieces(i, part.range.offset, part.range.length, worker.mapped.pieces, head->size());
}

Result<std::span<const std::byte>> ChunkSink::note_mapped_part(Wave& wave, std::uint32_t task_index,
                                                               const MappedPart& part, std::uint64_t stored_at,
                                                               Worker& worker) {
  (void)wave, (void)task_index, (void)part, (void)stored_at, (void)worker;
  return Status(Code::kInternal, Layer::kTransfer, "this sink does not accept mapped parts");
}

bool ChunkSink::reserve_together(Wave& wave, const TaskGroup& group, std::uint64_t offset, std::uint64_t length) const {
  return (void)wave, (void)group, (void)offset, (void)length, false;
}

Status ChunkSink::launch(Wave& wave, Worker& worker) { return (void)wave, (void)worker, Status(); }
bool ChunkSink::passed(const Wave& wave) { return (void)wave, true; }
void ChunkSink::notice(Wave& wave) { (void)wave; }
bool ChunkSink::returns_tasks(const Wave& wave) const noexcept { return (void)wave, false; }
Status ChunkSink::drain(Wave& wave) { return (void)wave, Status(); }
std::span<const std::uint32_t> ChunkSink::settle(Wave& wave, Worker& worker) {
  return (void)wave, (void)worker, std::span<const std::uint32_t>();
}
Status ChunkSink::decode_returned(Wave& wave, std::uint32_t task_index, std::span<const std::byte> data,
                                  Worker& worker) {
  (void)wave, (void)task_index, (void)data, (void)worker;
  return Status(Code::kInternal, Layer::kTransfer, "a task was handed back to a sink that does not use the device");
}
Status ChunkSink::finish_returned(Wave& wave, Worker& worker) { return (void)wave, (void)worker, Status(); }

Status ChunkSink::decode(Wave& wave, const Task& task, const StoredChunk& stored, std::span<std::byte>& target,
                         Worker& worker) const {
  const codec::Chain& chain = wave.tasks.chain();
  if (target.data() == nullptr || !prepare(wave, worker)) return Status::out_of_memory();
  // decode() rejects a target that is too small.
  const bool part = stored.part_bytes != 0;
  std::uint64_t bytes = part ? stored.part_bytes : chain.decoded_bytes();
  const std::uint64_t room = stored.more.empty() ? bytes : chain.decoded_bytes();
  target = target.first(std::min(target.size(), static_cast<std::size_t>(room)));
  for (const StoredPart& other : stored.more) bytes += other.part_bytes;
  trace::Timer timer(trace::Stage::kDecode, bytes);
  HEADRACE_DELAY("transfer.decode");
  Status status = part ? decode_parts(chain, stored, target, worker.workspace)
                       : chain.decode(stored.bytes, target, worker.workspace);
  const double seconds = timer.stop();
  worker.stats.decode_seconds += seconds;
  if (wave.turn.in_policy) {
    wave.turn.cpu_decoded.fetch_add(bytes, std::memory_order_relaxed);
    wave.turn.cpu_decode_ns.fetch_add(static_cast<std::uint64_t>(seconds * 1e9), std::memory_order_relaxed);
  }
  if (status.ok() && part) worker.stats.skipped_bytes += chain.decoded_bytes() - bytes;
  if (status.ok() || task.length == kWholeObject) return status;
  return std::move(status).with_range(task.offset, task.length);
}

bool ChunkSink::prepare(const Wave& wave, Worker& worker) {
  worker.use(wave.tasks.form);
  const auto bytes = static_cast<std::size_t>(wave.tasks.chain().temporary_bytes());
  if (bytes == 0) return true;
  for (int i = 0; i < 2; ++i) {
    worker.workspace.temporary[i] = worker.memory->temporary[i].reserve(bytes);
    if (worker.workspace.temporary[i].data() == nullptr) return false;
  }
  return true;
}

void ChunkSink::count_taken(const WaveTasks& wave, std::uint64_t delivered, Worker& worker) const {
  ++worker.stats.chunks;
  worker.stats.decoded_bytes += delivered;
  if (!wave.chain().raw()) {
    ++worker.stats.cpu_chunks;
    worker.stats.cpu_decoded_bytes += delivered;
  }
  tasks_.report().add_done(1);
}

}  // namespace headrace::transfer

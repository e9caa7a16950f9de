#include "transfer/read/host_sink.h"

#include "base/fault.h"
#include "base/trace.h"
#include "transfer/read/placing.h"

namespace headrace::transfer {

Result<std::span<std::byte>> HostSink::own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                                  Worker& worker) {
  (void)length;
  if (!wave.tasks.chain().raw()) return std::span<std::byte>();
  tasks_.describe(group, wave.tasks.tasks[group.first_task], worker);
  if (!worker.detail.whole_chunk || !wave.tasks.op().moves_bytes_only()) return std::span<std::byte>();
  return whole_target(worker.detail, wave.tasks.chain().decoded_bytes()).value_or(std::span<std::byte>());
}

// Room in the tensor. Where failed chunks must leave it untouched, nothing is written before a whole chunk has arrived.
std::span<std::byte> HostSink::arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) {
  if (group.task_count != 1 || tasks_.report().collects_errors()) return {};
  const Result<std::span<std::byte>> room = own_buffer(wave, group, length, worker);
  return room.ok() && room->size() == length ? *room : std::span<std::byte>();
}

Status HostSink::take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                           Worker& worker) {
  (void)group;
  const Task& task = wave.tasks.tasks[task_index];
  const codec::Chain& chain = wave.tasks.chain();
  // Raw elements are placed from where they are.
  if (chain.raw()) {
    return place(wave.tasks, stored.bytes, stored.skipped, worker);
  }
  std::span<std::byte> target;
  if (worker.detail.whole_chunk && wave.tasks.op().moves_bytes_only()) {
    target = whole_target(worker.detail, chain.decoded_bytes()).value_or(std::span<std::byte>());
  } else {
    const bool one_part = stored.part_bytes != 0 && stored.more.empty();
    const std::uint64_t bytes = one_part ? stored.part_bytes : chain.decoded_bytes();
    target = worker.memory->decoded.reserve(static_cast<std::size_t>(bytes));
  }
  HEADRACE_TRY(decode(wave, task, stored, target, worker));
  return place(wave.tasks, target, stored.more.empty() ? stored.skipped : 0, worker);
}

Status HostSink::fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) {
  (void)task_index;
  TaskDetail& detail = worker.detail;
  trace::Timer timer(trace::Stage::kAssemble, ReadTasks::element_bytes(wave.tasks, detail));
  Status status;
  do {
    status = check_target(detail, wave.tasks.op());
    if (!status.ok()) break;
    device::copy_box(detail.box, wave.tasks.op(), wave.tasks.form->fill.data());
  } while (tasks_.plan().next_box(detail));
  worker.stats.assemble_seconds += timer.stop();
  return status;
}

// `decoded` begins at byte `skipped` of the decoded chunk. REQUIRES: worker.detail describes the task.
Status HostSink::place(const WaveTasks& wave, std::span<const std::byte> decoded, std::uint64_t skipped,
                       Worker& worker) const {
  TaskDetail& detail = worker.detail;
  const device::ElementOp& op = wave.op();
  const std::uint64_t delivered = ReadTasks::element_bytes(wave, detail);
  worker.described = nullptr;  // the boxes are consumed
  HEADRACE_TRY(take_from(detail, op, decoded, static_cast<std::int64_t>(skipped)));
  if (detail.box.src != detail.box.dst || detail.several) {  // else decoded or read in place
    trace::Timer timer(trace::Stage::kAssemble, delivered);
    HEADRACE_DELAY("transfer.assemble");
    device::copy_box(detail.box, op, wave.form->fill.data());
    while (tasks_.plan().next_box(detail)) {
      HEADRACE_TRY(take_from(detail, op, decoded, static_cast<std::int64_t>(skipped)));
      device::copy_box(detail.box, op, wave.form->fill.data());
    }
    worker.stats.assemble_seconds += timer.stop();
  }
  count_taken(wave, delivered, worker);
  return {};
}

}  // namespace headrace::transfer

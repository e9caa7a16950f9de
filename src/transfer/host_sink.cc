#include "transfer/host_sink.h"

#include "base/fault.h"
#include "base/trace.h"
#include "transfer/placing.h"

namespace headrace::transfer {

Result<std::span<std::byte>> HostSink::own_room(Wave& wave, const Group& group, std::uint64_t length, Lane& lane) {
  (void)length;
  if (!wave.tasks.chain().raw()) return std::span<std::byte>();
  tasks_.describe(group, wave.tasks.tasks[group.first_task], lane);
  if (!lane.detail.whole_chunk || !wave.tasks.op().moves_bytes_only()) return std::span<std::byte>();
  return whole_target(lane.detail, wave.tasks.chain().decoded_bytes()).value_or(std::span<std::byte>());
}

Status HostSink::take_task(Wave& wave, const Group& group, std::uint32_t task_index, std::span<const std::byte> encoded,
                           std::uint64_t skipped, Lane& lane) {
  (void)group;
  const Task& task = wave.tasks.tasks[task_index];
  const codec::Chain& chain = wave.tasks.chain();
  // Raw elements are placed from where they are.
  if (chain.raw()) {
    HEADRACE_TRY(check_raw(wave, task, encoded));
    return place(wave.tasks, encoded, skipped, lane);
  }
  std::span<std::byte> target;
  if (lane.detail.whole_chunk && wave.tasks.op().moves_bytes_only()) {
    target = whole_target(lane.detail, chain.decoded_bytes()).value_or(std::span<std::byte>());
  } else {
    target = lane.memory->decoded.reserve(static_cast<std::size_t>(chain.decoded_bytes()));
  }
  HEADRACE_TRY(decode(wave, task, encoded, target, lane));
  return place(wave.tasks, target, 0, lane);
}

Status HostSink::fill_task(Wave& wave, std::uint32_t task_index, Lane& lane) {
  (void)task_index;
  TaskDetail& detail = lane.detail;
  trace::Timer timer(trace::Stage::kAssemble, ReadTasks::element_bytes(wave.tasks, detail));
  Status status;
  do {
    status = check_target(detail, wave.tasks.op());
    if (!status.ok()) break;
    device::copy_box(detail.box, wave.tasks.op(), wave.tasks.form->fill.data());
  } while (tasks_.plan().next_box(detail));
  lane.stats.assemble_seconds += timer.stop();
  return status;
}

// lane.detail describes the task. `decoded` is what lies from byte `skipped` of the decoded chunk on.
Status HostSink::place(const WaveTasks& wave, std::span<const std::byte> decoded, std::uint64_t skipped,
                       Lane& lane) const {
  TaskDetail& detail = lane.detail;
  const device::ElementOp& op = wave.op();
  const std::uint64_t delivered = ReadTasks::element_bytes(wave, detail);
  lane.described = nullptr;  // the boxes are spent
  HEADRACE_TRY(take_from(detail, op, decoded, static_cast<std::int64_t>(skipped)));
  if (detail.box.src != detail.box.dst || detail.several) {  // else decoded or read in place
    trace::Timer timer(trace::Stage::kAssemble, delivered);
    HEADRACE_DELAY("transfer.assemble");
    device::copy_box(detail.box, op, wave.form->fill.data());
    while (tasks_.plan().next_box(detail)) {
      HEADRACE_TRY(take_from(detail, op, decoded, static_cast<std::int64_t>(skipped)));
      device::copy_box(detail.box, op, wave.form->fill.data());
    }
    lane.stats.assemble_seconds += timer.stop();
  }
  count_taken(wave, delivered, lane);
  return {};
}

}  // namespace headrace::transfer

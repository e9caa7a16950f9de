#include "transfer/read/read_tasks.h"

#include <utility>
#include <vector>

#include "transfer/read/placing.h"

namespace headrace::transfer {

void ReadTasks::describe(const TaskGroup& group, const Task& task, Worker& worker) const {
  if (worker.described == &task) return;
  plan_.describe(group, task, worker.detail);
  worker.described = &task;
}

const std::string& ReadTasks::key_of(const WaveTasks& wave, const TaskGroup& group, const Worker& worker) {
  return group.source == kNoSource ? worker.detail.key : *wave.sources[group.source].key;
}

void ReadTasks::fail(const WaveTasks& wave, const TaskGroup& group, const Task& task, Worker& worker,
                     Status status) const {
  worker.described = nullptr;  // its boxes may be consumed
  describe(group, task, worker);
  const bool damaged = status.code() == Code::kCorrupt || status.code() == Code::kShort;
  if (!damaged || wave.form->damaged.empty()) {
    return report_.fail(group, task, key_of(wave, group, worker), std::move(status));
  }
  note_damage(wave, worker);
  report_.note_failure(group, task, key_of(wave, group, worker), std::move(status));
  ++worker.stats.damaged_chunks;
}

void ReadTasks::note_damage(const WaveTasks& wave, Worker& worker) const {
  worker.described = nullptr;  // the loop consumes its boxes
  std::vector<device::Box> boxes;
  do {
    if (Status status = check_target(worker.detail, wave.op()); !status.ok()) return report_.stop(std::move(status));
    boxes.push_back(worker.detail.box);
    boxes.back().src = nullptr;
  } while (plan_.next_box(worker.detail));
  report_.replace(boxes, wave.form->damaged);
}

void ReadTasks::fail_group(const WaveTasks& wave, const TaskGroup& group, Worker& worker, const Status& status) const {
  if (group.source != kNoSource) wave.sources[group.source].note(status);
  for (std::uint32_t i = 0; i < group.task_count; ++i) {
    fail(wave, group, wave.tasks[group.first_task + i], worker, status);
  }
}

}  // namespace headrace::transfer

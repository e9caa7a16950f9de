#include "transfer/read/read_tasks.h"

#include <utility>

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
  describe(group, task, worker);
  report_.fail(group, task, key_of(wave, group, worker), std::move(status));
}

void ReadTasks::fail_group(const WaveTasks& wave, const TaskGroup& group, Worker& worker, const Status& status) const {
  if (group.source != kNoSource) wave.sources[group.source].note(status);
  for (std::uint32_t i = 0; i < group.task_count; ++i) {
    fail(wave, group, wave.tasks[group.first_task + i], worker, status);
  }
}

}  // namespace headrace::transfer

#include "transfer/read_tasks.h"

#include <utility>

namespace headrace::transfer {

void ReadTasks::describe(const Group& group, const Task& task, Lane& lane) const {
  if (lane.described == &task) return;
  plan_.describe(group, task, lane.detail);
  lane.described = &task;
}

const std::string& ReadTasks::key_of(const WaveTasks& wave, const Group& group, const Lane& lane) {
  return group.source == kNoSource ? lane.detail.key : *wave.sources[group.source].key;
}

void ReadTasks::fail(const WaveTasks& wave, const Group& group, const Task& task, Lane& lane, Status status) const {
  describe(group, task, lane);
  report_.fail(group, task, key_of(wave, group, lane), std::move(status));
}

void ReadTasks::fail_group(const WaveTasks& wave, const Group& group, Lane& lane, const Status& status) const {
  if (group.source != kNoSource) wave.sources[group.source].note(status);
  for (std::uint32_t i = 0; i < group.task_count; ++i) {
    fail(wave, group, wave.tasks[group.first_task + i], lane, status);
  }
}

}  // namespace headrace::transfer

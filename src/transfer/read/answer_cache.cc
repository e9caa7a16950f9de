#include "transfer/read/answer_cache.h"

#include <algorithm>

#include "base/part.h"
#include "transfer/read/chunk_sink.h"

namespace headrace::transfer {

using What = ChunkCache::Found::What;

// The cache's entry for a task that has stored bytes.
ChunkCache::Found AnswerCache::find(const TaskGroup& group, const Task& task, const StoredVersion& version) const {
  const ChunkCache::Found found = cache_->look_up(key_of(group, task, version));
  const bool fits = task.length == kWholeObject || task.length == found.memory.size();
  return fits ? found : ChunkCache::Found();
}

void AnswerCache::deliver_cached(Wave& wave, const TaskGroup& group, std::uint32_t task_index,
                                 std::span<const std::byte> bytes, Worker& worker) {
  if (bytes.empty()) return wave.sink->fill(wave, group, task_index, worker);
  worker.stats.read_bytes += bytes.size();
  worker.stats.memory_bytes += bytes.size();
  wave.sink->note_answer(wave, task_index, bytes.size(), true);
  wave.sink->take_chunk(wave, group, task_index, bytes, wave.tasks.tasks[task_index].offset, worker);
}

bool AnswerCache::take(Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
                       Worker& worker) const {
  if (cache_ == nullptr || !version) return false;
  const auto tasks = std::span(wave.tasks.tasks).subspan(group.first_task, group.task_count);
  for (const Task& task : tasks) {
    if (task.length != 0 && find(group, task, *version).what != What::kKept) return false;
  }
  for (std::uint32_t i = 0; i < group.task_count; ++i) {
    const ChunkCache::Found found = tasks[i].length != 0 ? find(group, tasks[i], *version) : ChunkCache::Found();
    deliver_cached(wave, group, group.first_task + i, found.memory, worker);
  }
  return true;
}

void AnswerCache::trim(const Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
                       std::uint64_t& offset, std::uint64_t& length) const {
  if (cache_ == nullptr || !version || group.task_count < 2) return;
  std::uint64_t begin = offset + length, end = offset;
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    if (task.length == 0 || find(group, task, *version).what == What::kKept) continue;
    begin = std::min(begin, task.offset);
    end = std::max(end, task.offset + task.length);
  }
  if (begin >= end) return;  // all have been cached meanwhile
  offset = begin;
  length = end - begin;
}

bool AnswerCache::give(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
                       Worker& worker) const {
  if (cache_ == nullptr || group.source == kNoSource || group.task_count < 2) return false;
  const auto version = wave.tasks.sources[group.source].stored();
  if (!version) return false;
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    const ChunkCache::Found found = task.length != 0 ? find(group, task, *version) : ChunkCache::Found();
    if (task.length == 0 || found.what == What::kKept) {
      deliver_cached(wave, group, i, found.memory, worker);
      continue;
    }
    wave.sink->take_chunk(wave, group, i, data, data_offset, worker);
  }
  return true;
}

void AnswerCache::keep_chunk(const ChunkCache::Key& key, std::span<const std::byte> bytes) const noexcept {
  const ChunkCache::Found found = cache_->find(key, bytes.size());
  if (found.what != What::kToKeep) return;
  std::ranges::copy(bytes, found.memory.begin());
  cache_->keep(found.entry);
}

void AnswerCache::keep_absence(const TaskGroup& group, const Task& task) const noexcept {
  if (cache_ == nullptr) return;
  const ChunkCache::Found found = cache_->find(key_of(group, task, {}), ChunkCache::kUnknown);
  if (found.what != What::kToKeep) return;
  found.memory.empty() ? cache_->keep(found.entry) : cache_->abandon(found.entry);
}

void AnswerCache::keep(const Wave& wave, std::uint32_t group_index) const noexcept {
  if (cache_ == nullptr) return;
  const TaskGroup& group = wave.tasks.groups[group_index];
  const ReadJob& job = wave.fetch.jobs[group_index];
  const std::span<const std::byte> data = job.data;
  if (group.source == kNoSource) {
    const RangeRead& range = job.read->range;
    const bool all = job.offset == 0 && (job.read->whole || range.object_bytes == data.size());
    if (all && !range.found_version.empty()) keep_chunk(key_of(group, wave.tasks.tasks[group.first_task], {}), data);
    return;
  }
  const auto version = wave.tasks.sources[group.source].stored();
  if (!version) return;
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    if (task.length == 0 || task.offset < job.offset) continue;
    if (const auto bytes = base::part(data, task.offset - job.offset, task.length)) {
      keep_chunk(key_of(group, task, *version), *bytes);
    }
  }
}

}  // namespace headrace::transfer

#include "cufile/batch_run.h"

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace headrace::cufile {

bool BatchRun::take_room(unsigned count) {
  std::lock_guard lock(mutex_);
  if (count > capacity_ - taken_) return false;
  taken_ += count;
  cancelled_ = false;
  return true;
}

void BatchRun::give_up_room(unsigned count) {
  std::lock_guard lock(mutex_);
  taken_ -= count;
  changed_.notify_all();
}

void BatchRun::end(BatchEntry& entry, CUfileStatus_t status, std::int64_t result) noexcept {
  entry.ended = true;
  // Before the event, since whoever sees the event may close the file.
  entry.file = FileTable::Use();
  std::lock_guard lock(mutex_);
  events_.push_back({entry.cookie, status, static_cast<std::size_t>(result)});
  changed_.notify_all();
}

unsigned BatchRun::reap(unsigned least, unsigned room, CUfileIOEvents_t* events,
                        const std::chrono::steady_clock::time_point* deadline) {
  std::unique_lock lock(mutex_);
  const auto enough = [&] { return events_.size() >= std::min(least, taken_); };
  if (deadline == nullptr) {
    changed_.wait(lock, enough);
  } else {
    changed_.wait_until(lock, *deadline, enough);
  }
  const unsigned count = static_cast<unsigned>(std::min<std::size_t>(room, events_.size()));
  std::copy_n(events_.begin(), count, events);
  events_.erase(events_.begin(), events_.begin() + count);
  taken_ -= count;
  if (count > 0) changed_.notify_all();
  return count;
}

void BatchRun::cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool BatchRun::cancelled() {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

void BatchRun::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return events_.size() >= taken_; });
}

namespace {

Outcome logged(BatchJob& job, const Status& status) noexcept {
  EventLog& log = job.driver->log;
  try {
    if (log.wants(Severity::kError)) log.write(Severity::kError, status.to_string());
  } catch (const std::bad_alloc&) {  // the status code is returned as well
  }
  return outcome_of(status);
}

void finish(BatchJob& job, BatchEntry& entry, const Outcome& out, const PathBytes& paths) noexcept {
  IoStatistics& statistics = job.driver->statistics;
  const bool aligned =
      entry.target.aligned && page_aligned(entry.size) && page_aligned(static_cast<std::uint64_t>(entry.file_offset));
  statistics.transfer(Op::kBatchEntry, entry.write, out.ok(), out.ok() ? static_cast<std::uint64_t>(out.value) : 0,
                      base::now_ns() - job.submitted_ns, gpu_of(entry.target.place), aligned, paths);
  if (!out.ok()) statistics.count(Op::kBatchEntry, false);
  job.batch->end(entry, out.ok() ? CUFILE_COMPLETE : CUFILE_FAILED, out.ok() ? out.value : -out.error);
}

// Submits all entries of one kind of memory to one queue. Short reads are added to `again`, because the file's size has
// to be read again.
Status run_group(BatchJob& job, std::size_t first, std::vector<std::size_t>& again) {
  BatchEntry& leader = job.entries[first];
  const int key = queue_key(leader.target.place);
  HEADRACE_TRY_ASSIGN(auto queue, job.driver->queues->lend(*leader.file->session, leader.target.place));
  std::size_t pending = 0;
  // Nothing may throw after the first request: pending requests must be waited for.
  std::vector<std::uint64_t> wanted(job.entries.size());
  again.reserve(job.entries.size());
  PathBytes seen = PathBytes::of(queue->counters());
  for (std::size_t i = first; i < job.entries.size(); ++i) {
    BatchEntry& entry = job.entries[i];
    if (entry.ended || queue_key(entry.target.place) != key) continue;
    if (job.batch->cancelled()) {
      job.batch->end(entry, CUFILE_CANCELED, 0);
      continue;
    }
    Outcome out = moved(entry.size);
    if (!entry.write) out = readable_bytes(*entry.file, entry.size, entry.file_offset);
    if (out.value <= 0) {
      finish(job, entry, out, {});
      continue;
    }
    wanted[i] = static_cast<std::uint64_t>(out.value);
    const FileRange range{static_cast<std::uint64_t>(entry.file_offset), entry.target.memory,
                          static_cast<std::size_t>(wanted[i])};
    Status status;
    try {
      status = queue->add(entry.file->file, {&range, 1}, entry.write, i);
    } catch (const std::bad_alloc&) {
      status = Status::out_of_memory();
    }
    if (!status.ok()) {
      finish(job, entry, logged(job, status), {});
      continue;
    }
    ++pending;
  }
  while (pending > 0) {
    FileCompletion done[16];
    const std::size_t count = queue->wait(done, 1, std::chrono::hours(1));
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(done[i].tag);
      --pending;
      if (done[i].status.code() == Code::kShort && !job.entries[at].write) {
        again.push_back(at);
        continue;
      }
      const PathBytes now = PathBytes::of(queue->counters());
      finish(job, job.entries[at], done[i].status.ok() ? moved(wanted[at]) : logged(job, done[i].status), now - seen);
      seen = now;
    }
  }
  return {};
}

}  // namespace

void run_batch(BatchJob& job) noexcept {
  Outcome failure = failed_errno(ENOMEM);
  try {
    for (BatchEntry& entry : job.entries) {
      if (entry.refused != 0) {
        finish(job, entry, failed_errno(entry.refused), {});
      } else if (entry.size == 0) {
        finish(job, entry, moved(0), {});
      }
    }
    std::vector<std::size_t> again;
    for (std::size_t i = 0; i < job.entries.size(); ++i) {
      if (job.entries[i].ended || std::find(again.begin(), again.end(), i) != again.end()) continue;
      if (const Status status = run_group(job, i, again); !status.ok()) {
        finish(job, job.entries[i], logged(job, status), {});
      }
    }
    for (const std::size_t i : again) {
      BatchEntry& entry = job.entries[i];
      PathBytes paths;
      const Outcome out =
          move_bytes(*job.driver, *entry.file, entry.target, entry.size, entry.file_offset, false, paths);
      finish(job, entry, out, paths);
    }
  } catch (const std::bad_alloc&) {
  } catch (...) {
    failure = failed(CU_FILE_INTERNAL_ERROR);
  }
  for (BatchEntry& entry : job.entries) {
    if (!entry.ended) finish(job, entry, failure, {});
  }
}

}  // namespace headrace::cufile

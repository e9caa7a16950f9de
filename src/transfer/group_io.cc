// ReadOperation, per group: open, read what is cached, give it to the wave's sink; and per wave: launch and drain.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/descriptors.h"
#include "transfer/operation.h"
#include "transfer/placing.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kManyReads = 16;  // of files, that take longer than waking a thread

}  // namespace

ReadOperation::GroupResult ReadOperation::process_group(Wave& wave, std::uint32_t group_index, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  if (group.length == 0) {
    for (std::uint32_t i = 0; i < group.task_count; ++i) wave.sink->fill(wave, group, group.first_task + i, lane);
    return GroupResult::kDone;
  }
  if (group.source != kNoSource) {
    const Source& source = wave.tasks.sources[group.source];
    if (source.object == nullptr) {
      tasks_.fail_group(wave.tasks, group, lane, source.failure);
      return GroupResult::kDone;
    }
    return read_group(wave, group_index, *source.object, group.offset, group.length, lane);
  }
  const Task& task = wave.tasks.tasks[group.first_task];
  tasks_.describe(group, task, lane);
  store::ByteSource& object = wave.fetch.objects[group_index];
  if (!base::Descriptors::of_process().room()) return GroupResult::kStarved;
  Status status = fetcher_.open(lane.detail.key, object, lane.stats);
  if (status.code() == Code::kNotFound) {
    wave.sink->fill(wave, group, group.first_task, lane);
    return GroupResult::kDone;
  }
  if (base::is_shortage(status.system_error()) && base::Descriptors::of_process().some_will_close()) {
    return GroupResult::kStarved;
  }
  if (status.ok()) {
    status = plan_->chain().check_encoded_size(object.size_bytes());
    if (!status.ok()) status = std::move(status).with_key(lane.detail.key).with_range(0, object.size_bytes());
  }
  GroupResult result = GroupResult::kDone;
  if (!status.ok()) {
    tasks_.fail(wave.tasks, group, task, lane, std::move(status));
  } else {
    std::uint64_t offset = 0, length = object.size_bytes();
    // What has to be unpacked is needed whole.
    if (plan_->chain().raw() && !object.offers(store::Offer::kWhole)) {
      const RawSpan span = raw_span(lane.detail, plan_->element_op().element_bytes);
      offset = span.first;
      length = span.bytes;
    }
    result = read_group(wave, group_index, object, offset, length, lane);
  }
  if (result == GroupResult::kDone) object.close();
  return result;
}

ReadOperation::GroupResult ReadOperation::read_group(Wave& wave, std::uint32_t group_index,
                                                     const store::ByteSource& object, std::uint64_t offset,
                                                     std::uint64_t length, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  if (length == 0) {
    // Nothing is stored, or nothing of it is asked for: the decoder judges.
    static constexpr std::byte kNone{};  // null would be filled
    wave.sink->take(wave, group, {&kNone, std::size_t{0}}, offset, lane);
    return GroupResult::kDone;
  }
  if (Status status = object.check_range(offset, length); !status.ok()) {
    tasks_.fail_group(wave.tasks, group, lane, status);
    return GroupResult::kDone;
  }
  if (Status status = admit_length(group, length, lane); !status.ok()) {
    tasks_.fail_group(wave.tasks, group, lane, status);
    return GroupResult::kDone;
  }
  const StoredRange range{&object, offset, length};
  if (object.offers(store::Offer::kWhole)) {
    unpack_group(wave, group, range, lane);
    return GroupResult::kDone;
  }
  if (object.offers(store::Offer::kMemory)) {
    if (const auto data = fetcher_.view(range, lane.stats); data.ok()) {
      wave.sink->take(wave, group, *data, offset, lane);
    } else {
      tasks_.fail_group(wave.tasks, group, lane, data.status());
    }
    return GroupResult::kDone;
  }
  ++lane.stats.requests;
  lane.unmapped.reset();
  if (wave.sink->takes_mapped()) {
    if (const auto mapped = mapped_.find(group, group_index, range, lane)) {
      if (Status status = wave.sink->take_mapped(wave, group, *mapped, lane); !status.ok()) {
        report_.stop(std::move(status));
      }
      return GroupResult::kMapped;
    }
  }
  IoJob& job = wave.fetch.jobs[group_index];
  job = IoJob();
  job.fd = object.file().fd;
  job.offset = object.file().begin + offset;
  job.length = length;
  job.direct = router_.choose(job.fd, job.offset, length) == Way::kDirect;
  if (job.direct) return GroupResult::kCold;

  const std::optional<std::span<std::byte>> target = wave.sink->room(wave, group, length, lane);
  if (!target) return GroupResult::kDone;
  Status failure;
  switch (fetcher_.read_cached(range, *target, failure, lane.stats)) {
    case Fetcher::Cached::kNotCached:
      // The attempt has started read-ahead: taking the pages as they come beats asking the disk a second time.
      router_.was_not_cached();
      return GroupResult::kCold;
    case Fetcher::Cached::kFailed:
      tasks_.fail_group(wave.tasks, group, lane, failure);
      return GroupResult::kDone;
    case Fetcher::Cached::kRead:
      break;
  }
  router_.was_cached();
  if (lane.unmapped != nullptr) mapped_.note_unmapped(wave.tasks, group, job.offset, length, lane);
  wave.sink->take(wave, group, *target, offset, lane);
  return GroupResult::kDone;
}

// Stored bytes that take more than the read was planned for, which few encoders make, take it from the budget of what
// stored bytes decide.
Status ReadOperation::admit_length(const Group& group, std::uint64_t length, Lane& lane) const {
  if (length <= planned_bytes_) return {};
  if (group.task_count == 1) HEADRACE_TRY(plan_->chain().check_encoded_size(length));
  return lane.memory->beyond.grow_to(length - planned_bytes_, "a chunk that is stored longer than it is decoded");
}

// All of an object that has to be unpacked, by the worker itself.
void ReadOperation::unpack_group(Wave& wave, const Group& group, const StoredRange& whole, Lane& lane) {
  const std::optional<std::span<std::byte>> target = wave.sink->room(wave, group, whole.length, lane);
  if (!target) return;
  const Status status = fetcher_.read(whole, *target, lane.memory->packed, lane.stats);
  if (!status.ok()) return tasks_.fail_group(wave.tasks, group, lane, status);
  wave.sink->take(wave, group, *target, 0, lane);
}

// Hands the cold groups of one claim to the I/O service in one call.
void ReadOperation::post_cold(Wave& wave, Lane& lane) {
  bool posted = false;
  try {
    posted = try_post_cold(wave, lane);
  } catch (const std::bad_alloc&) {
    report_.stop(Status::out_of_memory());
  }
  if (posted) return;
  for (const std::uint32_t index : lane.cold) wave.fetch.objects[index].close();
  lane.described = nullptr;
  finish_groups(wave, static_cast<std::uint32_t>(lane.cold.size()), lane);
}

// False, or an exception: nothing was handed over.
bool ReadOperation::try_post_cold(Wave& wave, Lane& lane) {
  trace::Timer timer(trace::Stage::kOpen);
  Result<IoService*> service = resources_.io();
  if (!service.ok()) {
    for (const std::uint32_t index : lane.cold) {
      tasks_.fail_group(wave.tasks, wave.tasks.groups[index], lane, service.status());
    }
    return false;
  }
  std::uint32_t wave_index = 0;
  while (waves_[wave_index].get() != &wave) ++wave_index;
  IoJob* jobs[kMaxGroupsPerClaim];
  std::size_t count = 0;
  for (const std::uint32_t index : lane.cold) {
    IoJob& job = wave.fetch.jobs[index];
    const Group& group = wave.tasks.groups[index];
    job.user = (std::uint64_t{wave_index} << 32) | index;
    const bool own = group.source == kNoSource;
    // That of an object of its own takes the place of the one it has.
    job.direct = job.direct && (own || base::Descriptors::of_process().room());
    if (job.direct && own) tasks_.describe(group, wave.tasks.tasks[group.first_task], lane);
    const std::string& key = ReadTasks::key_of(wave.tasks, group, lane);
    cold_.open_direct(job, plan_->store(), key, wave.object_of(index), wave.fetch.objects[index]);
    jobs[count++] = &job;
  }
  lane.stats.open_seconds += timer.stop();
  cold_.start(**service, {jobs, count});
  return true;
}

Status ReadOperation::launch_wave(Wave& wave, Lane& lane) {
  if (!wave.fetch.mapped.pieces.empty()) resources_.mapped().note_traffic();
  return wave.sink->launch(wave, lane);
}

// All that the wave takes of its sources has been read. Of one that was changed meanwhile no chunk is known to be
// right, and those that are wrong lie in the tensor already: the read ends, whatever errors it collects.
void ReadOperation::check_sources(const Wave& wave) {
  try {
    if (Status status = fetcher_.check_unchanged(wave.tasks.sources); !status.ok()) report_.stop(std::move(status));
  } catch (const std::bad_alloc&) {
    report_.stop(Status::out_of_memory());
  }
}

void ReadOperation::drain_wave(Wave& wave, Lane& lane) {
  const std::uint64_t start = base::now_ns();
  Status status = wave.sink->drain(wave);
  lane.stats.copy_seconds += static_cast<double>(base::now_ns() - start) * 1e-9;
  bool others_wait = true;  // until this thread is done here, or has to do what takes a while
  const auto let_others_wait = [&] {
    if (!std::exchange(others_wait, false)) return;
    {
      std::lock_guard lock(mutex_);
      draining_ = false;
    }
    notifier_.notify();
  };
  if (status.ok() && !report_.stopped()) {
    lane.described = nullptr;
    try {
      // Every file is asked for its size, and closed.
      if (wave.fetch.mapped.reads.size() > kManyReads) let_others_wait();
      mapped_.check(wave, lane);
      if (!report_.stopped()) {
        // What the device hands back takes the CPU a while: others can wait for the next waves meanwhile.
        const std::span<const std::uint32_t> returned = wave.sink->settle(wave, lane);
        if (!returned.empty()) let_others_wait();
        status = take_returned(wave, returned, lane);
      }
    } catch (const std::bad_alloc&) {
      status = Status::out_of_memory();
    }
    // Freeing the slab waits for what was queued since.
    if (!status.ok()) wave.stage.slot.reset();
  }
  if (status.ok() && !report_.stopped()) check_sources(wave);
  mapped_.close(wave);
  if (!status.ok()) report_.stop(std::move(status));
  {
    std::lock_guard lock(mutex_);
    if (others_wait) draining_ = false;
    wave.being_drained = false;
    release_wave_locked(wave);
  }
  notifier_.notify();
}

Status ReadOperation::take_returned(Wave& wave, std::span<const std::uint32_t> returned, Lane& lane) {
  if (returned.empty()) return {};
  for (const std::uint32_t task : returned) {
    if (report_.stopped()) break;
    std::span<const std::byte> data;
    if (wave.decode.chunks[task].mapped) {
      if (Status status = mapped_.read_again(wave, task, lane, data); !status.ok()) {
        tasks_.fail(wave.tasks, group_of(wave.tasks, task), wave.tasks.tasks[task], lane, std::move(status));
        continue;
      }
    }
    HEADRACE_TRY(wave.sink->take_again(wave, task, data, lane));
  }
  return wave.sink->finish_again(wave, lane);
}

}  // namespace headrace::transfer

#include "transfer/read/group_reads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "os/descriptors.h"
#include "transfer/read/chunk_part.h"
#include "transfer/read/cold_part.h"
#include "transfer/read/placing.h"
#include "transfer/read/scheduler.h"

namespace headrace::transfer {
namespace {

// Adds the range of a group's only chunk to an error; chunks of a shared object add their own.
Status at_place(const TaskGroup& group, const StoredRange& range, Status status) {
  return group.source == kNoSource ? std::move(status).with_range(range.offset, range.length) : status;
}

// The version of an object that is one chunk. A store reports its version with the answer. A file that changed a moment
// ago has none, since its next change might not show in its identity.
std::optional<StoredVersion> version_of(const store::ByteSource& object) noexcept {
  if (object.offers(store::Offer::kRanges)) return StoredVersion();
  const os::FileIdentity* const file = object.identity();
  if (file == nullptr || os::recently_changed(*file)) return std::nullopt;
  return StoredVersion{*file, 0};
}

void take_part(StoredRange& range, std::optional<RawSpan>& part) {
  range.offset += part->first;
  range.length = part->bytes;
  part.reset();
}

}  // namespace

GroupReads::GroupReads(Resources& resources, Plan& plan, const ReadTasks& tasks, Router& router, MappedReads& mapped,
                       const WaveForms& forms, const std::vector<std::unique_ptr<Wave>>& waves, ChunkCache* kept,
                       std::shared_ptr<device::Device> staged_device)
    : resources_(resources),
      plan_(plan),
      tasks_(tasks),
      router_(router),
      mapped_(mapped),
      forms_(forms),
      waves_(waves),
      answers_(plan, kept),
      tells_lengths_(plan.store().read_shape().tells_lengths),
      fetcher_(plan.store()),
      cold_(router_, resources.pool().notifier()),
      staged_device_(std::move(staged_device)) {}

WaveWork::RunResult GroupReads::run(std::uint32_t wave_index, std::uint32_t begin, std::uint32_t end, Worker& worker) {
  Wave& wave = *waves_[wave_index];
  WaveWork::RunResult ran{begin, 0};
  worker.cold.clear();
  worker.described = nullptr;  // the next wave reuses task addresses
  for (; ran.next < end; ++ran.next) {
    Ended result = Ended::kDone;
    try {
      if (!tasks_.report().stopped()) result = process_group(wave, ran.next, worker);
    } catch (const std::bad_alloc&) {
      wave.fetch.objects[ran.next].close();
      worker.described = nullptr;
      tasks_.report().stop(Status::out_of_memory());
    }
    wave.sink->end_group(worker);
    if (result == Ended::kStarved) break;
    if (result == Ended::kCold) {
      worker.cold.push_back(ran.next);
    } else {
      ++ran.finished;
    }
  }
  if (!worker.mapped.reads.empty() && !mapped_.hand_over(wave, worker)) tasks_.report().stop(Status::out_of_memory());
  if (!worker.cold.empty() && !post_cold(wave_index, worker))
    ran.finished += static_cast<std::uint32_t>(worker.cold.size());
  return ran;
}

std::span<const std::uint32_t> GroupReads::resume(Worker& worker, std::size_t workers) {
  std::vector<ReadJob*>& jobs = worker.jobs;
  worker.resumed.clear();
  worker.again.clear();
  cold_.take(jobs, workers);
  if (jobs.empty()) return {};  // other workers took them
  worker.described = nullptr;
  for (ReadJob* job : jobs) {
    Wave& wave = *waves_[static_cast<std::size_t>(job->user >> 32)];
    const auto index = static_cast<std::uint32_t>(job->user);
    bool again = false;
    try {
      const bool repeats = job->straight && !tasks_.report().stopped() && leave_straight(wave, index);
      if (!repeats) cold_.read_refused(*job);
      Status status = repeats ? Status() : fetcher_.finish(wave.object_of(index), *job, worker.stats);
      if (repeats) {
        again = true;
      } else if (tasks_.report().stopped()) {
        // Only the buffers and descriptors are released.
      } else if (job->read != nullptr) {
        again = resume_range(wave, index, std::move(status), worker);
      } else {
        again = resume_file(wave, index, std::move(status), worker);
      }
    } catch (const std::bad_alloc&) {
      worker.described = nullptr;
      tasks_.report().stop(Status::out_of_memory());
    }
    wave.sink->end_group(worker);
    job->status = {};
    if (again) {
      ++worker.stats.requests;
      job->data = {};
      job->read_bytes = 0;
      job->seconds = 0;
      worker.again.push_back(job);
    }
  }
  Result<IoService*> service = resources_.io();
  if (service.ok()) (*service)->release(jobs);
  if (!worker.again.empty() && restart(worker)) {
    std::erase_if(jobs, [&](ReadJob* job) {
      return std::find(worker.again.begin(), worker.again.end(), job) != worker.again.end();
    });
  }
  for (ReadJob* job : jobs) {
    const auto wave = static_cast<std::uint32_t>(job->user >> 32);
    waves_[wave]->fetch.objects[static_cast<std::uint32_t>(job->user)].close();
    worker.resumed.push_back(wave);
  }
  jobs.clear();
  return worker.resumed;
}

// Gives bytes that an engine has read, already checked, to the sink. True: more has to be read, as the job says.
bool GroupReads::resume_file(Wave& wave, std::uint32_t group_index, Status status, Worker& worker) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  const store::ByteSource& object = wave.object_of(group_index);
  ReadJob& job = wave.fetch.jobs[group_index];
  const std::uint64_t offset = job.offset - object.file().begin;
  if (!status.ok() && object.file().path != nullptr) {
    const bool all = part_request_of(wave.fetch, group_index) == ColdPart::PartRequest::kAll;
    const ColdPart* const cold = all ? nullptr : &wave.fetch.parts[group_index];
    request_from_store(wave, group_index, all ? offset : cold->offset - object.file().begin,
                       all ? job.length : cold->length, worker);
    return true;
  }
  if (!status.ok()) {
    tasks_.fail_group(wave.tasks, group, worker, at_place(group, {&object, offset, job.length}, std::move(status)));
    return false;
  }
  switch (part_request_of(wave.fetch, group_index)) {
    case ColdPart::PartRequest::kTable: {
      const std::uint64_t length = wave.fetch.parts[group_index].length;
      if (job.length == length) break;  // all of a short stream
      if (!prepare_part_request(tasks_, wave, group_index, length, worker)) job.length = length;
      return true;
    }
    case ColdPart::PartRequest::kPart:
      take_cold_part(wave, group_index, worker);
      return false;
    case ColdPart::PartRequest::kAll:
      break;
  }
  note_local(wave, group_index, object);
  if (job.straight) {
    wave.sink->take_straight(wave, group, offset, job.length, worker);
  } else {
    wave.sink->take(wave, group, job.data, offset, worker);
  }
  return false;
}

// False: out of memory, and the read stops.
bool GroupReads::restart(Worker& worker) {
  try {
    Result<IoService*> service = resources_.io();
    if (!service.ok()) return false;
    cold_.start(**service, worker.again);
    if (tasks_.report().stopped()) cancel();
    return true;
  } catch (const std::bad_alloc&) {
    tasks_.report().stop(Status::out_of_memory());
    return false;
  }
}

void GroupReads::cancel() {
  plan_.cancel();
  if (plan_.store().ranges() == nullptr) return;
  if (Result<IoService*> service = resources_.io(); service.ok()) cold_.cancel(**service);
}

GroupReads::Ended GroupReads::process_group(Wave& wave, std::uint32_t group_index, Worker& worker) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  if (group.length == 0) {
    for (std::uint32_t i = 0; i < group.task_count; ++i) wave.sink->fill(wave, group, group.first_task + i, worker);
    return Ended::kDone;
  }
  if (group.source != kNoSource) {
    const Source& source = wave.tasks.sources[group.source];
    if (source.object == nullptr) {
      tasks_.fail_group(wave.tasks, group, worker, source.failure);
      return Ended::kDone;
    }
    const bool raw = group.task_count == 1 && wave.tasks.chain().raw();
    const Task& task = wave.tasks.tasks[group.first_task];
    if (Status status = raw ? wave.tasks.chain().check_encoded_size(task.length) : Status(); !status.ok()) {
      tasks_.fail_group(wave.tasks, group, worker, status);
      return Ended::kDone;
    }
    const auto version = source.stored();
    if (wave.sink->take_kept(wave, group, version, 0, worker)) return Ended::kDone;
    const bool ranges = source.object->offers(store::Offer::kRanges);
    if (ranges && answers_.take(wave, group, version, worker)) return Ended::kDone;
    StoredRange range{source.object.get(), group.offset, group.length};
    std::optional<RawSpan> part;
    if (raw && tasks_.parts() && !source.object->offers(store::Offer::kWhole) &&
        !wave.sink->keeps(wave, group.first_task)) {
      tasks_.describe(group, task, worker);
      part = raw_span(worker.detail, wave.tasks.op().element_bytes);
      if (!(ranges && version && requests_whole_object(wave, range))) take_part(range, part);
    }
    if (ranges) answers_.trim(wave, group, version, range.offset, range.length);
    const Ended result = read_group(wave, group_index, range, part, worker);
    if (result == Ended::kDone) wave.fetch.objects[group_index].close();
    return result;
  }
  const Task& task = wave.tasks.tasks[group.first_task];
  tasks_.describe(group, task, worker);
  store::ByteSource& object = wave.fetch.objects[group_index];
  if (plan_.store().ranges() == nullptr && !os::Descriptors::of_process().room()) return Ended::kStarved;
  Status status = fetcher_.open(worker.detail.key, object, worker.stats);
  if (status.code() == Code::kNotFound) {
    wave.sink->fill(wave, group, group.first_task, worker);
    return Ended::kDone;
  }
  if (os::is_shortage(status.system_error()) && os::Descriptors::of_process().some_will_close()) {
    return Ended::kStarved;
  }
  if (status.ok() && !object.offers(store::Offer::kRanges)) {
    status = wave.tasks.chain().check_encoded_size(object.size_bytes());
    if (!status.ok()) status = std::move(status).with_key(worker.detail.key).with_range(0, object.size_bytes());
  }
  Ended result = Ended::kDone;
  if (!status.ok()) {
    tasks_.fail(wave.tasks, group, task, worker, std::move(status));
  } else if (const auto version = version_of(object);
             !wave.sink->take_kept(wave, group, version, object.size_bytes(), worker) &&
             !(object.offers(store::Offer::kRanges) && answers_.take(wave, group, version, worker))) {
    StoredRange range{&object, 0, object.size_bytes()};  // of ranges: unknown
    std::optional<RawSpan> part;
    // Unpacking needs the whole object.
    if (tasks_.parts() && wave.tasks.chain().raw() && !object.offers(store::Offer::kWhole) &&
        !wave.sink->keeps(wave, group.first_task)) {
      part = raw_span(worker.detail, wave.tasks.op().element_bytes);
      const bool ranges = object.offers(store::Offer::kRanges);
      // A whole chunk is requested as an object of unknown length, so that a longer object is detected.
      const bool whole = ranges && (part->bytes == wave.tasks.chain().decoded_bytes() ||
                                    (tells_versions() && requests_whole_object(wave, range)));
      if (!whole) take_part(range, part);
    }
    result = read_group(wave, group_index, range, part, worker);
  }
  if (result == Ended::kDone) object.close();
  return result;
}

// `part`: the only part of the range that is wanted; nullopt: the whole range.
GroupReads::Ended GroupReads::read_group(Wave& wave, std::uint32_t group_index, const StoredRange& range,
                                         const std::optional<RawSpan>& part, Worker& worker) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  const store::ByteSource& object = *range.source;
  const std::uint64_t offset = range.offset, length = range.length;
  if (length == 0) {
    // Nothing is stored, or the selection is empty: let the decoder judge.
    static constexpr std::byte kNone{};  // a null pointer would mean fill
    wave.sink->take(wave, group, {&kNone, std::size_t{0}}, offset, worker);
    return Ended::kDone;
  }
  if (Status status = object.check_range(offset, length); !status.ok()) {
    tasks_.fail_group(wave.tasks, group, worker, status);
    return Ended::kDone;
  }
  const bool unknown = length == store::ByteSource::kUnknown;
  if (Status status = unknown ? Status() : admit_length(wave, group, length, worker); !status.ok()) {
    tasks_.fail_group(wave.tasks, group, worker, status);
    return Ended::kDone;
  }
  const bool waits = object.offers(store::Offer::kFile) || object.offers(store::Offer::kRanges);
  if (object.offers(store::Offer::kWhole) || (waits && !unknown && !parks(wave, length))) {
    read_here(wave, group, range, worker);
    return Ended::kDone;
  }
  if (object.offers(store::Offer::kRanges)) {
    if (open_local(wave, group_index, range, worker)) {
      const store::ByteSource& file = wave.fetch.objects[group_index];
      StoredRange local{&file, offset, unknown ? file.size_bytes() : length};
      if (part && part->bytes > 0) local = {&file, offset + part->first, part->bytes};
      return read_file(wave, group_index, local, worker);
    }
    ++worker.stats.requests;
    return want_range(wave, group_index, range, worker);
  }
  if (object.offers(store::Offer::kMemory)) {
    if (const auto data = fetcher_.view(range, worker.stats); data.ok()) {
      wave.sink->take(wave, group, *data, offset, worker);
    } else {
      tasks_.fail_group(wave.tasks, group, worker, at_place(group, range, data.status()));
    }
    return Ended::kDone;
  }
  return read_file(wave, group_index, range, worker);
}

// Reads from the device's mappings, the page cache, or by an engine.
GroupReads::Ended GroupReads::read_file(Wave& wave, std::uint32_t group_index, const StoredRange& range,
                                        Worker& worker) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  const store::ByteSource& object = *range.source;
  const std::uint64_t offset = range.offset, length = range.length;
  std::optional<Way> cold;  // set where the range is known not to be cached: how an engine reads it
  if (router_.uses_cache() && tasks_.parts() && group.task_count == 1 && wave.sink->takes_parts(wave) &&
      !wave.sink->keeps(wave, group.first_task)) {
    const PartRead part = read_part({tasks_, fetcher_, router_, mapped_}, wave, group_index, range, cold, worker);
    if (part == PartRead::kMapped) return Ended::kMapped;
    if (part == PartRead::kDone) return Ended::kDone;
  }
  ++worker.stats.requests;
  ReadJob& job = wave.fetch.jobs[group_index];
  job = ReadJob();
  job.fd = object.file().fd;
  job.offset = object.file().begin + offset;
  job.length = length;
  worker.unmapped.reset();
  if (!cold && wave.sink->takes_mapped(wave)) {
    if (const auto mapped = mapped_.find(group, group_index, range, worker)) {
      note_local(wave, group_index, object);
      if (Status status = wave.sink->take_mapped(wave, group, *mapped, worker); !status.ok()) {
        tasks_.report().stop(std::move(status));
      }
      return Ended::kMapped;
    }
  }
  if (!cold && router_.choose(job.fd, job.offset, length) == Way::kDirect) cold = Way::kDirect;
  std::optional<std::span<std::byte>> target;
  if (!cold) {
    target = wave.sink->room(wave, group, length, worker);
    if (!target) return Ended::kDone;
    Status failure;
    const Fetcher::Cached outcome = fetcher_.read_cached(range, *target, failure, worker.stats);
    if (outcome == Fetcher::Cached::kFailed && object.file().path != nullptr) {
      request_from_store(wave, group_index, offset, length, worker);
      return Ended::kCold;
    }
    if (outcome == Fetcher::Cached::kFailed) {
      tasks_.fail_group(wave.tasks, group, worker, at_place(group, range, std::move(failure)));
      return Ended::kDone;
    }
    if (outcome == Fetcher::Cached::kNotCached) cold = router_.was_not_cached();
  }
  if (cold) {
    job.direct = *cold == Way::kDirect;
    (void)begins_with_table(tasks_, wave, group_index, range, length, worker);
    return Ended::kCold;
  }
  router_.was_cached();
  if (worker.unmapped != nullptr) mapped_.note_unmapped(wave.tasks, group, range, worker);
  note_local(wave, group_index, object);
  wave.sink->take(wave, group, *target, offset, worker);
  return Ended::kDone;
}

// Charges stored bytes beyond the planned size, which few encoders produce, to the stored budget.
Status GroupReads::admit_length(const Wave& wave, const TaskGroup& group, std::uint64_t length, Worker& worker) const {
  if (length <= forms_.planned_bytes() || wave.sink->has_own_buffers()) return {};
  if (group.task_count == 1) HEADRACE_TRY(wave.tasks.chain().check_encoded_size(length));
  return worker.memory->beyond.grow_to(length - forms_.planned_bytes(),
                                       "a chunk whose stored size exceeds its planned size");
}

// Whether the I/O service has room for it.
bool GroupReads::parks(const Wave& wave, std::uint64_t length) const noexcept {
  return !wave.sink->has_own_buffers() || length <= resources_.max_parked_bytes();
}

// Reads on the worker's thread: objects that must be unpacked whole, and chunks too long to park.
void GroupReads::read_here(Wave& wave, const TaskGroup& group, const StoredRange& range, Worker& worker) {
  const std::optional<std::span<std::byte>> target = wave.sink->room(wave, group, range.length, worker);
  if (!target) return;
  Status status;
  {
    Result<ChunkSink::UnpackRoom> unpacking(ChunkSink::UnpackRoom{});
    os::PageBuffer none;
    if (range.source->offers(store::Offer::kWhole)) unpacking = wave.sink->unpack_room(range.length, worker);
    status = unpacking.status();
    os::PageBuffer& scratch = status.ok() && unpacking->scratch != nullptr ? *unpacking->scratch : none;
    if (status.ok()) status = fetcher_.read(range, *target, scratch, worker.stats);
  }
  if (!status.ok()) return tasks_.fail_group(wave.tasks, group, worker, at_place(group, range, std::move(status)));
  give(wave, group, *target, range.offset, worker);
}

// Has an engine read the group, which bypasses the page cache, into the device's memory. False: it goes through host
// memory, where the CPU checks it or cuts a part out of it.
bool GroupReads::aim_straight(Wave& wave, std::uint32_t group_index) {
  ReadJob& job = wave.fetch.jobs[group_index];
  const store::ByteSource& object = wave.object_of(group_index);
  if (job.read != nullptr || part_request_of(wave.fetch, group_index) != ColdPart::PartRequest::kAll) return false;
  const std::uint64_t offset = job.offset - object.file().begin;
  if (object.has_checksum() && offset == 0 && job.length == object.size_bytes()) return false;
  job.place = wave.sink->straight_room(wave, wave.tasks.groups[group_index], offset, job.length);
  job.straight = !job.place.empty();
  return job.straight;
}

// A straight read has ended. True: it failed, and now the job is one through host memory.
bool GroupReads::leave_straight(Wave& wave, std::uint32_t group_index) {
  ReadJob& job = wave.fetch.jobs[group_index];
  if (job.status.ok() || !resources_.straight(staged_device_).repeats(job.status)) return false;
  wave.sink->leave_straight(wave, wave.tasks.groups[group_index]);
  job.straight = false;
  job.place = {};
  return true;
}

// Hands the cold groups of one claim to the I/O service in one call, and those that are read into the device's memory
// to its own. False: the groups that worker.cold still lists are finished, because the read stops or they have failed.
bool GroupReads::post_cold(std::uint32_t wave_index, Worker& worker) {
  bool posted = false;
  try {
    posted = try_post_cold(wave_index, worker);
  } catch (const std::bad_alloc&) {
    tasks_.report().stop(Status::out_of_memory());
  }
  if (posted) return true;
  for (const std::uint32_t index : worker.cold) waves_[wave_index]->fetch.objects[index].close();
  worker.described = nullptr;
  return false;
}

// False, or an exception: nothing was handed over.
bool GroupReads::try_post_cold(std::uint32_t wave_index, Worker& worker) {
  Wave& wave = *waves_[wave_index];
  trace::Timer timer(trace::Stage::kOpen);
  Result<IoService*> service = resources_.io();
  if (!service.ok()) {
    for (const std::uint32_t index : worker.cold) {
      tasks_.fail_group(wave.tasks, wave.tasks.groups[index], worker, service.status());
    }
    return false;
  }
  // Made only for a read that bypasses the page cache: opening a driver takes long.
  const auto goes_direct = [&](std::uint32_t index) { return wave.fetch.jobs[index].direct; };
  const bool may_be_straight = staged_device_ != nullptr && wave.sink->takes_straight(wave) &&
                               router_.direct_allowed() && std::ranges::any_of(worker.cold, goes_direct);
  IoService* const straight_service = may_be_straight ? resources_.straight(staged_device_).service() : nullptr;
  ReadJob* jobs[Scheduler::kMaxGroupsPerClaim];
  ReadJob* straight_jobs[Scheduler::kMaxGroupsPerClaim];
  std::size_t count = 0, straight_count = 0;
  for (const std::uint32_t index : worker.cold) {
    ReadJob& job = wave.fetch.jobs[index];
    const TaskGroup& group = wave.tasks.groups[index];
    job.user = (std::uint64_t{wave_index} << 32) | index;
    const bool own = group.source == kNoSource;
    // The direct descriptor of an object of its own replaces the one it has.
    job.direct = job.direct && (own || os::Descriptors::of_process().room());
    if (job.direct && own) tasks_.describe(group, wave.tasks.tasks[group.first_task], worker);
    const std::string& key = ReadTasks::key_of(wave.tasks, group, worker);
    cold_.open_direct(job, plan_.store(), key, wave.object_of(index), wave.fetch.objects[index]);
    // Whether the read is direct was decided for the whole chunk, of which other reads may want other parts.
    if (job.read == nullptr && part_request_of(wave.fetch, index) == ColdPart::PartRequest::kTable) {
      job.length = std::min<std::uint64_t>(job.length, wave.tasks.chain().part_table_bytes());
    }
    const bool may = job.direct && straight_service != nullptr;
    (may && aim_straight(wave, index) ? straight_jobs[straight_count++] : jobs[count++]) = &job;
  }
  worker.stats.open_seconds += timer.stop();
  if (straight_count > 0) {
    const auto rest =
        std::ranges::partition(worker.cold, [&](std::uint32_t index) { return !wave.fetch.jobs[index].straight; });
    cold_.start(*straight_service, {straight_jobs, straight_count});
    worker.cold.erase(rest.begin(), rest.end());
  }
  if (count > 0) cold_.start(**service, {jobs, count});
  if (tasks_.report().stopped()) cancel();
  return true;
}

// Call when the wave has read everything it needs of its sources. If one was changed meanwhile, none of its chunks can
// be trusted and some may already be in the tensor, so the read ends even where it collects errors.
void GroupReads::check_sources(const Wave& wave) {
  try {
    if (Status status = fetcher_.check_unchanged(wave.tasks.sources); !status.ok())
      tasks_.report().stop(std::move(status));
  } catch (const std::bad_alloc&) {
    tasks_.report().stop(Status::out_of_memory());
  }
}

}  // namespace headrace::transfer

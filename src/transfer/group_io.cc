// ReadOperation, per group: open, read what is cached, decode, place.
#include <algorithm>
#include <cstring>

#include "base/fault.h"
#include "base/file_read.h"
#include "transfer/operation.h"

namespace headrace::transfer {
void ReadOperation::describe(const Group& group, const Task& task, Lane& lane) const {
  if (lane.described == &task) return;
  plan_->describe(group, task, lane.detail);
  lane.described = &task;
}

std::byte* ReadOperation::staged_target(Wave& wave, std::uint32_t task_index) const {
  return wave.slot->pinned + task_index * slab_stride_;
}

// For a chunk whose stored bytes are its elements: the part of it that the boxes touch.
std::uint64_t ReadOperation::raw_span(const Lane& lane, std::uint64_t& first) const {
  const device::Box& box = lane.detail.box;
  if (lane.detail.several) {
    first = lane.detail.span_begin;
    return lane.detail.span_end - first;
  }
  first = static_cast<std::uint64_t>(box.src - kBoxBase);
  std::uint64_t last = first;
  for (int i = 0; i < box.rank; ++i) {
    const device::BoxDim& dim = box.dim[static_cast<std::size_t>(i)];
    if (dim.extent == 0) return 0;
    last += (dim.extent - 1) * static_cast<std::uint64_t>(dim.src_stride_bytes);
  }
  return last + plan_->element_op().element_bytes - first;
}

ReadOperation::GroupResult ReadOperation::process_group(Wave& wave, std::uint32_t group_index, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  if (group.length == 0) {
    for (std::uint32_t i = 0; i < group.task_count; ++i) fill_task(wave, group, group.first_task + i, lane);
    return GroupResult::kDone;
  }
  if (group.source != kNoSource) {
    const Source& source = wave.tasks.sources[group.source];
    if (source.object == nullptr) {
      fail_group(wave, group_index, lane, source.failure);
      return GroupResult::kDone;
    }
    return read_group(wave, group_index, *source.object, group.offset, group.length, lane);
  }
  const Task& task = wave.tasks.tasks[group.first_task];
  describe(group, task, lane);
  store::Object& object = wave.objects[group_index];
  trace::Timer timer(trace::Stage::kOpen);
  HEADRACE_DELAY("transfer.open");
  Status status = plan_->store().open(lane.detail.key, object);
  lane.stats.open_seconds += timer.stop();
  if (status.code() == Code::kNotFound) {
    fill_task(wave, group, group.first_task, lane);
    return GroupResult::kDone;
  }
  if (status.ok()) {
    ++lane.stats.objects_opened;
    status = plan_->chain().check_encoded_size(object.size_bytes);
    if (!status.ok()) status = std::move(status).with_key(lane.detail.key).with_range(0, object.size_bytes);
  }
  GroupResult result = GroupResult::kDone;
  if (!status.ok()) {
    fail_task(wave, group, task, lane, std::move(status));
  } else {
    std::uint64_t offset = 0, length = object.size_bytes;
    // What has to be unpacked is needed whole.
    if (plan_->chain().raw() && !object.is_packed()) length = raw_span(lane, offset);
    result = read_group(wave, group_index, object, offset, length, lane);
  }
  if (result == GroupResult::kDone) object.close();
  return result;
}

ReadOperation::GroupResult ReadOperation::read_group(Wave& wave, std::uint32_t group_index, const store::Object& object,
                                                     std::uint64_t offset, std::uint64_t length, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  if (length == 0) {
    // Nothing is stored, or nothing of it is asked for: the decoder judges.
    decode_group(wave, group_index, kBoxBase, offset, 0, lane);
    return GroupResult::kDone;
  }
  ++lane.stats.requests;
  if (object.is_packed()) {
    unpack_group(wave, group_index, object, lane);
    return GroupResult::kDone;
  }
  if (object.memory != nullptr) {
    lane.stats.memory_bytes += length;
    lane.stats.read_bytes += length;
    decode_group(wave, group_index, object.memory + offset, offset, length, lane);
    return GroupResult::kDone;
  }
  lane.unmapped.reset();
  if (may_map_ && map_group(wave, group_index, object, offset, length, lane)) return GroupResult::kMapped;
  IoJob& job = wave.jobs[group_index];
  job = IoJob();
  job.fd = object.fd;
  job.offset = object.base + offset;
  job.length = length;
  // By whom: an engine asked for by name gets everything.
  const Route route = inline_reads_ ? choose_route(object.fd, job.offset, length) : Route::kDirect;
  job.direct = route == Route::kDirect;
  if (route != Route::kInline) return GroupResult::kCold;

  std::byte* const target = encoded_target(wave, group_index, length, lane);
  if (target == nullptr) return GroupResult::kDone;
  trace::Timer timer(trace::Stage::kRead, length);
  HEADRACE_DELAY("transfer.read");
  std::uint64_t moved = 0;
  int error = 0;
  const base::CachedRead outcome = base::read_cached(object.fd, target, length, job.offset, moved, error);
  timer.set_bytes(moved);
  lane.stats.read_seconds += timer.stop();
  switch (outcome) {
    case base::CachedRead::kNotCached:
      // The attempt has started read-ahead: taking the pages as they come beats asking the disk a second time.
      cached_streak_.store(0, std::memory_order_relaxed);
      cold_streak_.fetch_add(1, std::memory_order_relaxed);
      return GroupResult::kCold;
    case base::CachedRead::kEndOfFile:
      fail_group(wave, group_index, lane,
                 Status(Code::kShort, Layer::kTransfer,
                        "the file ends after " + std::to_string(moved) +
                            " of the bytes wanted; was it truncated while being read?")
                     .with_range(offset, length));
      return GroupResult::kDone;
    case base::CachedRead::kFailed:
      fail_group(wave, group_index, lane,
                 Status(Code::kIo, Layer::kTransfer, "cannot read").with_range(offset, length).with_errno(error));
      return GroupResult::kDone;
    case base::CachedRead::kDone:
      break;
  }
  cached_streak_.fetch_add(1, std::memory_order_relaxed);
  cold_streak_.store(0, std::memory_order_relaxed);
  lane.stats.buffered_bytes += length;
  lane.stats.read_bytes += length;
  if (lane.unmapped != nullptr) note_unmapped(wave, group, object.base + offset, length, lane);
  if (check_read(wave, group_index, object, target, offset, length, lane)) {
    decode_group(wave, group_index, target, offset, length, lane);
  }
  return GroupResult::kDone;
}

// The object that a group is read from. A direct descriptor may have taken the place of its own.
const store::Object& ReadOperation::object_of(const Wave& wave, std::uint32_t group_index) {
  const Group& group = wave.tasks.groups[group_index];
  return group.source == kNoSource ? wave.objects[group_index] : *wave.tasks.sources[group.source].object;
}

// Where the CPU is to put a group's stored bytes: a raw chunk that is one run of the tensor is read into it; a staged
// one into its slab, as one is that the device decodes. Null: the group has failed.
std::byte* ReadOperation::encoded_target(Wave& wave, std::uint32_t group_index, std::uint64_t length, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  std::byte* target = nullptr;
  const codec::Chain& chain = plan_->chain();
  if (on_device(wave) && group.task_count == 1 && device_stage_ == 0) {
    const Task& task = wave.tasks.tasks[group.first_task];
    describe(group, task, lane);
    if (Status status = chain.check_encoded_size(length); !status.ok()) {
      fail_task(wave, group, task, lane, std::move(status));
      return nullptr;
    }
    target = reserve_encoded(wave, group.first_task, length);
  }
  if (chain.raw() && group.task_count == 1) {
    describe(group, wave.tasks.tasks[group.first_task], lane);
    if (staged_) {
      target = staged_target(wave, group.first_task);
    } else if (lane.detail.whole_chunk && plan_->element_op().moves_bytes_only()) {
      target = lane.detail.box.dst;
    }
  }
  if (target == nullptr) target = lane.memory->encoded.reserve(static_cast<std::size_t>(length));
  if (target == nullptr) fail_group(wave, group_index, lane, Status::out_of_memory());
  return target;
}

// All of an object that has to be unpacked, by the worker itself.
void ReadOperation::unpack_group(Wave& wave, std::uint32_t group_index, const store::Object& object, Lane& lane) {
  std::byte* const target = encoded_target(wave, group_index, object.size_bytes, lane);
  if (target == nullptr) return;
  trace::Timer timer(trace::Stage::kRead, object.size_bytes);
  Status status =
      plan_->store().unpack(object, {target, static_cast<std::size_t>(object.size_bytes)}, lane.memory->packed);
  lane.stats.read_seconds += timer.stop();
  if (!status.ok()) return fail_group(wave, group_index, lane, std::move(status));
  lane.stats.memory_bytes += object.size_bytes;
  lane.stats.read_bytes += object.size_bytes;
  decode_group(wave, group_index, target, 0, object.size_bytes, lane);
}

// Whether the bytes of a group that were read are what the store's checksum says, where they are all of an object that
// has one; else the group has failed.
bool ReadOperation::check_read(Wave& wave, std::uint32_t group_index, const store::Object& object,
                               const std::byte* data, std::uint64_t offset, std::uint64_t length, Lane& lane) {
  if (!object.crc32 || offset != 0 || length != object.size_bytes) return true;
  Status status = object.check_whole({data, static_cast<std::size_t>(length)});
  if (status.ok()) return true;
  fail_group(wave, group_index, lane, std::move(status));
  return false;
}

// A failed attempt to read cached pages starts read-ahead, which a direct read would then compete with. So the kernel
// is asked first, until enough ranges in a row were cached for asking to be a waste. Where it does not answer, attempts
// are made until several in a row fail, and then now and again.
ReadOperation::Route ReadOperation::choose_route(int fd, std::uint64_t offset, std::uint64_t length) {
  constexpr int kStreak = 4;
  constexpr unsigned kRetryEvery = 8;
  if (cached_streak_.load(std::memory_order_relaxed) >= kStreak) return Route::kInline;
  switch (base::residency(fd, offset, length)) {
    case base::Residency::kCached:
      // Where a page is missing after all, the attempt finds it and has it read into the cache; past the cache the
      // range would never be whole again.
      return Route::kInline;
    case base::Residency::kNotCached:
      cached_streak_.store(0, std::memory_order_relaxed);
      return Route::kDirect;
    case base::Residency::kUnknown:
      break;
  }
  if (cold_streak_.load(std::memory_order_relaxed) < kStreak) return Route::kInline;
  return probe_turn_.fetch_add(1, std::memory_order_relaxed) % kRetryEvery == 0 ? Route::kInline : Route::kDirect;
}

// Hands the cold groups of one claim to the I/O service in one call.
void ReadOperation::post_cold(Wave& wave, Lane& lane) {
  bool posted = false;
  try {
    posted = try_post_cold(wave, lane);
  } catch (const std::bad_alloc&) {
    stop(Status::out_of_memory());
  }
  if (posted) return;
  for (const std::uint32_t index : lane.cold) wave.objects[index].close();
  lane.described = nullptr;
  finish_groups(wave, static_cast<std::uint32_t>(lane.cold.size()), lane);
}

// False, or an exception: nothing was handed over.
bool ReadOperation::try_post_cold(Wave& wave, Lane& lane) {
  trace::Timer timer(trace::Stage::kOpen);
  Result<IoService*> service = resources_.io();
  if (!service.ok()) {
    for (const std::uint32_t index : lane.cold) fail_group(wave, index, lane, service.status());
    return false;
  }
  std::uint32_t wave_index = 0;
  while (waves_[wave_index].get() != &wave) ++wave_index;
  IoJob* jobs[kMaxGroupsPerClaim];
  std::size_t count = 0;
  for (const std::uint32_t index : lane.cold) {
    IoJob& job = wave.jobs[index];
    const Group& group = wave.tasks.groups[index];
    job.sink = this;
    job.user = (std::uint64_t{wave_index} << 32) | index;
    const bool own = group.source == kNoSource;
    const bool wanted_direct = job.direct && resources_.options().allow_direct;
    job.direct = false;
    if (wanted_direct) {
      if (own) describe(group, wave.tasks.tasks[group.first_task], lane);
      const std::string& key = own ? lane.detail.key : *wave.tasks.sources[group.source].key;
      const store::Object& object = object_of(wave, index);
      // A file system without O_DIRECT is read through the page cache by the engine's own means.
      if (Result<int> direct = plan_->store().open_direct(key, object); direct.ok()) {
        wave.objects[index].replace_descriptor(*direct);
        job.fd = *direct;
        job.direct = true;
      }
    }
    jobs[count++] = &job;
  }
  {
    std::lock_guard lock(mutex_);
    const std::size_t most = ready_jobs_.size() + jobs_in_flight_ + count;
    if (ready_jobs_.capacity() < most) ready_jobs_.reserve(2 * most);
    jobs_in_flight_ += count;
  }
  lane.stats.open_seconds += timer.stop();
  try {
    (*service)->submit({jobs, count});
  } catch (const std::bad_alloc&) {
    std::lock_guard lock(mutex_);
    jobs_in_flight_ -= count;
    throw;
  }
  return true;
}

// `data` holds the object's bytes [data_offset, data_offset + data_length).
void ReadOperation::decode_group(Wave& wave, std::uint32_t group_index, const std::byte* data,
                                 std::uint64_t data_offset, std::uint64_t data_length, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  const codec::Chain& chain = plan_->chain();
  const bool in_place = plan_->element_op().moves_bytes_only();
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    if (task.length == 0) {
      fill_task(wave, group, i, lane);
      continue;
    }
    describe(group, task, lane);
    const bool whole_object = task.length == kWholeObject;
    const std::uint64_t length = whole_object ? data_length : task.length;
    const std::byte* encoded = data + (whole_object ? 0 : task.offset - data_offset);
    lane.stats.stored_bytes += length;

    if (on_device(wave)) {
      stage_encoded(wave, group, i, encoded, length, lane);
      continue;
    }
    // Raw elements are placed from where they are; `skipped` bytes of the chunk were not read.
    if (chain.raw()) {
      const std::uint64_t skipped = whole_object ? data_offset : 0;
      if (!whole_object) {
        if (Status status = chain.check_encoded_size(length); !status.ok()) {
          fail_task(wave, group, task, lane, std::move(status));
          continue;
        }
      }
      if (staged_) {
        std::byte* target = staged_target(wave, i);
        if (target != encoded && length > 0) {
          trace::Span span(trace::Stage::kAssemble, length);
          std::memcpy(target, encoded, static_cast<std::size_t>(length));
        }
        encoded = target;
      }
      place_task(wave, i, encoded, skipped, lane);
      continue;
    }
    std::byte* target = nullptr;
    if (staged_) {
      target = staged_target(wave, i);
    } else if (lane.detail.whole_chunk && in_place) {
      target = lane.detail.box.dst;
    } else {
      target = lane.memory->decoded.reserve(static_cast<std::size_t>(chain.decoded_bytes()));
    }
    if (target == nullptr || !lend_temporaries(lane)) {
      fail_task(wave, group, task, lane, Status::out_of_memory());
      continue;
    }
    trace::Timer timer(trace::Stage::kDecode, chain.decoded_bytes());
    HEADRACE_DELAY("transfer.decode");
    Status status = chain.decode({encoded, static_cast<std::size_t>(length)},
                                 {target, static_cast<std::size_t>(chain.decoded_bytes())}, lane.workspace);
    const double seconds = timer.stop();
    lane.stats.decode_seconds += seconds;
    if (policy_ != nullptr) {
      wave.cpu_decoded.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
      wave.cpu_decode_ns.fetch_add(static_cast<std::uint64_t>(seconds * 1e9), std::memory_order_relaxed);
    }
    if (!status.ok()) {
      if (!whole_object) status = std::move(status).with_range(task.offset, task.length);
      fail_task(wave, group, task, lane, std::move(status));
      continue;
    }
    place_task(wave, i, target, 0, lane);
  }
}

// lane.detail describes the task. `decoded` is where byte `skipped` of the decoded chunk lies.
void ReadOperation::place_task(Wave& wave, std::uint32_t task_index, const std::byte* decoded, std::uint64_t skipped,
                               Lane& lane) {
  TaskDetail& detail = lane.detail;
  const device::ElementOp& op = plan_->element_op();
  const std::uint64_t delivered = detail.element_count() * op.element_bytes;
  lane.described = nullptr;  // the boxes are spent
  ++lane.stats.chunks;
  lane.stats.decoded_bytes += delivered;
  if (!plan_->chain().raw()) {
    ++lane.stats.cpu_chunks;
    lane.stats.cpu_decoded_bytes += delivered;
  }
  chunks_done_.fetch_add(1, std::memory_order_relaxed);
  const std::byte* const base = decoded - skipped;
  if (staged_) {
    stage_boxes(wave, task_index, base, detail);
    return;
  }
  detail.box.src = base + (detail.box.src - kBoxBase);
  if (detail.box.src == detail.box.dst && !detail.several) return;  // decoded or read in place
  trace::Timer timer(trace::Stage::kAssemble, delivered);
  HEADRACE_DELAY("transfer.assemble");
  device::copy_box(detail.box, op, plan_->fill_element());
  while (plan_->next_box(detail)) {
    detail.box.src = base + (detail.box.src - kBoxBase);
    device::copy_box(detail.box, op, plan_->fill_element());
  }
  lane.stats.assemble_seconds += timer.stop();
}

// For the wave's launch. `base` is where the decoded chunk begins, null to fill.
void ReadOperation::stage_boxes(Wave& wave, std::uint32_t task_index, const std::byte* base, TaskDetail& detail) const {
  device::Box& box = wave.boxes[task_index];
  if (detail.several) {
    box.src = base;
    box.rank = kSeveralBoxes;
    return;
  }
  detail.box.src = base == nullptr ? nullptr : base + (detail.box.src - kBoxBase);
  box = detail.box;
}

void ReadOperation::fill_task(Wave& wave, const Group& group, std::uint32_t task_index, Lane& lane) {
  const Task& task = wave.tasks.tasks[task_index];
  describe(group, task, lane);
  TaskDetail& detail = lane.detail;
  const std::uint64_t delivered = detail.element_count() * plan_->element_op().element_bytes;
  lane.described = nullptr;
  ++lane.stats.missing_chunks;
  lane.stats.decoded_bytes += delivered;
  chunks_done_.fetch_add(1, std::memory_order_relaxed);
  if (staged_) {
    stage_boxes(wave, task_index, nullptr, detail);
    return;
  }
  trace::Timer timer(trace::Stage::kAssemble, delivered);
  do {
    detail.box.src = nullptr;
    device::copy_box(detail.box, plan_->element_op(), plan_->fill_element());
  } while (plan_->next_box(detail));
  lane.stats.assemble_seconds += timer.stop();
}

void ReadOperation::fail_task(Wave& wave, const Group& group, const Task& task, Lane& lane, Status status) {
  describe(group, task, lane);
  const bool own = group.source == kNoSource;
  const std::string& key = own ? lane.detail.key : *wave.tasks.sources[group.source].key;
  status = std::move(status).with_key(key);
  if (task.length != kWholeObject && task.length != 0) status = std::move(status).with_range(task.offset, task.length);
  // Of a wave that has been launched they lie elsewhere, and are done with.
  if (staged_ && !wave.being_drained) {
    wave.boxes[static_cast<std::size_t>(&task - wave.tasks.tasks.data())].rank = kNoBoxes;
  }
  chunks_done_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (options_.collect_errors && status.code() != Code::kDeviceLost) {
    ChunkError error;
    error.key = key;
    error.offset = status.offset().value_or(own ? 0 : task.offset);
    error.length = status.length().value_or(task.length == kWholeObject ? 0 : task.length);
    error.status = std::move(status);
    errors_.push_back(std::move(error));
    return;
  }
  stop_locked(std::move(status));
}

void ReadOperation::fail_group(Wave& wave, std::uint32_t group_index, Lane& lane, Status status) {
  const Group& group = wave.tasks.groups[group_index];
  for (std::uint32_t i = 0; i < group.task_count; ++i) {
    fail_task(wave, group, wave.tasks.tasks[group.first_task + i], lane, status);
  }
}

}  // namespace headrace::transfer

// ReadOperation, per group: open, read what is cached, decode, place.
#include <algorithm>
#include <cstring>

#include "base/fault.h"
#include "base/file_read.h"
#include "base/part.h"
#include "transfer/operation.h"
#include "transfer/placing.h"

namespace headrace::transfer {

void ReadOperation::describe(const Group& group, const Task& task, Lane& lane) const {
  if (lane.described == &task) return;
  plan_->describe(group, task, lane.detail);
  lane.described = &task;
}

// A task's place in the pinned slab; a wave has no more tasks than there is room for.
std::span<std::byte> ReadOperation::staged_target(const Wave& wave, std::uint32_t task_index) const {
  return base::part(wave.stage.slot->pinned, task_index * slab_stride_, slab_stride_).value_or(std::span<std::byte>());
}

// Where its elements are on the device before they are placed.
std::span<std::byte> ReadOperation::place_on_device(const Wave& wave, std::uint32_t task_index) const {
  const std::uint64_t first = on_device(wave) ? areas_.decoded_at : 0;
  return base::part(wave.stage.slot->on_device, first + task_index * slab_stride_, slab_stride_)
      .value_or(std::span<std::byte>());
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
  store::ByteSource& object = wave.fetch.objects[group_index];
  if (!base::Descriptors::of_process().room()) return GroupResult::kStarved;
  Status status = fetcher_.open(lane.detail.key, object, lane.stats);
  if (status.code() == Code::kNotFound) {
    fill_task(wave, group, group.first_task, lane);
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
    fail_task(wave, group, task, lane, std::move(status));
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
    decode_group(wave, group_index, {&kNone, std::size_t{0}}, offset, lane);
    return GroupResult::kDone;
  }
  if (Status status = object.check_range(offset, length); !status.ok()) {
    fail_group(wave, group_index, lane, std::move(status));
    return GroupResult::kDone;
  }
  if (Status status = admit_length(group, length, lane); !status.ok()) {
    fail_group(wave, group_index, lane, std::move(status));
    return GroupResult::kDone;
  }
  const StoredRange range{&object, offset, length};
  if (object.offers(store::Offer::kWhole)) {
    unpack_group(wave, group_index, range, lane);
    return GroupResult::kDone;
  }
  if (object.offers(store::Offer::kMemory)) {
    if (const auto data = fetcher_.view(range, lane.stats); data.ok()) {
      decode_group(wave, group_index, *data, offset, lane);
    } else {
      fail_group(wave, group_index, lane, data.status());
    }
    return GroupResult::kDone;
  }
  ++lane.stats.requests;
  lane.unmapped.reset();
  if (may_map_ && map_group(wave, group_index, object, offset, length, lane)) return GroupResult::kMapped;
  IoJob& job = wave.fetch.jobs[group_index];
  job = IoJob();
  job.fd = object.file().fd;
  job.offset = object.file().begin + offset;
  job.length = length;
  job.direct = router_.choose(job.fd, job.offset, length) == Way::kDirect;
  if (job.direct) return GroupResult::kCold;

  const std::optional<std::span<std::byte>> target = encoded_target(wave, group_index, length, lane);
  if (!target) return GroupResult::kDone;
  Status failure;
  switch (fetcher_.read_cached(range, *target, failure, lane.stats)) {
    case Fetcher::Cached::kNotCached:
      // The attempt has started read-ahead: taking the pages as they come beats asking the disk a second time.
      router_.was_not_cached();
      return GroupResult::kCold;
    case Fetcher::Cached::kFailed:
      fail_group(wave, group_index, lane, std::move(failure));
      return GroupResult::kDone;
    case Fetcher::Cached::kRead:
      break;
  }
  router_.was_cached();
  if (lane.unmapped != nullptr) note_unmapped(wave, group, job.offset, length, lane);
  decode_group(wave, group_index, *target, offset, lane);
  return GroupResult::kDone;
}

// Stored bytes that take more than the read was planned for, which few encoders make, take it from the budget of what
// stored bytes decide.
Status ReadOperation::admit_length(const Group& group, std::uint64_t length, Lane& lane) const {
  if (length <= planned_bytes_) return {};
  if (group.task_count == 1) HEADRACE_TRY(plan_->chain().check_encoded_size(length));
  return lane.memory->beyond.grow_to(length - planned_bytes_, "a chunk that is stored longer than it is decoded");
}

// The object that a group is read from. A direct descriptor may have taken the place of its own.
const store::ByteSource& ReadOperation::object_of(const Wave& wave, std::uint32_t group_index) {
  const Group& group = wave.tasks.groups[group_index];
  return group.source == kNoSource ? wave.fetch.objects[group_index] : *wave.tasks.sources[group.source].object;
}

// Where the CPU is to put a group's stored bytes, exactly `length`: a raw chunk that is one run of the tensor is read
// into it; a staged one into its slab, as one is that the device decodes. Nothing: the group has failed.
std::optional<std::span<std::byte>> ReadOperation::encoded_target(Wave& wave, std::uint32_t group_index,
                                                                  std::uint64_t length, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  std::optional<std::span<std::byte>> target;
  const codec::Chain& chain = plan_->chain();
  if (on_device(wave) && group.task_count == 1 && device_stage_ == 0) {
    const Task& task = wave.tasks.tasks[group.first_task];
    describe(group, task, lane);
    if (Status status = chain.check_encoded_size(length); !status.ok()) {
      fail_task(wave, group, task, lane, std::move(status));
      return std::nullopt;
    }
    target = reserve_encoded(wave, group.first_task, length);
  }
  if (chain.raw() && group.task_count == 1) {
    describe(group, wave.tasks.tasks[group.first_task], lane);
    if (staged_) {
      target = staged_target(wave, group.first_task);
    } else if (lane.detail.whole_chunk && plan_->element_op().moves_bytes_only()) {
      target = whole_target(lane.detail, chain.decoded_bytes());
    }
  }
  if (!target) target = lane.memory->encoded.reserve(static_cast<std::size_t>(length));
  if (target->data() == nullptr) {
    fail_group(wave, group_index, lane, Status::out_of_memory());
    return std::nullopt;
  }
  target = base::part(*target, 0, length);
  if (!target) {
    // Sizes were compared before: whatever says so now, nothing is written beyond the place.
    fail_group(wave, group_index, lane,
               Status(Code::kInternal, Layer::kTransfer, "more bytes are stored than their place has room for")
                   .with_range(group.offset, length));
  }
  return target;
}

// All of an object that has to be unpacked, by the worker itself.
void ReadOperation::unpack_group(Wave& wave, std::uint32_t group_index, const StoredRange& whole, Lane& lane) {
  const std::optional<std::span<std::byte>> target = encoded_target(wave, group_index, whole.length, lane);
  if (!target) return;
  Status status = fetcher_.read(whole, *target, lane.memory->packed, lane.stats);
  if (!status.ok()) return fail_group(wave, group_index, lane, std::move(status));
  decode_group(wave, group_index, *target, 0, lane);
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
    for (const std::uint32_t index : lane.cold) fail_group(wave, index, lane, service.status());
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
    if (job.direct && own) describe(group, wave.tasks.tasks[group.first_task], lane);
    const std::string& key = own ? lane.detail.key : *wave.tasks.sources[group.source].key;
    cold_.open_direct(job, plan_->store(), key, object_of(wave, index), wave.fetch.objects[index]);
    jobs[count++] = &job;
  }
  lane.stats.open_seconds += timer.stop();
  cold_.start(**service, {jobs, count});
  return true;
}

// `data` holds the object's bytes from `data_offset` on.
void ReadOperation::decode_group(Wave& wave, std::uint32_t group_index, std::span<const std::byte> data,
                                 std::uint64_t data_offset, Lane& lane) {
  const Group& group = wave.tasks.groups[group_index];
  const codec::Chain& chain = plan_->chain();
  const bool in_place = plan_->element_op().moves_bytes_only();
  const auto decoded_bytes = static_cast<std::size_t>(chain.decoded_bytes());
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    if (task.length == 0) {
      fill_task(wave, group, i, lane);
      continue;
    }
    describe(group, task, lane);
    const bool whole_object = task.length == kWholeObject;
    const auto stored = whole_object ? data : base::part(data, task.offset - data_offset, task.length);
    if (!stored) {
      fail_task(wave, group, task, lane,
                Status(Code::kInternal, Layer::kTransfer, "a chunk lies outside of what was read for it"));
      continue;
    }
    std::span<const std::byte> encoded = *stored;
    lane.stats.stored_bytes += encoded.size();

    if (on_device(wave)) {
      stage_encoded(wave, group, i, encoded, lane);
      continue;
    }
    // Raw elements are placed from where they are; `skipped` bytes of the chunk were not read.
    if (chain.raw()) {
      const std::uint64_t skipped = whole_object ? data_offset : 0;
      if (!whole_object) {
        if (Status status = chain.check_encoded_size(encoded.size()); !status.ok()) {
          fail_task(wave, group, task, lane, std::move(status));
          continue;
        }
      }
      Status status;
      if (staged_) {
        const auto target = base::part(staged_target(wave, i), 0, encoded.size());
        if (!target) {
          status = Status(Code::kInternal, Layer::kTransfer, "a wave's slab is too small for a chunk");
        } else if (target->data() != encoded.data() && !encoded.empty()) {
          trace::Timer timer(trace::Stage::kAssemble, encoded.size());
          std::memcpy(target->data(), encoded.data(), encoded.size());
          lane.stats.assemble_seconds += timer.stop();
        }
        if (target) encoded = *target;
      }
      if (status.ok()) status = place_task(wave, i, encoded, skipped, lane);
      if (!status.ok()) fail_task(wave, group, task, lane, std::move(status));
      continue;
    }
    std::span<std::byte> target;
    if (staged_) {
      target = staged_target(wave, i);
    } else if (lane.detail.whole_chunk && in_place) {
      target = whole_target(lane.detail, chain.decoded_bytes()).value_or(std::span<std::byte>());
    } else {
      target = lane.memory->decoded.reserve(decoded_bytes);
    }
    if (target.data() == nullptr || !lend_temporaries(lane)) {
      fail_task(wave, group, task, lane, Status::out_of_memory());
      continue;
    }
    target = target.first(std::min(target.size(), decoded_bytes));  // decode() refuses less
    trace::Timer timer(trace::Stage::kDecode, chain.decoded_bytes());
    HEADRACE_DELAY("transfer.decode");
    Status status = chain.decode(encoded, target, lane.workspace);
    const double seconds = timer.stop();
    lane.stats.decode_seconds += seconds;
    if (policy_ != nullptr) {
      wave.turn.cpu_decoded.fetch_add(chain.decoded_bytes(), std::memory_order_relaxed);
      wave.turn.cpu_decode_ns.fetch_add(static_cast<std::uint64_t>(seconds * 1e9), std::memory_order_relaxed);
    }
    if (!status.ok() && !whole_object) status = std::move(status).with_range(task.offset, task.length);
    if (status.ok()) status = place_task(wave, i, target, 0, lane);
    if (!status.ok()) fail_task(wave, group, task, lane, std::move(status));
  }
}

// lane.detail describes the task. `decoded` is what lies from byte `skipped` of the decoded chunk on.
Status ReadOperation::place_task(Wave& wave, std::uint32_t task_index, std::span<const std::byte> decoded,
                                 std::uint64_t skipped, Lane& lane) {
  TaskDetail& detail = lane.detail;
  const device::ElementOp& op = plan_->element_op();
  const std::uint64_t delivered = detail.element_count() * op.element_bytes;
  lane.described = nullptr;  // the boxes are spent
  if (staged_) {
    HEADRACE_TRY(stage_boxes(wave, task_index, decoded, skipped, detail));
  } else {
    HEADRACE_TRY(take_from(detail, op, decoded, static_cast<std::int64_t>(skipped)));
    if (detail.box.src != detail.box.dst || detail.several) {  // else decoded or read in place
      trace::Timer timer(trace::Stage::kAssemble, delivered);
      HEADRACE_DELAY("transfer.assemble");
      device::copy_box(detail.box, op, plan_->fill_element());
      while (plan_->next_box(detail)) {
        HEADRACE_TRY(take_from(detail, op, decoded, static_cast<std::int64_t>(skipped)));
        device::copy_box(detail.box, op, plan_->fill_element());
      }
      lane.stats.assemble_seconds += timer.stop();
    }
  }
  ++lane.stats.chunks;
  lane.stats.decoded_bytes += delivered;
  if (!plan_->chain().raw()) {
    ++lane.stats.cpu_chunks;
    lane.stats.cpu_decoded_bytes += delivered;
  }
  report_.add_done(1);
  return {};
}

// For the wave's launch. `decoded` as in place_task(); where several boxes follow, they are compared with their place
// on the device as they are made. Empty without an address: to be filled.
Status ReadOperation::stage_boxes(Wave& wave, std::uint32_t task_index, std::span<const std::byte> decoded,
                                  std::uint64_t skipped, TaskDetail& detail) const {
  device::Box& box = wave.stage.boxes[task_index];
  const bool fills = decoded.data() == nullptr;
  if (detail.several) {
    box.src = fills ? nullptr : decoded.data() - skipped;
    box.rank = WaveStage::kSeveralBoxes;
    return {};
  }
  if (fills) {
    HEADRACE_TRY(check_target(detail, plan_->element_op()));
  } else {
    HEADRACE_TRY(take_from(detail, plan_->element_op(), decoded, static_cast<std::int64_t>(skipped)));
  }
  box = detail.box;
  return {};
}

void ReadOperation::fill_task(Wave& wave, const Group& group, std::uint32_t task_index, Lane& lane) {
  const Task& task = wave.tasks.tasks[task_index];
  describe(group, task, lane);
  TaskDetail& detail = lane.detail;
  const std::uint64_t delivered = detail.element_count() * plan_->element_op().element_bytes;
  lane.described = nullptr;
  Status status;
  if (staged_) {
    status = stage_boxes(wave, task_index, {}, 0, detail);
  } else {
    trace::Timer timer(trace::Stage::kAssemble, delivered);
    do {
      status = check_target(detail, plan_->element_op());
      if (!status.ok()) break;
      device::copy_box(detail.box, plan_->element_op(), plan_->fill_element());
    } while (plan_->next_box(detail));
    lane.stats.assemble_seconds += timer.stop();
  }
  if (!status.ok()) return fail_task(wave, group, task, lane, std::move(status));
  ++lane.stats.missing_chunks;
  lane.stats.decoded_bytes += delivered;
  report_.add_done(1);
}

void ReadOperation::fail_task(Wave& wave, const Group& group, const Task& task, Lane& lane, Status status) {
  describe(group, task, lane);
  const bool own = group.source == kNoSource;
  const std::string& key = own ? lane.detail.key : *wave.tasks.sources[group.source].key;
  // Of a wave that has been launched they lie elsewhere, and are done with.
  if (staged_ && !wave.being_drained) {
    wave.stage.boxes[static_cast<std::size_t>(&task - wave.tasks.tasks.data())].rank = WaveStage::kNoBoxes;
  }
  report_.fail(group, task, key, std::move(status));
}

void ReadOperation::fail_group(Wave& wave, std::uint32_t group_index, Lane& lane, Status status) {
  const Group& group = wave.tasks.groups[group_index];
  for (std::uint32_t i = 0; i < group.task_count; ++i) {
    fail_task(wave, group, wave.tasks.tasks[group.first_task + i], lane, status);
  }
}

}  // namespace headrace::transfer

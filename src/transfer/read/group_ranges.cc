// GroupReads: groups whose bytes come from a user's store, or from the disk cache in front of it.
#include <algorithm>
#include <utility>

#include "transfer/read/chunk_sink.h"
#include "transfer/read/cold_part.h"
#include "transfer/read/group_reads.h"

namespace headrace::transfer {

// How many bytes to request of a store. For an object of unknown length: room for the usual size of a chunk, plus one
// byte that shows whether there was more. A raw chunk needs no such byte if the store reports object lengths, so it
// fits its place exactly. The length must depend on nothing else, because caches identify ranges by it.
std::uint64_t GroupReads::asked_bytes(const codec::Chain& chain, std::uint64_t length) const noexcept {
  if (length != store::ByteSource::kUnknown) return length;
  return chain.raw() && tells_lengths_ ? chain.decoded_bytes() : forms_.planned_bytes() + 1;
}

// Whether to request a whole chunk where a part would do, because it will be kept for reads of other parts: in memory,
// or in the store's cache. The chunk must have a version.
bool GroupReads::requests_whole_object(const Wave& wave, const StoredRange& chunk) const noexcept {
  if (answers_.takes_more()) return true;
  return plan_.store().keeps_range(chunk.source->ranges().key, chunk.offset,
                                   asked_bytes(wave.tasks.chain(), chunk.length));
}

// Opens a range from a file of the store's cache, which then replaces the object in the wave. A read that keeps answers
// in memory does not use such files.
bool GroupReads::open_local(Wave& wave, std::uint32_t group_index, const StoredRange& range, Worker& worker) {
  if (answers_.takes_more()) return false;
  const store::ByteSource::Ranges of = range.source->ranges();
  const bool whole = range.length == store::ByteSource::kUnknown;
  const std::uint64_t asked = asked_bytes(wave.tasks.chain(), range.length);
  store::ByteSource file;
  if (!plan_.store().open_local(of.key, of.version, range.offset, asked, file)) return false;
  const std::uint64_t size = file.size_bytes(), length = whole ? size : range.length;
  if (whole && (size > asked || size > forms_.planned_bytes() || !wave.tasks.chain().accepts_encoded_size(size)))
    return false;
  if (size == 0 || !file.check_range(range.offset, length).ok() || !parks(wave, length)) return false;
  wave.fetch.objects[group_index] = std::move(file);
  if (wave.tasks.groups[group_index].source == kNoSource) seen_bytes_.store(size, std::memory_order_relaxed);
  tells_versions_.store(true, std::memory_order_relaxed);
  ++worker.stats.cache_hits;
  return true;
}

// For a chunk from a cache's file: does what resume_range() does.
void GroupReads::note_local(Wave& wave, std::uint32_t group_index, const store::ByteSource& object) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  if (object.file().path == nullptr || group.source != kNoSource) return;
  wave.sink->note_answer(wave, group.first_task, object.size_bytes(), true);
}

// A cache's file cannot be read: asks its store instead.
void GroupReads::request_from_store(Wave& wave, std::uint32_t group_index, std::uint64_t offset, std::uint64_t length,
                                    Worker& worker) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  const bool own = group.source == kNoSource;
  ReadJob& job = wave.fetch.jobs[group_index];
  store::ByteSource& object = wave.fetch.objects[group_index];
  const bool whole = own && offset == 0 && length == object.size_bytes();
  object.close();
  if (own) {
    tasks_.describe(group, wave.tasks.tasks[group.first_task], worker);
    object.offer_ranges({plan_.store().ranges(), worker.detail.key, {}}, store::ByteSource::kUnknown);
  }
  if (Result<IoService*> service = resources_.io(); service.ok()) {
    ReadJob* const read[] = {&job};
    (*service)->release(read);  // while the job is still a file's
    job.dedicated = false;
  }
  set_range(wave, group_index, wave.object_of(group_index).ranges(), whole);
  job.fd = -1;
  job.direct = false;
  job.offset = offset;
  job.length = asked_bytes(wave.tasks.chain(), whole ? store::ByteSource::kUnknown : length);
  if (group_index < wave.fetch.parts.size()) wave.fetch.parts[group_index].request = ColdPart::PartRequest::kAll;
}

void GroupReads::set_range(Wave& wave, std::uint32_t group_index, const store::ByteSource::Ranges& of, bool whole) {
  ReadJob& job = wave.fetch.jobs[group_index];
  StoreRead& read = wave.fetch.reads[group_index];
  read.store = of.store;
  read.key = of.key;
  read.range.key = read.key;  // also for a job that is cancelled before it starts: an old key may dangle
  read.range.version = of.version;
  read.whole = whole;
  read.job = &job;
  job.read = &read;
}

// Prepares a group's request to a user's store; the group is parked until the answer arrives.
GroupReads::Ended GroupReads::want_range(Wave& wave, std::uint32_t group_index, const StoredRange& range,
                                         Worker& worker) {
  const bool whole = range.length == store::ByteSource::kUnknown;
  const store::ByteSource::Ranges& of = range.source->ranges();
  ReadJob& job = wave.fetch.jobs[group_index];
  job = ReadJob();
  set_range(wave, group_index, of, whole);
  job.offset = range.offset;
  job.length = asked_bytes(wave.tasks.chain(), range.length);
  // Two answers have to be of one version. For an object of its own, only the first answer reports it.
  const bool versioned = whole ? tells_versions() : !of.version.empty();
  if (versioned && plan_.wants_parts() && !requests_whole_object(wave, range) &&
      begins_with_table(tasks_, wave, group_index, range, whole ? expected_bytes(wave.tasks.chain()) : range.length,
                        worker)) {
    job.length = std::min<std::uint64_t>(wave.tasks.chain().part_table_bytes(), range.length);
  } else {
    // Into the sink's own memory where it has some. Whether it has does not change the request.
    job.place = wave.sink->arrival_room(wave, wave.tasks.groups[group_index], job.length, worker);
  }
  return Ended::kCold;
}

// Gives a store's answer, already checked, to the sink. True: ask the store again for what the job says. A transient
// failure ends the chunk like any other; a retry would go here.
bool GroupReads::resume_range(Wave& wave, std::uint32_t group_index, Status status, Worker& worker) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  ReadJob& job = wave.fetch.jobs[group_index];
  const bool own = group.source == kNoSource, told = job.read->range.object_bytes != RangeRead::kUnknown;
  if (status.code() == Code::kNotFound) {
    if (own) {
      if (tells_versions()) {
        answers_.keep_absence(group, wave.tasks.tasks[group.first_task]);
      } else {
        wave.sink->note_answer(wave, group.first_task, 0, false);
      }
      wave.sink->fill(wave, group, group.first_task, worker);
      return false;
    }
    status = Status(Code::kAgainExhausted, Layer::kTransfer, "the object was removed while it was read: read it again");
  }
  if (status.ok() && own && told) seen_bytes_.store(job.read->range.object_bytes, std::memory_order_relaxed);
  if (!job.read->range.found_version.empty()) tells_versions_.store(true, std::memory_order_relaxed);
  const ColdPart::PartRequest request = part_request_of(wave.fetch, group_index);
  if (request == ColdPart::PartRequest::kPart) {
    if (resume_part(wave, group_index, status, worker)) return true;
    if (status.ok()) return false;
  } else if (request == ColdPart::PartRequest::kTable && status.ok() && resume_table(wave, group_index, worker)) {
    return true;
  }
  if (status.ok() && own && (job.read->whole || told)) {
    const codec::Chain& chain = wave.tasks.chain();
    const std::uint64_t size = told ? job.read->range.object_bytes : job.data.size();
    const bool all = !job.read->whole || job.data.size() < job.length || (told && size == job.data.size());
    if (!all && size <= chain.max_encoded_bytes()) {
      // The answer fills its room, so there may be more. One byte beyond the expected size shows the end.
      const std::uint64_t most = std::max(forms_.planned_bytes(), 2 * job.length);
      const std::uint64_t bytes = told ? size : std::min(chain.max_encoded_bytes(), most);
      if ((!job.place.empty() && !chain.raw()) || !parks(wave, bytes)) {
        read_long(wave, group_index, told ? size : store::ByteSource::kUnknown, worker);
        return false;
      }
      status = admit_length(wave, group, bytes, worker);
      job.place = {};
      job.length = bytes + 1;
      if (status.ok()) return true;
    } else {
      status = chain.check_encoded_size(size);
    }
  }
  if (!status.ok()) {
    tasks_.fail_group(wave.tasks, group, worker, status);
  } else {
    if (own) wave.sink->note_answer(wave, group.first_task, job.data.size(), !job.read->range.found_version.empty());
    give(wave, group, job.data, job.offset, worker);
    answers_.keep(wave, group_index);
  }
  return false;
}

// A stream's table was checked. True: ask the store for the part, or for all of a chunk in a shard. False: treat the
// bytes as the beginning of the whole chunk, or as all of it.
bool GroupReads::resume_table(Wave& wave, std::uint32_t group_index, Worker& worker) {
  ColdPart& cold = wave.fetch.parts[group_index];
  ReadJob& job = wave.fetch.jobs[group_index];
  StoreRead& read = *job.read;
  const bool own = cold.length == store::ByteSource::kUnknown;
  const std::uint64_t length = own ? read.range.object_bytes : cold.length;
  cold.request = ColdPart::PartRequest::kAll;
  if (job.data.size() >= length) return false;
  // If the store does not report the version, two answers may be of different versions.
  const bool one_version = !own || (length != store::ByteSource::kUnknown && !read.range.found_version.empty());
  if (!one_version || !wave.tasks.chain().accepts_encoded_size(length)) return false;
  cold.length = length;
  if (!prepare_part_request(tasks_, wave, group_index, length, worker)) {
    if (!own) job.length = length;
    return !own;
  }
  if (own) {
    read.whole = false;
    read.version = read.range.found_version;
    read.range.version = read.version;
  }
  return true;
}

// A part was read, or failed. True: the object was replaced since its table was read, and all of the new one is
// requested. Otherwise, if the status is OK, the part went to the sink.
bool GroupReads::resume_part(Wave& wave, std::uint32_t group_index, Status& status, Worker& worker) {
  ColdPart& cold = wave.fetch.parts[group_index];
  const TaskGroup& group = wave.tasks.groups[group_index];
  ReadJob& job = wave.fetch.jobs[group_index];
  const std::uint64_t size = job.read->range.object_bytes;
  const bool other = status.ok() && size != RangeRead::kUnknown && size != cold.length;
  if (group.source == kNoSource && (status.code() == Code::kAgainExhausted || other)) {
    cold.request = ColdPart::PartRequest::kAll;
    job.offset = cold.offset;
    job.length = forms_.planned_bytes() + 1;
    job.read->whole = true;
    job.read->range.version = {};
    return true;
  }
  if (status.ok()) take_cold_part(wave, group_index, worker);
  return false;
}

// Reads a whole object whose size was unknown at first and which is too long to park.
void GroupReads::read_long(Wave& wave, std::uint32_t group_index, std::uint64_t size_bytes, Worker& worker) {
  const TaskGroup& group = wave.tasks.groups[group_index];
  store::ByteSource& object = wave.fetch.objects[group_index];
  // The key that it was opened by now holds that of another task.
  const StoreRead& read = wave.fetch.reads[group_index];
  object.offer_ranges({read.store, read.key, read.range.version}, size_bytes);
  Status status = object.measure();
  if (status.code() == Code::kNotFound) return wave.sink->fill(wave, group, group.first_task, worker);
  if (status.ok()) status = wave.tasks.chain().check_encoded_size(object.size_bytes());
  if (!status.ok()) return tasks_.fail_group(wave.tasks, group, worker, status);
  wave.sink->note_answer(wave, group.first_task, object.size_bytes(), false);
  read_here(wave, group, {&object, 0, object.size_bytes()}, worker);
}

// Gives bytes from a store to the sink; the rest of the group may be cached in memory.
void GroupReads::give(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
                      Worker& worker) const {
  if (!answers_.give(wave, group, data, data_offset, worker)) wave.sink->take(wave, group, data, data_offset, worker);
}

bool GroupReads::tells_versions() const noexcept {
  return plan_.store().tells_versions() || tells_versions_.load(std::memory_order_relaxed);
}

// Expected size of an object that has not been requested yet: that of another one, or half of its decoded size.
std::uint64_t GroupReads::expected_bytes(const codec::Chain& chain) const noexcept {
  const std::uint64_t seen = seen_bytes_.load(std::memory_order_relaxed);
  return seen != 0 ? seen : chain.decoded_bytes() / 2;
}

}  // namespace headrace::transfer

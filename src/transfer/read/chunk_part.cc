#include "transfer/read/chunk_part.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/part.h"
#include "transfer/read/wave.h"

namespace headrace::transfer {
namespace {

// Saving a quarter is worth a second read of the file.
bool pays(std::uint64_t part, std::uint64_t whole) noexcept { return part <= whole - whole / 4; }

bool may_pay(const WaveTasks& wave, const TaskDetail& detail) noexcept {
  return !detail.whole_chunk && wave.chain().decoded_bytes() >= min_part_chunk_bytes.load(std::memory_order_relaxed);
}

// The parts of one chunk; each is a stream with its own head.
class CutParts {
 public:
  struct One {
    RawSpan wanted;
    codec::StreamPart part;
    std::array<std::byte, codec::kMaxPartTableBytes> head;
    std::uint64_t bytes() const noexcept { return part.head_bytes + part.bytes; }
  };

  void want(std::span<const RawSpan> runs) noexcept {
    count_ = 0;
    for (const RawSpan& run : runs) parts_[count_++].wanted = run;
  }
  // Cuts the parts of a stream; `table` holds its first bytes. False: they are not much smaller than the stream.
  bool cut(const codec::Chain& chain, std::span<const std::byte> table, std::uint64_t stored_bytes) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      RawSpan wanted = parts_[i].wanted;
      if (!cut_one(chain, table, stored_bytes, wanted, parts_[count])) return false;
      if (count > 0 && parts_[count].part.decoded_begin < decoded_end(parts_[count - 1])) {
        // The two parts share a block, so they are merged.
        const std::uint64_t end = wanted.first + wanted.bytes;
        wanted.first = parts_[--count].wanted.first;
        wanted.bytes = end - wanted.first;
        if (!cut_one(chain, table, stored_bytes, wanted, parts_[count])) return false;
      }
      ++count;
    }
    count_ = count;
    return count > 0 && pays(bytes(), stored_bytes);
  }
  std::span<const One> parts() const noexcept { return {parts_.data(), count_}; }
  std::uint64_t bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const One& one : parts()) bytes += one.bytes();
    return bytes;
  }
  // Lays the streams out in `target` one after another and writes their heads. The caller fills in the rest.
  StoredChunk placed(std::span<std::byte> target, PartRoom& room) const noexcept {
    StoredChunk chunk;
    for (std::size_t i = 0; i < count_; ++i) {
      const One& one = parts_[i];
      const std::span<std::byte> stream = target.first(static_cast<std::size_t>(one.bytes()));
      target = target.subspan(stream.size());
      std::memcpy(stream.data(), one.head.data(), one.part.head_bytes);
      if (i == 0) {
        chunk = {stream, one.part.decoded_begin, one.part.decoded_bytes};
      } else {
        room[i - 1] = {stream, one.part.decoded_begin, one.part.decoded_bytes};
      }
    }
    chunk.more = std::span(room).first(count_ - 1);
    return chunk;
  }

 private:
  static std::uint64_t decoded_end(const One& one) noexcept { return one.part.decoded_begin + one.part.decoded_bytes; }
  static bool cut_one(const codec::Chain& chain, std::span<const std::byte> table, std::uint64_t stored_bytes,
                      const RawSpan& wanted, One& to) noexcept {
    to.wanted = wanted;
    return chain.cut(table, stored_bytes, wanted.first, wanted.first + wanted.bytes, to.head, to.part);
  }

  std::size_t count_ = 0;
  std::array<One, WantedRuns::kMax> parts_;
};

// Whether decoding only the runs that contain the described task's boxes may pay.
bool wants_parts(const ReadTasks& tasks, const Wave& wave, const TaskGroup& group, const Task& task, Worker& worker,
                 CutParts& cuts) {
  if (wave.tasks.chain().part_table_bytes() == 0 || !may_pay(wave.tasks, worker.detail)) return false;
  const WantedRuns runs = wanted_runs(tasks, wave.tasks, group, task, wave.sink->most_parts(wave), worker);
  if (runs.all().empty() || !pays(runs.bytes(), wave.tasks.chain().decoded_bytes())) return false;
  cuts.want(runs.all());
  return true;
}

}  // namespace

bool cut(const codec::Chain& chain, std::span<const std::byte> table, std::uint64_t stored_bytes, const RawSpan& wanted,
         std::span<std::byte> head, codec::StreamPart& part) noexcept {
  return chain.cut(table, stored_bytes, wanted.first, wanted.first + wanted.bytes, head, part) &&
         pays(part.head_bytes + part.bytes, stored_bytes);
}

bool skips_parts(Worker& worker) noexcept {
  constexpr unsigned kSeveral = 8, kEvery = 16;
  return worker.chunks_without_parts >= kSeveral && ++worker.chunks_without_parts % kEvery != 0;
}

RawSpan wanted_part(const WaveTasks& wave, const TaskDetail& detail) noexcept {
  if (wave.chain().part_table_bytes() == 0 || !may_pay(wave, detail)) return {};
  const RawSpan span = raw_span(detail, wave.op().element_bytes);
  return pays(span.bytes, wave.chain().decoded_bytes()) ? span : RawSpan();
}

std::uint64_t wanted_prefix(const WaveTasks& wave, const TaskDetail& detail) noexcept {
  if (!wave.chain().has_prefix() || !may_pay(wave, detail)) return 0;
  const RawSpan span = raw_span(detail, wave.op().element_bytes);
  const std::uint64_t end = span.bytes == 0 ? 0 : span.first + span.bytes;
  return pays(end, wave.chain().decoded_bytes()) ? end : 0;
}

bool cut_out(const ReadTasks& tasks, const Wave& wave, const TaskGroup& group, const Task& task, Worker& worker,
             PartRoom& room, StoredChunk& stored) {
  if (const std::uint64_t bytes = wanted_prefix(wave.tasks, worker.detail)) {
    stored.part_bytes = bytes;
    return true;
  }
  const codec::Chain& chain = wave.tasks.chain();
  CutParts cuts;
  const std::span<const std::byte> table = stored.bytes.first(std::min(stored.bytes.size(), chain.part_table_bytes()));
  if (!wants_parts(tasks, wave, group, task, worker, cuts) || !cuts.cut(chain, table, stored.bytes.size()))
    return false;
  const std::span<const std::byte> all = stored.bytes;
  os::PageBuffer& own = worker.memory->encoded;
  const CutParts::One& first = cuts.parts().front();
  if (cuts.parts().size() == 1 && own.contains(all) && group.task_count == 1 &&
      first.part.begin >= first.part.head_bytes) {
    // In place, over unwanted bytes: a part begins after the chunk's table, which is longer than the part's own. Not
    // with several tasks in the group, since others may use the same bytes.
    std::byte* const at = own.data() + (all.data() - own.data()) + (first.part.begin - first.part.head_bytes);
    stored = cuts.placed({at, static_cast<std::size_t>(cuts.bytes())}, room);
    return true;
  }
  const auto bytes = static_cast<std::size_t>(cuts.bytes());
  const std::span<std::byte> target = (own.contains(all) ? worker.memory->part : own).reserve(bytes);
  if (target.data() == nullptr) return false;
  std::byte* at = target.data();
  for (const CutParts::One& one : cuts.parts()) {
    std::memcpy(at + one.part.head_bytes, all.data() + one.part.begin, static_cast<std::size_t>(one.part.bytes));
    at += one.bytes();
  }
  stored = cuts.placed(target.first(bytes), room);
  return true;
}

bool cut_one_part(const ReadTasks& tasks, const Wave& wave, const TaskGroup& group, const Task& task,
                  std::span<const std::byte> table, std::uint64_t stored_bytes, Worker& worker, OnePart& out) {
  CutParts cuts;
  if (table.empty() || !wants_parts(tasks, wave, group, task, worker, cuts)) return false;
  if (!cuts.cut(wave.tasks.chain(), table, stored_bytes) || cuts.parts().size() != 1) return false;
  out.part = cuts.parts().front().part;
  out.head = cuts.parts().front().head;
  return true;
}

Status decode_parts(const codec::Chain& chain, const StoredChunk& stored, std::span<std::byte> target,
                    codec::Chain::Workspace& workspace) {
  const auto decode = [&](const StoredPart& part, std::span<std::byte> to) {
    Status status = chain.decode_part(part.bytes, to, workspace);
    if (status.ok()) return status;
    return Status(status.code(), Layer::kCodec,
                  "in the part that begins at decoded byte " + std::to_string(part.skipped) + ": " + status.message());
  };
  const StoredPart first{stored.bytes, stored.skipped, stored.part_bytes};
  if (stored.more.empty()) return decode(first, target);
  const auto decode_in_place = [&](const StoredPart& part) {
    const auto to = base::part(target, part.skipped, part.part_bytes);
    return to ? decode(part, *to) : Status(Code::kInternal, Layer::kTransfer, "a part lies outside of its chunk");
  };
  HEADRACE_TRY(decode_in_place(first));
  for (const StoredPart& part : stored.more) HEADRACE_TRY(decode_in_place(part));
  return {};
}

namespace {

// Leaves a part in its mapping, from which the device copies it. False: it is not mapped.
bool leave_mapped(const PartReader& reader, Wave& wave, std::uint32_t group_index, const StoredRange& whole,
                  const CutParts& cuts, Worker& worker) {
  const CutParts::One& one = cuts.parts().front();
  const std::size_t head_bytes = one.part.head_bytes;
  if (cuts.parts().size() != 1 || !wave.sink->has_mapped_room(wave, head_bytes, one.part.bytes)) return false;
  const TaskGroup& group = wave.tasks.groups[group_index];
  const StoredRange range{whole.source, whole.offset + one.part.begin, one.part.bytes};
  const auto found = reader.mapped.find(group, group_index, range, worker);
  if (!found) return false;
  ++worker.stats.requests;
  const MappedPart part{std::span(one.head).first(head_bytes), *found, one.part.decoded_begin, one.part.decoded_bytes};
  // Its boxes may be consumed.
  reader.tasks.describe(group, wave.tasks.tasks[group.first_task], worker);
  if (Status status = wave.sink->take_mapped_part(wave, group, part, one.part.begin, worker); !status.ok())
    reader.tasks.report().stop(std::move(status));
  return true;
}

}  // namespace

PartRead read_part(const PartReader& reader, Wave& wave, std::uint32_t group_index, const StoredRange& whole,
                   std::optional<Way>& cold, Worker& worker) {
  const codec::Chain& chain = wave.tasks.chain();
  const TaskGroup& group = wave.tasks.groups[group_index];
  const Task& task = wave.tasks.tasks[group.first_task];
  reader.tasks.describe(group, task, worker);
  const std::uint64_t table_bytes = std::min<std::uint64_t>(chain.part_table_bytes(), whole.length);
  CutParts cuts;
  if (!pays(table_bytes, whole.length) || !wants_parts(reader.tasks, wave, group, task, worker, cuts))
    return PartRead::kNone;
  if (skips_parts(worker)) return PartRead::kNone;
  const StoredRange table_range{whole.source, whole.offset, table_bytes};
  const store::ByteSource::File& file = whole.source->file();
  if (reader.router.choose(file.fd, file.begin + whole.offset, table_bytes) == Way::kDirect) {
    cold = Way::kDirect;
    return PartRead::kNone;
  }
  std::array<std::byte, codec::kMaxPartTableBytes> table_room;
  const std::span<std::byte> table = std::span(table_room).first(static_cast<std::size_t>(table_bytes));
  Status failure;
  const Fetcher::Cached table_outcome = reader.fetcher.read_cached(table_range, table, failure, worker.stats);
  if (table_outcome == Fetcher::Cached::kNotCached) cold = reader.router.was_not_cached();
  if (table_outcome != Fetcher::Cached::kRead) return PartRead::kNone;
  ++worker.stats.requests;
  if (!cuts.cut(chain, table, whole.length)) {
    ++worker.chunks_without_parts;
    return PartRead::kNone;
  }
  worker.chunks_without_parts = 0;
  worker.unmapped.reset();
  if (leave_mapped(reader, wave, group_index, whole, cuts, worker)) return PartRead::kMapped;

  const std::optional<std::span<std::byte>> target = wave.sink->room(wave, group, cuts.bytes(), worker);
  if (!target) return PartRead::kDone;
  std::span<std::byte> rest = *target;
  for (const CutParts::One& one : cuts.parts()) {
    const StoredRange range{whole.source, whole.offset + one.part.begin, one.part.bytes};
    const std::span<std::byte> to = rest.subspan(one.part.head_bytes, static_cast<std::size_t>(one.part.bytes));
    rest = rest.subspan(static_cast<std::size_t>(one.bytes()));
    ++worker.stats.requests;
    Fetcher::Cached outcome = reader.fetcher.read_cached(range, to, failure, worker.stats);
    if (outcome == Fetcher::Cached::kNotCached) {
      // The room is reserved, and the beginning was cached, so little can be missing.
      failure = reader.fetcher.read(range, to, worker.memory->packed, worker.stats);
      outcome = failure.ok() ? Fetcher::Cached::kRead : Fetcher::Cached::kFailed;
    }
    if (outcome == Fetcher::Cached::kFailed && file.path != nullptr) return PartRead::kNone;  // its store may have it
    if (outcome == Fetcher::Cached::kFailed) {
      reader.tasks.fail_group(wave.tasks, group, worker, std::move(failure).with_range(range.offset, range.length));
      return PartRead::kDone;
    }
    if (worker.unmapped != nullptr) reader.mapped.note_unmapped(wave.tasks, group, range, worker);
  }
  reader.router.was_cached();
  PartRoom room;
  wave.sink->take_part(wave, group, cuts.placed(*target, room), worker);
  return PartRead::kDone;
}

}  // namespace headrace::transfer

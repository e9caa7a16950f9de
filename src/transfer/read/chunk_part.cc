#include "transfer/read/chunk_part.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "transfer/read/wave.h"

namespace headrace::transfer {
namespace {

// A quarter less is worth a second look at the file.
bool pays(std::uint64_t part, std::uint64_t whole) noexcept { return part <= whole - whole / 4; }

bool cut(const codec::Chain& chain, std::span<const std::byte> table, std::uint64_t stored_bytes, const RawSpan& wanted,
         std::span<std::byte> head, codec::StreamPart& part) noexcept {
  return chain.cut(table, stored_bytes, wanted.first, wanted.first + wanted.bytes, head, part) &&
         pays(part.head_bytes + part.bytes, stored_bytes);
}

}  // namespace

RawSpan wanted_part(const WaveTasks& wave, const TaskDetail& detail) noexcept {
  const codec::Chain& chain = wave.chain();
  if (detail.whole_chunk || chain.part_table_bytes() == 0) return {};
  if (chain.decoded_bytes() < least_part_chunk_bytes.load(std::memory_order_relaxed)) return {};
  const RawSpan span = raw_span(detail, wave.op().element_bytes);
  return pays(span.bytes, chain.decoded_bytes()) ? span : RawSpan();
}

bool cut_out(const WaveTasks& wave, bool shared, Worker& worker, StoredChunk& stored) {
  const RawSpan wanted = wanted_part(wave, worker.detail);
  if (wanted.bytes == 0) return false;
  const std::span<const std::byte> table =
      stored.bytes.first(std::min(stored.bytes.size(), wave.chain().part_table_bytes()));
  std::array<std::byte, codec::kMostPartTableBytes> head;
  codec::StreamPart part;
  if (!cut(wave.chain(), table, stored.bytes.size(), wanted, head, part)) return false;
  const auto bytes = static_cast<std::size_t>(part.head_bytes + part.bytes);
  os::PageBuffer& own = worker.memory->encoded;
  std::byte* room = nullptr;
  if (own.contains(stored.bytes) && !shared && part.begin >= part.head_bytes) {
    // In the place of what is not wanted: a part begins behind the table, which is longer than its own.
    room = own.data() + (stored.bytes.data() - own.data()) + (part.begin - part.head_bytes);
  } else {
    room = (own.contains(stored.bytes) ? worker.memory->part : own).reserve(bytes).data();
    if (room == nullptr) return false;
    std::memcpy(room + part.head_bytes, stored.bytes.data() + part.begin, static_cast<std::size_t>(part.bytes));
  }
  std::memcpy(room, head.data(), part.head_bytes);
  stored = {{room, bytes}, part.decoded_begin, part.decoded_bytes};
  return true;
}

Status decode_part(const codec::Chain& chain, const StoredChunk& stored, std::span<std::byte> target,
                   codec::Chain::Workspace& workspace) {
  Status status = chain.decode_part(stored.bytes, target, workspace);
  if (status.ok()) return status;
  return Status(status.code(), Layer::kCodec,
                "of the part from decoded byte " + std::to_string(stored.skipped) + " on: " + status.message());
}

bool read_part(const ReadTasks& tasks, const Fetcher& fetcher, ObjectRouter& router, Wave& wave, const TaskGroup& group,
               const StoredRange& whole, Worker& worker) {
  const codec::Chain& chain = wave.tasks.chain();
  tasks.describe(group, wave.tasks.tasks[group.first_task], worker);
  const RawSpan wanted = wanted_part(wave.tasks, worker.detail);
  const std::uint64_t table_bytes = std::min<std::uint64_t>(chain.part_table_bytes(), whole.length);
  if (wanted.bytes == 0 || !pays(table_bytes, whole.length)) return false;
  // An array's chunks are much alike: where several had no parts, few others are looked at.
  constexpr unsigned kSeveral = 8, kEvery = 16;
  if (worker.uncut >= kSeveral && ++worker.uncut % kEvery != 0) return false;
  const StoredRange table_range{whole.source, whole.offset, table_bytes};
  const store::ByteSource::File& file = whole.source->file();
  if (router.choose(file.fd, file.begin + whole.offset, table_bytes) == Way::kDirect) return false;
  std::array<std::byte, codec::kMostPartTableBytes> head, table_room;
  const std::span<std::byte> table = std::span(table_room).first(static_cast<std::size_t>(table_bytes));
  Status failure;
  if (fetcher.read_cached(table_range, table, failure, worker.stats) != Fetcher::Cached::kRead) return false;
  ++worker.stats.requests;
  codec::StreamPart part;
  if (!cut(chain, table, whole.length, wanted, head, part)) {
    ++worker.uncut;
    return false;
  }
  worker.uncut = 0;

  const std::uint64_t bytes = part.head_bytes + part.bytes;
  const std::optional<std::span<std::byte>> target = wave.sink->room(wave, group, bytes, worker);
  if (!target) return true;
  std::memcpy(target->data(), head.data(), part.head_bytes);
  const std::span<std::byte> rest = target->subspan(part.head_bytes);
  const StoredRange range{whole.source, whole.offset + part.begin, part.bytes};
  ++worker.stats.requests;
  Fetcher::Cached came = fetcher.read_cached(range, rest, failure, worker.stats);
  if (came == Fetcher::Cached::kNotCached) {
    // The place is taken, and the beginning was there: what is missing is little.
    failure = fetcher.read(range, rest, worker.memory->packed, worker.stats);
    came = failure.ok() ? Fetcher::Cached::kRead : Fetcher::Cached::kFailed;
  }
  if (came == Fetcher::Cached::kFailed) {
    tasks.fail_group(wave.tasks, group, worker, std::move(failure).with_range(range.offset, range.length));
  } else {
    router.was_cached();
    wave.sink->take_part(wave, group, {*target, part.decoded_begin, part.decoded_bytes}, worker);
  }
  return true;
}

}  // namespace headrace::transfer

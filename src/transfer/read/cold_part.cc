#include "transfer/read/cold_part.h"

#include <algorithm>
#include <cstring>

#include "transfer/read/chunk_part.h"
#include "transfer/read/chunk_sink.h"

namespace headrace::transfer {
namespace {

std::span<std::byte> head_room(WaveFetch& fetch, std::uint32_t group_index) noexcept {
  return std::span(fetch.part_heads).subspan(group_index * ColdPart::kHeadBytes, ColdPart::kHeadBytes);
}

// Estimate of the bytes saved by reading a part, from the expected size of the whole.
std::uint64_t saved_bytes(std::uint64_t stored_bytes, std::uint64_t wanted, std::uint64_t decoded_bytes,
                          std::uint64_t table_bytes) noexcept {
  const double share = static_cast<double>(wanted) / static_cast<double>(decoded_bytes);
  const auto needed = static_cast<std::uint64_t>(static_cast<double>(stored_bytes) * share) + table_bytes;
  return stored_bytes - std::min(stored_bytes, needed);
}

}  // namespace

void begin_parts(WaveFetch& fetch, std::size_t groups) {
  if (fetch.parts.size() < groups) {
    fetch.part_heads.resize(groups * ColdPart::kHeadBytes);
    fetch.parts.resize(groups);
  }
  for (std::size_t i = 0; i < groups; ++i) fetch.parts[i].request = ColdPart::PartRequest::kAll;
}

ColdPart::PartRequest part_request_of(const WaveFetch& fetch, std::uint32_t group_index) noexcept {
  return group_index < fetch.parts.size() ? fetch.parts[group_index].request : ColdPart::PartRequest::kAll;
}

bool begins_with_table(const ReadTasks& tasks, Wave& wave, std::uint32_t group_index, const StoredRange& whole,
                       std::uint64_t stored_bytes, Worker& worker) {
  if (group_index >= wave.fetch.parts.size()) return false;
  ColdPart& cold = wave.fetch.parts[group_index];
  const TaskGroup& group = wave.tasks.groups[group_index];
  const codec::Chain& chain = wave.tasks.chain();
  if (group.task_count != 1 || chain.part_table_bytes() == 0 || !tasks.parts() || !wave.sink->takes_parts(wave)) {
    return false;
  }
  if (wave.sink->keeps(wave, group.first_task)) return false;
  tasks.describe(group, wave.tasks.tasks[group.first_task], worker);
  const RawSpan wanted = wanted_part(wave.tasks, worker.detail);
  if (wanted.bytes == 0) return false;
  const std::uint64_t least = (whole.source->offers(store::Offer::kFile) ? min_saved_file_bytes : min_saved_store_bytes)
                                  .load(std::memory_order_relaxed);
  if (saved_bytes(stored_bytes, wanted.bytes, chain.decoded_bytes(), chain.part_table_bytes()) < least) return false;
  if (skips_parts(worker)) return false;
  cold = {ColdPart::PartRequest::kTable, wave.fetch.jobs[group_index].offset, whole.length, {}};
  return true;
}

bool prepare_part_request(const ReadTasks& tasks, Wave& wave, std::uint32_t group_index, std::uint64_t stream_bytes,
                          Worker& worker) {
  ColdPart& cold = wave.fetch.parts[group_index];
  ReadJob& job = wave.fetch.jobs[group_index];
  const TaskGroup& group = wave.tasks.groups[group_index];
  tasks.describe(group, wave.tasks.tasks[group.first_task], worker);
  const RawSpan wanted = wanted_part(wave.tasks, worker.detail);
  // The head overwrites the bytes just before the part, so those are read too.
  if (wanted.bytes != 0 &&
      cut(wave.tasks.chain(), job.data, stream_bytes, wanted, head_room(wave.fetch, group_index), cold.part) &&
      cold.part.head_bytes <= cold.part.begin) {
    worker.chunks_without_parts = 0;
    cold.request = ColdPart::PartRequest::kPart;
    job.offset = cold.offset + (cold.part.begin - cold.part.head_bytes);
    job.length = cold.part.head_bytes + cold.part.bytes;
    return true;
  }
  ++worker.chunks_without_parts;
  cold.request = ColdPart::PartRequest::kAll;
  return false;
}

void take_cold_part(Wave& wave, std::uint32_t group_index, Worker& worker) {
  const ColdPart& cold = wave.fetch.parts[group_index];
  const ReadJob& job = wave.fetch.jobs[group_index];
  std::byte* const begin = job.slot.data() + (job.data.data() - job.slot.data());
  std::memcpy(begin, head_room(wave.fetch, group_index).data(), cold.part.head_bytes);
  wave.sink->take_part(wave, wave.tasks.groups[group_index],
                       {job.data, cold.part.decoded_begin, cold.part.decoded_bytes}, worker);
}

}  // namespace headrace::transfer

#include "zarr/index/encoded_sink.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "transfer/read/placing.h"

namespace headrace::zarr {

using transfer::TaskGroup;
using transfer::Wave;
using transfer::Worker;
using Kind = BatchMemory::Kind;

void EncodedChunks::sort() { std::ranges::sort(chunks, {}, &EncodedChunk::ordinal); }

Status EncodedSink::take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index,
                              const transfer::StoredChunk& stored, Worker& worker) {
  std::span<const std::byte> encoded = stored.bytes;
  const std::uint64_t delivered = tasks_.element_bytes(wave.tasks, worker.detail);
  if (decoded_stages_ > 0) {
    const auto target =
        worker.memory->decoded.reserve(static_cast<std::size_t>(wave.tasks.chain().capacity_before(decoded_stages_)));
    if (target.data() == nullptr || !prepare(wave, worker)) return Status::out_of_memory();
    std::size_t produced = 0;
    HEADRACE_TRY(wave.tasks.chain().decode_until(decoded_stages_, encoded, target, worker.workspace, produced));
    encoded = target.first(produced);
  }
  EncodedChunk chunk;
  chunk.ordinal = wave.tasks.tasks[task_index].ordinal;
  chunk.key = transfer::ReadTasks::key_of(wave.tasks, group, worker);
  worker.described = nullptr;  // its boxes have been consumed
  {
    std::lock_guard lock(mutex_);
    if (Status status = keep_locked(wave, std::move(chunk), encoded, worker); !status.ok()) return status;
  }
  count_taken(wave.tasks, delivered, worker);
  return {};
}

Status EncodedSink::fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) {
  (void)task_index;
  std::lock_guard lock(mutex_);
  return add_boxes_locked(wave, out_.absent, worker);
}

Status EncodedSink::keep_locked(const Wave& wave, EncodedChunk chunk, std::span<const std::byte> encoded,
                                Worker& worker) {
  const auto& detail = worker.detail;
  chunk.at = base::align_up(std::uint64_t{out_.encoded.size()}, kEncodedAlignment);
  chunk.bytes = encoded.size();
  const bool in_place = detail.whole_chunk && wave.tasks.op().moves_bytes_only() &&
                        reinterpret_cast<std::uintptr_t>(detail.box.dst) % kEncodedAlignment == 0;
  if (in_place) {
    const auto target = transfer::whole_target(detail, wave.tasks.chain().decoded_bytes());
    if (!target) return Status(Code::kInternal, Layer::kZarr, "a chunk reaches beyond the result");
    chunk.in_place = target->data();
  } else {
    HEADRACE_TRY(add_boxes_locked(wave, chunk.boxes, worker));
  }
  HEADRACE_TRY(add_to_lists_locked(sizeof(EncodedChunk) + chunk.key.size()));
  HEADRACE_TRY(make_room_locked(chunk.at + chunk.bytes));
  out_.apart = out_.apart || !in_place;
  out_.encoded.resize(static_cast<std::size_t>(chunk.at));
  out_.encoded.insert(out_.encoded.end(), encoded.begin(), encoded.end());
  out_.chunks.push_back(std::move(chunk));
  return {};
}

Status EncodedSink::add_boxes_locked(const Wave& wave, std::vector<SourcedBox>& boxes, Worker& worker) {
  do {
    HEADRACE_TRY(transfer::check_source(worker.detail, wave.tasks.op(), wave.tasks.chain().decoded_bytes()));
    HEADRACE_TRY(transfer::check_target(worker.detail, wave.tasks.op()));
    HEADRACE_TRY(add_to_lists_locked(sizeof(SourcedBox)));
    boxes.push_back({worker.detail.box, worker.detail.source_offset});
  } while (tasks_.plan().next_box(worker.detail));
  return {};
}

// Charged twice: the lists grow by doubling, and the device's lists are built from them.
Status EncodedSink::add_to_lists_locked(std::uint64_t bytes) {
  lists_bytes_ += 2 * bytes;
  return memory_.hold(Kind::kLists, lists_bytes_);
}

// Doubles the capacity while that is free of charge, then grows in small steps.
Status EncodedSink::make_room_locked(std::uint64_t bytes) {
  const std::uint64_t room = out_.encoded.capacity(), free_of_charge = memory_.result_bytes();
  if (bytes <= room) return {};
  const std::uint64_t wanted = std::max({bytes, room + room / 32, std::min(2 * room, free_of_charge)});
  HEADRACE_TRY(memory_.hold(Kind::kEncoded, wanted));
  out_.encoded.reserve(static_cast<std::size_t>(wanted));
  return {};
}

}  // namespace headrace::zarr

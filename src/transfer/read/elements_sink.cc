#include "transfer/read/elements_sink.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/fault.h"
#include "base/trace.h"
#include "transfer/read/placing.h"

namespace headrace::transfer {
namespace {

using codec::VariableSlot;

VariableSlot slot_at(const std::byte* at) noexcept {
  VariableSlot slot;
  std::memcpy(&slot, at, sizeof(slot));
  return slot;
}

// Calls visit(source, destination) for each element of a box, slowest dimension first, until it returns false.
template <class Visit>
void for_each_element(const device::Box& box, Visit&& visit) {
  if (box.element_count() == 0) return;
  const auto rank = static_cast<std::size_t>(box.rank);
  std::array<std::uint64_t, device::kMaxRank> index{};
  const std::byte* src = box.src;
  std::byte* dst = box.dst;
  for (;;) {
    if (!visit(src, dst)) return;
    std::size_t axis = rank;
    for (;; --axis) {
      if (axis == 0) return;
      const device::BoxDim& dim = box.dim[axis - 1];
      if (++index[axis - 1] < dim.extent) {
        if (src != nullptr) src += dim.src_stride_bytes;
        dst += dim.dst_stride_bytes;
        break;
      }
      const auto back = static_cast<std::int64_t>(dim.extent - 1);
      if (src != nullptr) src -= back * dim.src_stride_bytes;
      dst -= back * dim.dst_stride_bytes;
      index[axis - 1] = 0;
    }
  }
}

}  // namespace

Result<std::span<std::byte>> ElementsSink::own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                                      Worker& worker) {
  (void)wave, (void)group;
  Elements::Portion& portion = out_.portion(worker.number);
  Status room = portion.encoded.at_least(length);
  if (room.code() == Code::kResourceExhausted && !portion.alone.owns_lock()) {
    out_.acquire_second_half(portion);
    portion.encoded.set_budget(portion.budget);
    room = portion.encoded.at_least(length);
  }
  HEADRACE_TRY(std::move(room));
  return std::span(portion.encoded.data(), portion.encoded.capacity());
}

// The store's scratch is kept for the next object. If that leaves too little for this one, it is unpacked while no
// other worker unpacks or keeps scratch, so that failing does not depend on the number of workers.
Result<ChunkSink::UnpackRoom> ElementsSink::unpack_room(std::uint64_t length, Worker& worker) {
  constexpr std::string_view kWhat = "unpacking a chunk";
  const std::uint64_t bytes = store::Store::max_packed_bytes(length);
  Elements::Portion& portion = out_.portion(worker.number);
  UnpackRoom room;
  room.shared = std::shared_lock(out_.unpacking());
  if (!portion.unpacking_memory.grow_to(bytes, kWhat).ok()) {
    room.shared.unlock();
    room.exclusive = std::unique_lock(out_.unpacking());
    for (const auto& other : out_.portions()) other->drop_unpacking();
    HEADRACE_TRY(portion.unpacking_memory.grow_to(bytes, kWhat));
  }
  room.scratch = &portion.unpacking.value();
  return room;
}

Status ElementsSink::take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                               Worker& worker) {
  (void)group, (void)task_index;
  Elements::Portion& portion = out_.portion(worker.number);
  const codec::Chain& chain = wave.tasks.chain();
  portion.use(wave.tasks.form);
  HEADRACE_TRY(decode(chain, stored.bytes, portion, worker));
  worker.described = nullptr;  // the boxes are consumed
  const std::span<const std::byte> slots(portion.decoded.data(), static_cast<std::size_t>(chain.decoded_bytes()));
  trace::Timer timer(trace::Stage::kAssemble);
  std::uint64_t bytes = 0;
  do {
    HEADRACE_TRY(take_from(worker.detail, wave.tasks.op(), slots, 0));
    Status status = keep_box(worker.detail.box, portion, bytes);
    if (status.code() == Code::kResourceExhausted) return tasks_.report().stop(std::move(status)), Status();
    HEADRACE_TRY(std::move(status));
  } while (tasks_.plan().next_box(worker.detail));
  timer.set_bytes(bytes);
  worker.stats.assemble_seconds += timer.stop();
  count_taken(wave.tasks, bytes, worker);
  return {};
}

// Decodes into the portion's slots.
Status ElementsSink::decode(const codec::Chain& chain, std::span<const std::byte> encoded, Elements::Portion& portion,
                            Worker& worker) const {
  trace::Timer timer(trace::Stage::kDecode);
  HEADRACE_DELAY("transfer.decode");
  const auto attempt = [&]() -> Status {
    HEADRACE_TRY(portion.decoded.at_least(std::max<std::uint64_t>(chain.decoded_bytes(), 1)));
    return chain.decode(encoded, {portion.decoded.data(), static_cast<std::size_t>(chain.decoded_bytes())},
                        portion.workspace);
  };
  Status status = attempt();
  if (status.code() == Code::kResourceExhausted && !portion.alone.owns_lock()) {
    out_.acquire_second_half(portion);
    status = attempt();
  }
  worker.stats.decode_seconds += timer.stop();
  return status;
}

// Keeps the elements that a box selects from the portion's slots, and adds their size to `bytes`.
Status ElementsSink::keep_box(const device::Box& box, Elements::Portion& portion, std::uint64_t& bytes) const {
  std::uint64_t more = 0;
  const std::byte* no_text = nullptr;
  for_each_element(box, [&](const std::byte* src, std::byte*) {
    const VariableSlot slot = slot_at(src);
    if (slot.bytes == VariableSlot::kNotText) no_text = src;
    if (no_text == nullptr) more += slot.bytes;
    return no_text == nullptr;
  });
  if (no_text != nullptr) {
    const auto index = static_cast<std::uint64_t>(no_text - portion.decoded.data()) / sizeof(VariableSlot);
    return Status(
        Code::kUnsupported, Layer::kCodec,
        "object arrays may contain only strings: element " + std::to_string(index) + " of the chunk is not a string");
  }
  bytes += more;
  if (!out_.keeps()) return {};
  HEADRACE_TRY(out_.keep(more));
  std::byte* at = portion.kept.take(static_cast<std::size_t>(more));
  for_each_element(box, [&](const std::byte* src, std::byte* dst) {
    VariableSlot slot = slot_at(src);
    if (slot.bytes != 0) std::memcpy(at, slot.data, static_cast<std::size_t>(slot.bytes));
    slot.data = at;
    at += slot.bytes;
    std::memcpy(dst, &slot, sizeof(slot));
    return true;
  });
  return {};
}

std::uint64_t ElementsSink::filled_bytes(const WaveTasks& wave, const TaskDetail& detail) const noexcept {
  return base::checked_mul(detail.element_count(), slot_at(wave.form->fill.data()).bytes).value_or(UINT64_MAX);
}

Status ElementsSink::fill_task(Wave& wave, std::uint32_t task_index, Worker& worker) {
  (void)task_index;
  if (!out_.keeps()) return {};
  const VariableSlot fill = slot_at(wave.tasks.form->fill.data());
  if (Status status = out_.keep(filled_bytes(wave.tasks, worker.detail)); !status.ok()) {
    return tasks_.report().stop(std::move(status)), Status();
  }
  do {
    HEADRACE_TRY(check_target(worker.detail, wave.tasks.op()));
    for_each_element(worker.detail.box, [&](const std::byte*, std::byte* dst) {
      std::memcpy(dst, &fill, sizeof(fill));
      return true;
    });
  } while (tasks_.plan().next_box(worker.detail));
  return {};
}

}  // namespace headrace::transfer

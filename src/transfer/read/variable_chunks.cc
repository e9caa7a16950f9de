// VariableRead: one chunk from its object to the kept bytes of the elements that are selected of it.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <shared_mutex>
#include <string>

#include "base/checked.h"
#include "base/fault.h"
#include "base/part.h"
#include "base/trace.h"
#include "transfer/read/variable_read.h"
#include "transfer/read/variable_worker.h"

namespace headrace::transfer {
namespace {

using codec::VariableSlot;

VariableSlot slot_at(const std::byte* at) noexcept {
  VariableSlot slot;
  std::memcpy(&slot, at, sizeof(slot));
  return slot;
}

// Calls visit(source, destination) for each element of a box, slowest dimension first, until it says false.
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

Status too_many(std::uint64_t bytes, std::uint64_t limit) {
  return Status(Code::kResourceExhausted, Layer::kTransfer,
                "the selected elements take more than " + std::to_string(bytes) + " bytes, and max_bytes allows " +
                    std::to_string(limit) + ": select fewer, or allow more");
}

}  // namespace

bool VariableRead::goes_to_slots(const TaskDetail& detail) noexcept {
  return device::fits(detail.box, &device::BoxDim::dst_stride_bytes, detail.box.dst - detail.tensor.data(),
                      sizeof(VariableSlot), detail.tensor.size());
}

// The store's scratch is kept for the next object. Where that leaves too little for this one, it is unpacked while no
// other worker unpacks or keeps scratch: what fails does not depend on how many there are.
Status VariableRead::unpack(const Fetcher& fetcher, const StoredRange& whole, std::span<std::byte> out,
                            Worker& worker) {
  constexpr std::string_view kWhat = "unpacking a chunk";
  const std::uint64_t bytes = store::Store::most_packed_bytes(whole.length);
  {
    std::shared_lock with_others(unpacking_mutex_);
    if (worker.unpacking_memory.grow_to(bytes, kWhat).ok()) {
      return fetcher.read(whole, out, worker.unpacking.value(), worker.stats);
    }
  }
  std::unique_lock only_one(unpacking_mutex_);
  {
    std::lock_guard lock(mutex_);
    for (const auto& other : workers_) other->drop_unpacking();
  }
  HEADRACE_TRY(worker.unpacking_memory.grow_to(bytes, kWhat));
  return fetcher.read(whole, out, worker.unpacking.value(), worker.stats);
}

// Brings a group's stored bytes into memory, if they are not there already.
Status VariableRead::fetch(const Fetcher& fetcher, const StoredRange& range, Worker& worker,
                           std::span<const std::byte>& stored) {
  const store::ByteSource& object = *range.source;
  HEADRACE_TRY(object.check_range(range.offset, range.length));
  if (object.offers(store::Offer::kMemory)) {
    HEADRACE_TRY_ASSIGN(stored, fetcher.view(range, worker.stats));
    return {};
  }
  Status room = worker.encoded.at_least(range.length);
  if (room.code() == Code::kResourceExhausted && !worker.alone.owns_lock()) {
    worker.use(shared_);  // gives back what it has
    worker.alone = std::unique_lock(alone_mutex_);
    worker.encoded.set_budget(&alone_);
    worker.use(alone_);
    room = worker.encoded.at_least(range.length);
  }
  HEADRACE_TRY(std::move(room));
  const std::span<std::byte> out(worker.encoded.data(), static_cast<std::size_t>(range.length));
  stored = out;
  if (object.offers(store::Offer::kWhole)) return unpack(fetcher, range, out, worker);
  os::PageBuffer none;
  return fetcher.read(range, out, none, worker.stats);
}

void VariableRead::run_group(const TaskBatch& batch, const TaskGroup& group, Worker& worker) {
  const std::span<const Task> tasks(batch.tasks.tasks.data() + group.first_task, group.task_count);
  if (group.length == 0) {
    for (const Task& task : tasks) fill_task(batch, group, task, worker);
    return;
  }
  const Fetcher fetcher(plan_->store());
  const Source* const shared = group.source != kNoSource ? &batch.tasks.sources[group.source] : nullptr;
  if (shared == nullptr) plan_->describe(group, tasks.front(), worker.detail);
  StoredRange range;
  Status status =
      fetcher.find(shared, worker.detail.key, group.offset, group.length, worker.object, range, worker.stats);
  if (status.code() == Code::kNotFound && shared == nullptr) {
    fill_task(batch, group, tasks.front(), worker);
    return;
  }
  // Before there is room for it.
  if (status.ok() && shared == nullptr) status = batch.tasks.chain().check_encoded_size(range.length);
  std::span<const std::byte> stored;
  if (status.ok()) status = fetch(fetcher, range, worker, stored);
  if (!status.ok()) {
    if (shared != nullptr) shared->note(status);
    for (const Task& task : tasks) fail_task(batch, group, task, worker, status);
    return;
  }
  run_tasks(batch, group, stored, worker);
}

void VariableRead::run_tasks(const TaskBatch& batch, const TaskGroup& group, std::span<const std::byte> stored,
                             Worker& worker) {
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    if (report_.stopped()) return;
    const Task& task = batch.tasks.tasks[i];
    const bool whole_object = task.length == kWholeObject;
    const auto encoded = whole_object ? stored : base::part(stored, task.offset - group.offset, task.length);
    worker.stats.stored_bytes += encoded ? encoded->size() : 0;
    Status status = encoded ? decode_task(batch.tasks.chain(), *encoded, worker)
                            : Status(Code::kInternal, Layer::kTransfer, "a chunk lies outside of what was read for it");
    if (status.ok()) {
      plan_->describe(group, task, worker.detail);
      do {
        device::Box box = worker.detail.box;
        const std::int64_t at = worker.detail.source_offset;
        if (!device::fits(box, &device::BoxDim::src_stride_bytes, at, sizeof(VariableSlot),
                          batch.tasks.chain().decoded_bytes()) ||
            !goes_to_slots(worker.detail)) {
          status = Status(Code::kInternal, Layer::kTransfer, "a box reaches beyond its chunk or the result");
          break;
        }
        box.src = worker.decoded.data() + at;
        status = keep_box(box, worker.decoded.data(), worker);
      } while (status.ok() && plan_->next_box(worker.detail));
      if (status.code() == Code::kResourceExhausted) return report_.stop(std::move(status));  // no fault of the chunk
    }
    if (!status.ok()) {
      fail_task(batch, group, task, worker, std::move(status));
      continue;
    }
    ++worker.stats.chunks;
    ++worker.stats.cpu_chunks;
    report_.add_done(1);
  }
}

// Decodes into worker.decoded.
Status VariableRead::decode_task(const codec::Chain& chain, std::span<const std::byte> stored, Worker& worker) {
  trace::Timer timer(trace::Stage::kDecode);
  HEADRACE_DELAY("transfer.decode");
  const auto attempt = [&] {
    Status room = worker.decoded.at_least(std::max<std::uint64_t>(chain.decoded_bytes(), 1));
    if (!room.ok()) return room;
    return chain.decode(stored, {worker.decoded.data(), static_cast<std::size_t>(chain.decoded_bytes())},
                        worker.workspace);
  };
  Status status = attempt();
  if (status.code() == Code::kResourceExhausted && !worker.alone.owns_lock()) {
    worker.use(shared_);  // gives back what it has
    worker.alone = std::unique_lock(alone_mutex_);
    worker.use(alone_);
    status = attempt();
  }
  worker.stats.decode_seconds += timer.stop();
  return status;
}

Status VariableRead::account(std::uint64_t bytes) {
  const std::uint64_t before = kept_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (before <= options_.max_bytes && bytes <= options_.max_bytes - before) return {};
  kept_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return too_many(before, options_.max_bytes);
}

// Keeps the elements that a box selects of the slots in worker.decoded, from `base` on.
Status VariableRead::keep_box(device::Box box, const std::byte* base, Worker& worker) {
  trace::Timer timer(trace::Stage::kAssemble);
  std::uint64_t bytes = 0;
  const std::byte* no_text = nullptr;
  for_each_element(box, [&](const std::byte* src, std::byte*) {
    const VariableSlot slot = slot_at(src);
    if (slot.bytes == VariableSlot::kNotText) no_text = src;
    if (no_text == nullptr) bytes += slot.bytes;
    return no_text == nullptr;
  });
  timer.set_bytes(bytes);
  if (no_text != nullptr) {
    const auto index = static_cast<std::uint64_t>(no_text - base) / sizeof(VariableSlot);
    return Status(
        Code::kUnsupported, Layer::kCodec,
        "object arrays with elements that are no strings: element " + std::to_string(index) + " of the chunk is one");
  }
  worker.stats.decoded_bytes += bytes;
  worker.stats.cpu_decoded_bytes += bytes;
  if (options_.check_only) {
    worker.stats.assemble_seconds += timer.stop();
    return {};
  }
  HEADRACE_TRY(account(bytes));
  std::byte* at = worker.kept.take(static_cast<std::size_t>(bytes));
  for_each_element(box, [&](const std::byte* src, std::byte* dst) {
    VariableSlot slot = slot_at(src);
    if (slot.bytes != 0) std::memcpy(at, slot.data, static_cast<std::size_t>(slot.bytes));
    slot.data = at;
    at += slot.bytes;
    std::memcpy(dst, &slot, sizeof(slot));
    return true;
  });
  worker.stats.assemble_seconds += timer.stop();
  return {};
}

void VariableRead::fill_task(const TaskBatch& batch, const TaskGroup& group, const Task& task, Worker& worker) {
  plan_->describe(group, task, worker.detail);
  const VariableSlot fill = slot_at(batch.tasks.form->fill.data());
  ++worker.stats.missing_chunks;
  report_.add_done(1);
  const std::uint64_t count = worker.detail.element_count();
  const auto bytes = base::checked_mul(count, fill.bytes);
  worker.stats.decoded_bytes += bytes.value_or(0);
  if (options_.check_only) return;
  if (Status status = bytes ? account(*bytes) : too_many(0, options_.max_bytes); !status.ok()) {
    report_.stop(std::move(status));
    return;
  }
  do {
    const device::Box& box = worker.detail.box;
    if (!goes_to_slots(worker.detail)) {
      return report_.stop(Status(Code::kInternal, Layer::kTransfer, "a box reaches beyond the result"));
    }
    for_each_element(box, [&](const std::byte*, std::byte* dst) {
      std::memcpy(dst, &fill, sizeof(fill));
      return true;
    });
  } while (plan_->next_box(worker.detail));
}

void VariableRead::fail_task(const TaskBatch& batch, const TaskGroup& group, const Task& task, Worker& worker,
                             Status status) {
  const bool own = group.source == kNoSource;
  if (own) plan_->describe(group, task, worker.detail);
  const std::string& key = own ? worker.detail.key : *batch.tasks.sources[group.source].key;
  report_.fail(group, task, key, std::move(status));
}

// All of the batch has been read. Of a source that was changed meanwhile no chunk is known to be right.
void VariableRead::check_sources(const TaskBatch& batch) {
  Status status = Fetcher(plan_->store()).check_unchanged(batch.tasks.sources);
  if (!status.ok()) report_.stop(std::move(status));
}

}  // namespace headrace::transfer

#include "transfer/context/staging.h"

#include <algorithm>
#include <exception>
#include <new>
#include <thread>

#include "base/checked.h"
#include "base/trace.h"

namespace headrace::transfer {

// Small enough to keep within a budget of a few MiB, large enough that reads of nearly one size share their slabs.
constexpr std::size_t kSlabUnit = std::size_t{64} << 10;

StagingSlot::~StagingSlot() {
  event.reset();
  copied.reset();
  stream.reset();
  if (pinned.data() != nullptr) device->deallocate_pinned(pinned.data(), pinned.size());
  if (on_device.data() != nullptr) device->deallocate(on_device.data(), on_device.size());
}

namespace {

using Slots = std::vector<std::unique_ptr<StagingSlot>>;

Status make(const std::shared_ptr<device::Device>& device, StagingPool::Bytes slabs,
            std::unique_ptr<StagingSlot>& made) {
  auto slot = std::make_unique<StagingSlot>();
  slot->device = device;
  const std::size_t pinned_bytes = base::align_up(std::max<std::size_t>(slabs.pinned, 1), kSlabUnit);
  const std::size_t device_bytes = base::align_up(std::max<std::size_t>(slabs.device, 1), kSlabUnit);
  trace::Span span(trace::Stage::kRegister, pinned_bytes);
  HEADRACE_TRY_ASSIGN(std::byte* const pinned, device->allocate_pinned(pinned_bytes));
  slot->pinned = {pinned, pinned_bytes};
  HEADRACE_TRY_ASSIGN(std::byte* const on_device, device->allocate(device_bytes));
  slot->on_device = {on_device, device_bytes};
  HEADRACE_TRY_ASSIGN(slot->stream, device->create_stream());
  HEADRACE_TRY_ASSIGN(slot->event, device->create_event());
  HEADRACE_TRY_ASSIGN(slot->copied, device->create_event());
  made = std::move(slot);
  return {};
}

// Pinning memory takes milliseconds, most of which can overlap.
Status make_all(const std::shared_ptr<device::Device>& device, StagingPool::Bytes slabs, Slots& slots, std::size_t from,
                const std::function<void()>& meanwhile) {
  std::vector<Status> statuses(slots.size());
  const auto make_one = [&](std::size_t i) {
    try {
      statuses[i] = make(device, slabs, slots[i]);
    } catch (const std::bad_alloc&) {
      statuses[i] = Status::out_of_memory();
    }
  };
  std::vector<std::thread> threads;
  try {
    threads.emplace_back(meanwhile);
    for (; from + 1 < slots.size(); ++from) threads.emplace_back(make_one, from);
  } catch (const std::exception&) {  // this thread makes the rest
  }
  for (; from < slots.size(); ++from) make_one(from);
  for (std::thread& thread : threads) thread.join();
  for (Status& status : statuses) HEADRACE_TRY(std::move(status));
  return {};
}

}  // namespace

Result<Slots> StagingPool::take(const std::shared_ptr<device::Device>& device, Bytes slabs, std::size_t count,
                                Bytes keep, const std::function<void()>& meanwhile) {
  Slots slots(count);
  std::size_t taken = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end() && taken < count;) {
      if ((*it)->device != device || (*it)->pinned.size() < slabs.pinned || (*it)->on_device.size() < slabs.device) {
        ++it;
        continue;
      }
      slots[taken++] = std::move(*it);
      it = free_.erase(it);
    }
    if (taken == count) return slots;
    std::erase_if(free_, [&](const auto& slot) {
      if (slot->device != device) return false;
      if (slot->pinned.size() > keep.pinned || slot->on_device.size() > keep.device) return true;
      keep.pinned -= slot->pinned.size();
      keep.device -= slot->on_device.size();
      return false;
    });
  }
  Status status = make_all(device, slabs, slots, taken, meanwhile);
  if (status.ok()) return slots;
  for (auto& slot : slots) {
    if (slot != nullptr) give(std::move(slot));
  }
  return status;
}

void StagingPool::give(std::unique_ptr<StagingSlot> slot) noexcept {
  std::lock_guard lock(mutex_);
  try {
    free_.push_back(std::move(slot));
  } catch (const std::bad_alloc&) {  // freed instead
  }
}

void StagingPool::trim() {
  std::lock_guard lock(mutex_);
  free_.clear();
}

}  // namespace headrace::transfer

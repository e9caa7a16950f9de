#include "transfer/staging.h"

#include <algorithm>

#include "base/checked.h"
#include "base/trace.h"

namespace headrace::transfer {

// Small enough to keep within a budget of a few MiB, large enough that reads of nearly one size share their slabs.
constexpr std::size_t kSlabUnit = std::size_t{64} << 10;

StagingSlot::~StagingSlot() {
  event.reset();
  copied.reset();
  stream.reset();
  if (pinned != nullptr) device->deallocate_pinned(pinned, pinned_bytes);
  if (on_device != nullptr) device->deallocate(on_device, device_bytes);
}

Result<std::unique_ptr<StagingSlot>> StagingPool::take(const std::shared_ptr<device::Device>& device,
                                                       std::size_t pinned_bytes, std::size_t device_bytes) {
  {
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if ((*it)->device != device || (*it)->pinned_bytes < pinned_bytes || (*it)->device_bytes < device_bytes) continue;
      auto slot = std::move(*it);
      free_.erase(it);
      return slot;
    }
    // What is free is too small: give its memory back before taking more.
    std::erase_if(free_, [&](const auto& slot) { return slot->device == device; });
  }
  auto slot = std::make_unique<StagingSlot>();
  slot->device = device;
  slot->pinned_bytes = base::align_up(std::max<std::size_t>(pinned_bytes, 1), kSlabUnit);
  slot->device_bytes = base::align_up(std::max<std::size_t>(device_bytes, 1), kSlabUnit);
  trace::Span span(trace::Stage::kRegister, slot->pinned_bytes);
  HEADRACE_TRY_ASSIGN(slot->pinned, device->allocate_pinned(slot->pinned_bytes));
  HEADRACE_TRY_ASSIGN(slot->on_device, device->allocate(slot->device_bytes));
  HEADRACE_TRY_ASSIGN(slot->stream, device->create_stream());
  HEADRACE_TRY_ASSIGN(slot->event, device->create_event());
  HEADRACE_TRY_ASSIGN(slot->copied, device->create_event());
  return slot;
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

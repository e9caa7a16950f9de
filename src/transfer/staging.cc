#include "transfer/staging.h"

#include <algorithm>

#include "base/checked.h"
#include "base/trace.h"

namespace headrace::transfer {

// Small enough to keep within a budget of a few MiB, large enough that reads of nearly one size share their slabs.
constexpr std::size_t kSlabUnit = std::size_t{64} << 10;

StagingSlot::~StagingSlot() {
  event.reset();
  stream.reset();
  if (pinned != nullptr) device->deallocate_pinned(pinned, bytes);
  if (on_device != nullptr) device->deallocate(on_device, bytes);
}

Result<std::unique_ptr<StagingSlot>> StagingPool::take(const std::shared_ptr<device::Device>& device,
                                                       std::size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if ((*it)->device != device || (*it)->bytes < bytes) continue;
      auto slot = std::move(*it);
      free_.erase(it);
      return slot;
    }
    // What is free is too small: give its memory back before taking more.
    std::erase_if(free_, [&](const auto& slot) { return slot->device == device; });
  }
  auto slot = std::make_unique<StagingSlot>();
  slot->device = device;
  slot->bytes = base::align_up(std::max<std::size_t>(bytes, 1), kSlabUnit);
  trace::Span span(trace::Stage::kRegister, slot->bytes);
  HEADRACE_TRY_ASSIGN(slot->pinned, device->allocate_pinned(slot->bytes));
  HEADRACE_TRY_ASSIGN(slot->on_device, device->allocate(slot->bytes));
  HEADRACE_TRY_ASSIGN(slot->stream, device->create_stream());
  HEADRACE_TRY_ASSIGN(slot->event, device->create_event());
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

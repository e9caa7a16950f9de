#include "transfer/files/part_pool.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kMaxParts = 4096;

}  // namespace

Status PartPool::open(std::shared_ptr<device::Device> device, std::size_t slab_bytes, bool staged) {
  slab_bytes_ = slab_bytes;
  parts_.resize(std::min<std::size_t>(kMaxParts, slab_bytes / kUnit));
  free_.reserve(parts_.size());
  for (FilePart& part : parts_) free_.push_back(&part);
  slots_.emplace(staged ? base::align_down(slab_bytes, kUnit) : 0);
  if (!staged) return {};
  HEADRACE_TRY_ASSIGN(slab_, device->allocate_pinned(slab_bytes));
  device_ = std::move(device);
  return {};
}

void PartPool::close() noexcept {
  if (device_ != nullptr) device_->deallocate_pinned(slab_, slab_bytes_);
  device_ = nullptr;
  slab_ = nullptr;
}

FilePart* PartPool::take(std::uint32_t request, std::uint64_t slot_bytes) noexcept {
  if (free_.empty()) return nullptr;
  std::uint64_t at = 0;
  if (slot_bytes != 0 && !slots_->allocate(slot_bytes, at)) return nullptr;
  FilePart* const part = free_.back();
  free_.pop_back();
  *part = FilePart();
  part->request = request;
  part->slot = slot_bytes != 0 ? slab_ + at : nullptr;
  part->slot_bytes = slot_bytes;
  return part;
}

bool PartPool::lend_slot(FilePart& part, std::uint64_t bytes) {
  if (slab_ == nullptr) {
    slab_ = unpinned_.reserve(slab_bytes_).data();
    if (slab_ != nullptr) slots_.emplace(base::align_down(slab_bytes_, kUnit));
  }
  bytes = base::align_up(bytes, kUnit);
  std::uint64_t at = 0;
  if (slab_ == nullptr || !slots_->allocate(bytes, at)) return false;
  part.slot = slab_ + at;
  part.slot_bytes = bytes;
  return true;
}

void PartPool::release_slot(FilePart& part) noexcept {
  if (part.slot != nullptr) slots_->release(static_cast<std::uint64_t>(part.slot - slab_), part.slot_bytes);
  part.slot = nullptr;
}

void PartPool::give_back(FilePart& part) noexcept {
  release_slot(part);
  part.window.reset();
  part.unmapped.reset();
  part.status = {};
  free_.push_back(&part);
}

}  // namespace headrace::transfer

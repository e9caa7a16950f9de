#include "loader/batch_ring.h"

#include <string>

#include "loader/sampling/sampling_parts.h"

namespace headrace {
namespace loader {

Status forked() {
  return Status(Code::kForked, Layer::kApi, "the loader belongs to the parent process; create one in this process");
}

Status Ring::release(Slot& slot, std::span<void* const> native_streams) {
  if (mutex.inherited()) return forked();
  Status status;
  bool wakes = false;
  {
    std::lock_guard lock(*mutex);
    for (void* const stream : native_streams) {
      if (const Status waits = device->wait_native(*gate, stream); status.ok()) status = waits;
    }
    slot.use = Slot::Use::kFree;
    wakes = has_wanted_locked();
  }
  if (wakes) changed->notify_all();
  return status;
}

}  // namespace loader

LoaderBatch::LoaderBatch() noexcept = default;
LoaderBatch::LoaderBatch(std::unique_ptr<Held> held) noexcept : held_(std::move(held)) {}
LoaderBatch::LoaderBatch(LoaderBatch&& other) noexcept = default;
LoaderBatch& LoaderBatch::operator=(LoaderBatch&& other) noexcept {
  if (this != &other) {
    release();
    held_ = std::move(other.held_);
  }
  return *this;
}
LoaderBatch::~LoaderBatch() { release(); }

TensorView LoaderBatch::tensor(std::size_t number) const {
  if (!held_ || held_->released || number >= held_->ring->layout.tensors().size()) return {};
  return held_->ring->layout.tensor(number, held_->slot->bytes());
}
Status LoaderBatch::copy_to_host(std::size_t number, std::size_t offset_bytes, std::byte* to, std::size_t bytes) const {
  const TensorView view = tensor(number);
  std::uint64_t size = view.dtype.item_bytes;
  for (const std::uint64_t extent : view.shape) size *= extent;
  if (view.memory.empty() || offset_bytes > size || bytes > size - offset_bytes) {
    return loader::refuse("tensor " + std::to_string(number) + " of a batch: " + std::to_string(bytes) + " bytes at " +
                          std::to_string(offset_bytes) + " are not in it");
  }
  return held_->slot->memory.copy_to_host(view.first_byte + offset_bytes, to, bytes);
}
std::span<const std::uint64_t> LoaderBatch::samples() const noexcept {
  return held_ ? std::span<const std::uint64_t>(held_->samples) : std::span<const std::uint64_t>();
}
std::uint64_t LoaderBatch::valid() const noexcept { return held_ ? held_->valid : 0; }
std::uint64_t LoaderBatch::epoch() const noexcept { return held_ ? held_->epoch : 0; }
std::uint64_t LoaderBatch::number() const noexcept { return held_ ? held_->number : 0; }
LoaderTiming LoaderBatch::timing() const noexcept { return held_ ? held_->timing : LoaderTiming(); }

void LoaderBatch::release() noexcept {
  if (!held_ || std::exchange(held_->released, true)) return;
  static_cast<void>(held_->ring->release(*held_->slot, {}));
}
Status LoaderBatch::release(std::span<void* const> native_streams) {
  if (!held_ || std::exchange(held_->released, true)) return {};
  return held_->ring->release(*held_->slot, native_streams);
}

}  // namespace headrace

#include "transfer/fetch/straight_reads.h"

#include <new>
#include <utility>

namespace headrace::transfer {

void reach_device(io::EngineOptions& options, device::Device& device) {
  options.to_device = true;
  options.begin_thread = [&device] { device.enter_thread(); };
}

bool StraightReads::repeats(const Status& status, Notes& notes) noexcept {
  if (status.ok() || status.code() == Code::kShort || status.code() == Code::kCancelled) return false;
  if (given_up_.exchange(true)) return true;
  try {
    notes.add(std::string("direct reads into device memory are disabled for this ") + user_ + ": ", status.to_string());
  } catch (const std::bad_alloc&) {  // only a remark
  }
  return true;
}

StraightService::StraightService(std::shared_ptr<device::Device> device, IoServiceOptions options)
    : device_(std::move(device)) {
  options.to_device = device_;
  options.slab_bytes = options.store_slab_bytes = 0;  // every job brings its place
  options.refused = &refused_;
  if (Result<std::unique_ptr<IoService>> made = IoService::create(options); made.ok()) {
    service_ = std::move(*made);
  } else {
    refused_ += made.status().to_string() + "\n";
  }
}

std::string StraightService::engine_name() const {
  return service_ != nullptr ? service_->engine().name : std::string();
}

bool StraightService::repeats(const Status& status) noexcept {
  if (status.ok()) return false;
  std::lock_guard lock(mutex_);
  return reads_.repeats(status, notes_);
}

std::string StraightService::report() const {
  const std::string into = "into memory of " + device_->info().name + ": ";
  if (service_ == nullptr) return into + refused_;
  std::lock_guard lock(mutex_);
  return into + service_->engine().name + ": " + service_->engine_features() + "\n" + notes_.text();
}

}  // namespace headrace::transfer

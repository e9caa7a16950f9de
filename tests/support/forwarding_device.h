// ForwardingDevice: a device that passes calls on to another, for tests that watch or change some of them. It makes no
// decoders, so the CPU decodes.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "device/device.h"

namespace headrace::testing {

class ForwardingDevice : public device::Device {
 public:
  explicit ForwardingDevice(std::shared_ptr<device::Device> real) : real_(std::move(real)) {}

  const device::DeviceInfo& info() const noexcept override { return real_->info(); }
  Result<std::byte*> allocate(std::size_t bytes) override { return real_->allocate(bytes); }
  void deallocate(std::byte* memory, std::size_t bytes) noexcept override { real_->deallocate(memory, bytes); }
  Result<std::byte*> allocate_pinned(std::size_t bytes) override { return real_->allocate_pinned(bytes); }
  void deallocate_pinned(std::byte* memory, std::size_t bytes) noexcept override {
    real_->deallocate_pinned(memory, bytes);
  }
  Result<std::unique_ptr<device::Stream>> create_stream() override { return real_->create_stream(); }
  Result<std::unique_ptr<device::Event>> create_event() override { return real_->create_event(); }
  Result<std::unique_ptr<device::Event>> create_timed_event() override { return real_->create_timed_event(); }
  void* native_handle(device::Stream& stream) override { return real_->native_handle(stream); }
  Status wait_native(device::Stream& stream, void* native) override { return real_->wait_native(stream, native); }
  Status copy_to_device(std::span<const device::Piece> pieces, device::Stream& stream) override {
    return real_->copy_to_device(pieces, stream);
  }
  Status copy_to_host(std::span<const device::Piece> pieces, device::Stream& stream) override {
    return real_->copy_to_host(pieces, stream);
  }
  Status assemble(std::span<const device::Box> boxes, const device::ElementOp& op, const std::byte* fill,
                  device::Stream& stream) override {
    return real_->assemble(boxes, op, fill, stream);
  }
  Status record(device::Event& event, device::Stream& stream) override { return real_->record(event, stream); }
  Result<double> seconds_between(device::Event& first, device::Event& second) override {
    return real_->seconds_between(first, second);
  }
  Result<bool> query(device::Event& event) override { return real_->query(event); }
  Status synchronize(device::Event& event) override { return real_->synchronize(event); }

 protected:
  const std::shared_ptr<device::Device> real_;
};

}  // namespace headrace::testing

// headrace::Device and headrace::Buffer over the device back ends.
#include <headrace/device.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/access.h"
#include "device/device.h"

namespace headrace {

Result<Device> Device::open(std::string_view name) {
  try {
    HEADRACE_TRY_ASSIGN(auto impl, device::open_device(name));
    return Device(std::move(impl));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<std::vector<std::string>> device_names() {
  try {
    std::vector<std::string> names;
    for (const device::DeviceRow& row : device::devices()) {
      const Result<int> count = row.count();
      for (int i = 0; count.ok() && i < *count; ++i) {
        names.push_back(device::is_host(row) ? row.kind : row.kind + (":" + std::to_string(i)));
      }
    }
    return names;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

const std::string& Device::name() const noexcept { return impl_->info().name; }
const std::string& Device::description() const noexcept { return impl_->info().description; }
const std::string& Device::note() const noexcept { return impl_->note(); }
bool Device::host_addressable() const noexcept { return impl_->info().host_addressable; }

Result<Buffer> Buffer::allocate(const Device& device, std::size_t bytes) {
  HEADRACE_TRY_ASSIGN(std::byte * memory, Access::impl(device)->allocate(bytes));
  Buffer buffer;
  buffer.device_ = Access::impl(device);
  buffer.data_ = memory;
  buffer.size_bytes_ = bytes;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::move(other.device_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) device_->deallocate(data_, size_bytes_);
}

Status Buffer::copy_to_host(std::size_t offset_bytes, std::byte* dst, std::size_t bytes) const {
  if (offset_bytes > size_bytes_ || bytes > size_bytes_ - offset_bytes) {
    return Status(Code::kInvalidArgument, Layer::kDevice, "copy_to_host beyond the end of the buffer")
        .with_range(offset_bytes, bytes);
  }
  if (bytes == 0) return {};
  HEADRACE_TRY_ASSIGN(auto stream, device_->create_stream());
  HEADRACE_TRY_ASSIGN(auto event, device_->create_event());
  const device::Piece piece{data_ + offset_bytes, dst, bytes};
  HEADRACE_TRY(device_->copy_to_host({&piece, 1}, *stream));
  HEADRACE_TRY(device_->record(*event, *stream));
  return device_->synchronize(*event);
}

Status Buffer::copy_from_host(std::size_t offset_bytes, const std::byte* src, std::size_t bytes) {
  if (offset_bytes > size_bytes_ || bytes > size_bytes_ - offset_bytes) {
    return Status(Code::kInvalidArgument, Layer::kDevice, "copy_from_host beyond the end of the buffer")
        .with_range(offset_bytes, bytes);
  }
  if (bytes == 0) return {};
  HEADRACE_TRY_ASSIGN(auto stream, device_->create_stream());
  HEADRACE_TRY_ASSIGN(auto event, device_->create_event());
  // Devices copy only from pinned memory, so ordinary memory goes through a pinned buffer.
  const std::size_t piece_bytes = std::min(bytes, std::size_t{8} << 20);
  HEADRACE_TRY_ASSIGN(std::byte * pinned, device_->allocate_pinned(piece_bytes));
  Status status;
  for (std::size_t at = 0; status.ok() && at < bytes; at += piece_bytes) {
    const device::Piece piece{pinned, data_ + offset_bytes + at, std::min(piece_bytes, bytes - at)};
    std::memcpy(pinned, src + at, piece.bytes);
    status = device_->copy_to_device({&piece, 1}, *stream);
    if (status.ok()) status = device_->record(*event, *stream);
    if (status.ok()) status = device_->synchronize(*event);
  }
  device_->deallocate_pinned(pinned, piece_bytes);
  return status;
}

}  // namespace headrace

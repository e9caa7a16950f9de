// Device memory owned by a Python object, and its export to other libraries.
#pragma once

#include <headrace/device.h>
#include <headrace/status.h>

#include <cstddef>
#include <utility>

namespace headrace::python {

// Threads: call with the GIL held.
class MemoryOnDevice {
 public:
  MemoryOnDevice(Device on, std::byte* first, std::size_t bytes)
      : device_(std::move(on)), data_(first), bytes_(bytes) {}
  virtual ~MemoryOnDevice() = default;
  MemoryOnDevice(const MemoryOnDevice&) = delete;
  MemoryOnDevice& operator=(const MemoryOnDevice&) = delete;

  const Device& device() const noexcept { return device_; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return bytes_; }
  // Blocks. Call without the GIL.
  virtual Status copy_to_host(std::size_t offset_bytes, std::byte* to, std::size_t bytes) const = 0;
  // Notes that work queued on a native stream uses the memory; it must finish before the memory is reused.
  virtual void used_on(void* /*native_stream*/) {}

 private:
  const Device device_;
  std::byte* const data_;
  const std::size_t bytes_;
};

// Device memory that the Python object owns.
class DeviceMemory final : public MemoryOnDevice {
 public:
  // Constructor and destructor release the GIL while the device works.
  DeviceMemory(const Device& on, std::size_t bytes);
  ~DeviceMemory() override;
  Status copy_to_host(std::size_t offset_bytes, std::byte* to, std::size_t bytes) const override {
    return buffer_.copy_to_host(offset_bytes, to, bytes);
  }

 private:
  DeviceMemory(const Device& on, Buffer buffer)
      : MemoryOnDevice(on, buffer.data(), buffer.size_bytes()), buffer_(std::move(buffer)) {}
  Buffer buffer_;
};

}  // namespace headrace::python

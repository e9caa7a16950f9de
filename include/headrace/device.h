// Device: where tensors live. Buffer: memory on a device.
//
// "auto" is the first CUDA device, or the host if there is none; "host", "cuda" and "cuda:1" name one. Without a GPU
// everything works on the host device with the same results. "host-staged" is the host simulating a discrete device:
// the copy and assemble stages run as they would for a GPU.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

namespace device {
class Device;
}

class HEADRACE_API Device {
 public:
  static Result<Device> open(std::string_view name = "auto");  // device_names() lists the names valid here

  const std::string& name() const noexcept;  // "host", "cuda:0"
  const std::string& description() const noexcept;
  // Why "auto" chose no GPU, or that the driver has yet to compile code for this GPU at its first use; otherwise empty.
  const std::string& note() const noexcept;
  bool host_addressable() const noexcept;  // whether the CPU can dereference pointers to this device's memory

 private:
  friend struct Access;
  explicit Device(std::shared_ptr<device::Device> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<device::Device> impl_;
};

// The devices of this machine that can be used now, by the names that Device::open() takes: "host", "host-staged",
// "cuda:0". Initialises the GPU drivers. kResourceExhausted: out of memory.
HEADRACE_API Result<std::vector<std::string>> device_names();

// Memory on a device. Movable; freed by the destructor, which must not run before every read into it has completed.
class HEADRACE_API Buffer {
 public:
  static Result<Buffer> allocate(const Device& device, std::size_t bytes);
  Buffer() noexcept = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }
  // Blocking copies between this buffer and ordinary host memory.
  Status copy_to_host(std::size_t offset_bytes, std::byte* dst, std::size_t bytes) const;
  Status copy_from_host(std::size_t offset_bytes, const std::byte* src, std::size_t bytes);

 private:
  std::shared_ptr<device::Device> device_;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace headrace

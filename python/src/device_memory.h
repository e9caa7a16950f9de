// DeviceMemory: memory on a device, owned by a Python object.
#pragma once

#include <headrace/device.h>

#include <cstddef>

namespace headrace::python {

struct DeviceMemory {
  // REQUIRES: the GIL is held, here and on destruction; it is given up while the device works.
  DeviceMemory(const Device& on, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Device device;
  Buffer buffer;
};

}  // namespace headrace::python

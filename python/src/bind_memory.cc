// Bindings of device memory, and its export to other libraries.
#include <headrace/device.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bind.h"
#include "device_memory.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {

DeviceMemory::DeviceMemory(const Device& on, std::size_t bytes)
    : DeviceMemory(on, take(without_gil([&] { return Buffer::allocate(on, bytes); }))) {}

DeviceMemory::~DeviceMemory() {
  // Freeing waits for the device, so other threads may run meanwhile.
  const ReleasedGil released;
  buffer_ = Buffer();
}

namespace {

// "cuda:1" -> {2, 1}; the host, including a simulated GPU, is {1, 0}.
std::pair<int, int> dlpack_device(const Device& device) {
  const std::string& name = device.name();
  if (device.host_addressable() || name.rfind("cuda", 0) != 0) return {nb::device::cpu::value, 0};
  const std::size_t colon = name.find(':');
  return {nb::device::cuda::value, colon == std::string::npos ? 0 : std::stoi(name.substr(colon + 1))};
}

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<MemoryOnDevice>(module, "MemoryOnDevice")
      .def_prop_ro("pointer",
                   [](const MemoryOnDevice& memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); })
      .def_prop_ro("bytes", &MemoryOnDevice::size_bytes)
      .def_prop_ro("device", [](const MemoryOnDevice& memory) { return memory.device(); })
      .def_prop_ro("dlpack_device",
                   [](const MemoryOnDevice& memory) {
                     const auto [type, index] = dlpack_device(memory.device());
                     return nb::make_tuple(type, index);
                   })
      .def(
          "copy_to_host",
          [](const MemoryOnDevice& memory, std::uintptr_t to, std::size_t offset, std::size_t bytes) {
            check(without_gil([&] { return memory.copy_to_host(offset, reinterpret_cast<std::byte*>(to), bytes); }));
          },
          "to"_a, "offset"_a, "bytes"_a)
      .def(
          "exported",
          [](nb::handle self, const std::vector<std::size_t>& shape, int code, int bits) {
            const auto& memory = nb::cast<const MemoryOnDevice&>(self);
            const auto [type, index] = dlpack_device(memory.device());
            const nb::dlpack::dtype dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
            return nb::ndarray<nb::array_api>(memory.data(), shape.size(), shape.data(), self, nullptr, dtype, type,
                                              index);
          },
          "shape"_a, "code"_a, "bits"_a, nb::rv_policy::reference,
          "An object with __dlpack__ over this memory in C order; it keeps the memory alive.")
      .def(
          "used_on",
          [](MemoryOnDevice& memory, std::uintptr_t stream) { memory.used_on(reinterpret_cast<void*>(stream)); },
          "stream"_a);
  nb::class_<DeviceMemory, MemoryOnDevice>(module, "DeviceMemory")
      .def(nb::init<const Device&, std::size_t>(), "device"_a, "bytes"_a);
}

}  // namespace headrace::python

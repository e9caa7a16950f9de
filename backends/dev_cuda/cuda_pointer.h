// Tells what kind of memory an address is in, by asking the driver that the program itself has loaded.
#pragma once

#include "device/device.h"

namespace headrace::device::cuda {

// Needs no current context and creates none. Reports host memory if the driver is not loaded or not initialised.
MemoryPlace locate_pointer(const void* address) noexcept;

}  // namespace headrace::device::cuda

// What memory an address is in, asked of the driver that the program has loaded itself.
#pragma once

#include "device/device.h"

namespace headrace::device::cuda {

// Needs no current context and makes none. Host memory where the driver is not loaded or not started.
MemoryPlace locate_pointer(const void* address) noexcept;

}  // namespace headrace::device::cuda

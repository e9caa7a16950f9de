// An NVIDIA GPU, through the runtime and its primary context, which it shares with the rest of the program.
#pragma once

#include <memory>

#include "device/device.h"

namespace headrace::device::cuda {

Status count_devices(int& devices);
Status open_device_number(int index, std::shared_ptr<Device>& device);

}  // namespace headrace::device::cuda

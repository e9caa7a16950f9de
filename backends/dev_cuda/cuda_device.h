// An NVIDIA GPU, used through the CUDA runtime and the GPU's primary context, which the rest of the program shares.
#pragma once

#include <memory>

#include "device/device.h"

namespace headrace::device::cuda {

Status count_devices(int& devices);
Status open_device_number(int index, std::shared_ptr<Device>& device);

}  // namespace headrace::device::cuda

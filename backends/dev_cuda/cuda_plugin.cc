#include "cuda_device.h"
#include "cuda_pointer.h"
#include "nvtx_ranges.h"
#include "plugin_abi.h"

extern "C" __attribute__((visibility("default"))) const headrace::device::CudaPlugin* headrace_cuda_plugin() {
  static const headrace::device::CudaPlugin plugin = [] {
    headrace::device::CudaPlugin table;
    table.count = &headrace::device::cuda::count_devices;
    table.open = &headrace::device::cuda::open_device_number;
    table.locate = &headrace::device::cuda::locate_pointer;
    table.ranges = headrace::device::cuda::nvtx_ranges();
    return table;
  }();
  return &plugin;
}

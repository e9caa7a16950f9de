#include "cuda_device.h"
#include "cuda_pointer.h"
#include "nvtx_ranges.h"
#include "plugin_abi.h"

// The build id as an ELF note, which the library reads before it runs any code of this file: plugin_file.h.
asm(R"(
  .pushsection .note.headrace, "a", @note
  .balign 4
  .long 2f - 1f, 4f - 3f, 1
1: .asciz "headrace"
2: .balign 4
3: .asciz ")" HEADRACE_PLUGIN_BUILD_ID R"("
4: .balign 4
  .popsection
)");

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

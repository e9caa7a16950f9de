// The interface between the library and the CUDA plug-in.
//
// The plug-in exports one C function. The table it returns begins with two words whose meaning never changes, so that
// any mismatched pair is detected. The rest is C++ and is used only if both sides were built from the same interface
// headers with the same compiler (the build id).
#pragma once

#include <cstdint>
#include <memory>

#include "base/range_sink.h"
#include "device/device.h"

namespace headrace::device {

inline constexpr std::uint32_t kCudaPluginAbi = 1;
inline constexpr const char* kCudaPluginFile = "libheadrace_cuda.so";
inline constexpr const char* kCudaPluginEntry = "headrace_cuda_plugin";

struct CudaPlugin {
  std::uint32_t abi = kCudaPluginAbi;
  std::uint32_t table_bytes = sizeof(CudaPlugin);
  const char* build_id = HEADRACE_PLUGIN_BUILD_ID;
  Status (*count)(int& devices) = nullptr;
  Status (*open)(int index, std::shared_ptr<Device>& device) = nullptr;
  MemoryPlace (*locate)(const void* address) noexcept = nullptr;
  const trace::RangeSink* ranges = nullptr;  // null: no profiler is attached
};

using CudaPluginEntry = const CudaPlugin* (*)();

}  // namespace headrace::device

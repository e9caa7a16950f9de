// Loads the CUDA plug-in when a GPU is first requested, so that a program needs no NVIDIA library to start.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>

#include "plugin_abi.h"
#include "plugin_file.h"

namespace headrace::device {

Result<std::shared_ptr<Device>> open_cuda(int index);
Result<int> count_cuda();
MemoryPlace locate_cuda(const void* address) noexcept;
bool cuda_in_use() noexcept;

namespace {

struct Loaded {
  const CudaPlugin* plugin = nullptr;
  Status failure;
};

Status refuse(Code code, std::string message) { return Status(code, Layer::kDevice, std::move(message)); }

Status check(const CudaPlugin* plugin, const std::string& file) {
  if (plugin == nullptr) return refuse(Code::kInternal, "the CUDA plug-in " + file + " returned no table");
  if (plugin->abi != kCudaPluginAbi || plugin->table_bytes != sizeof(CudaPlugin)) {
    return refuse(Code::kUnsupported, "the CUDA plug-in " + file + " has interface version " +
                                          std::to_string(plugin->abi) + ", this library needs " +
                                          std::to_string(kCudaPluginAbi) + ": install both from one build");
  }
  if (std::string_view(plugin->build_id) != HEADRACE_PLUGIN_BUILD_ID) {
    return refuse(Code::kUnsupported, "the CUDA plug-in " + file + " was built as '" + plugin->build_id +
                                          "', this library as '" HEADRACE_PLUGIN_BUILD_ID
                                          "': install both from one build");
  }
  return {};
}

// Reads the build id before any code of the file runs. Never unloaded: devices and their threads use the plug-in's
// code.
Result<const CudaPlugin*> load_file(const std::string& file) {
  HEADRACE_TRY_ASSIGN(const std::string path, check_plugin_file(file, HEADRACE_PLUGIN_BUILD_ID));
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return refuse(Code::kUnsupported, path + ": " + (why != nullptr ? why : "unknown reason"));
  }
  auto entry = reinterpret_cast<CudaPluginEntry>(dlsym(handle, kCudaPluginEntry));
  if (entry == nullptr) return refuse(Code::kUnsupported, path + " has no function " + kCudaPluginEntry);
  const CudaPlugin* plugin = entry();
  HEADRACE_TRY(check(plugin, path));
  return plugin;
}

Loaded load() {
  Loaded out;
  std::string looked, refused;
  for (const PluginPlace& place : plugin_places()) {
    looked += (looked.empty() ? "" : ", ") + place.directory;
    const std::string file = place.directory + "/" + kCudaPluginFile;
    if (file[0] == '/' && access(file.c_str(), F_OK) != 0) continue;
    auto plugin = load_file(file);
    if (plugin.ok()) {
      out.plugin = *plugin;
      trace::set_range_sink(out.plugin->ranges);
      return out;
    }
    refused += (refused.empty() ? "" : "; ") + plugin.status().to_string();
    if (place.named_by_user) break;
  }
  if (!refused.empty()) {
    out.failure = refuse(Code::kUnsupported, "the CUDA plug-in cannot be loaded").with_cause(refused);
  } else {
    out.failure = refuse(Code::kUnsupported, std::string("the CUDA plug-in ") + kCudaPluginFile +
                                                 " was not found; set HEADRACE_PLUGIN_DIR. Looked in: " + looked);
  }
  return out;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

Result<int> count_cuda() {
  try {
    if (loaded().plugin == nullptr) return loaded().failure;
    int devices = 0;
    HEADRACE_TRY(loaded().plugin->count(devices));
    return devices;
  } catch (...) {
    return Status::out_of_memory();
  }
}

// No device memory can exist before the program has loaded the driver; until then the plug-in is not loaded.
bool cuda_in_use() noexcept {
  static const bool possible = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
  if (!possible) return false;
  static std::atomic<bool> driver_loaded{false};
  if (driver_loaded.load(std::memory_order_relaxed)) return true;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  dlclose(driver);
  driver_loaded.store(true, std::memory_order_relaxed);
  return true;
}

MemoryPlace locate_cuda(const void* address) noexcept {
  if (!cuda_in_use()) return {};
  try {
    const CudaPlugin* plugin = loaded().plugin;
    return plugin != nullptr && plugin->locate != nullptr ? plugin->locate(address) : MemoryPlace();
  } catch (...) {
    return {};
  }
}

Result<std::shared_ptr<Device>> open_cuda(int index) {
  try {
    if (loaded().plugin == nullptr) return loaded().failure;
    std::shared_ptr<Device> device;
    HEADRACE_TRY(loaded().plugin->open(index, device));
    return device;
  } catch (...) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::device

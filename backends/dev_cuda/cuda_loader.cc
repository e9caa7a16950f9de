// Finds the CUDA plug-in when a GPU is first asked for, so that a program needs no NVIDIA library to start.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "plugin_abi.h"

namespace headrace::device {

Result<std::shared_ptr<Device>> open_cuda(int index);
Result<int> count_cuda();
MemoryPlace locate_cuda(const void* address) noexcept;
bool cuda_in_use() noexcept;

namespace {

void add_unique(std::vector<std::string>& list, std::string directory) {
  for (const std::string& known : list) {
    if (known == directory) return;
  }
  list.push_back(std::move(directory));
}

void add_around(std::vector<std::string>& list, std::string_view file) {
  const auto slash = file.rfind('/');
  if (slash == std::string_view::npos) return;
  const std::string directory(file.substr(0, slash));
  add_unique(list, directory);
  add_unique(list, directory + "/headrace");
  add_unique(list, directory + "/..");
  add_unique(list, directory + "/../lib");
  add_unique(list, directory + "/../lib/headrace");
}

std::vector<std::string> search_directories() {
  std::vector<std::string> list;
  // Not for set-user-id programs: there the environment belongs to somebody else.
  if (const char* named = secure_getenv("HEADRACE_PLUGIN_DIR"); named != nullptr && named[0] != '\0') {
    add_unique(list, named);
  }
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&count_cuda), &self) != 0 && self.dli_fname != nullptr) {
    char resolved[PATH_MAX];
    add_around(list, realpath(self.dli_fname, resolved) != nullptr ? resolved : self.dli_fname);
  }
  char program[PATH_MAX];
  if (const ssize_t n = readlink("/proc/self/exe", program, sizeof program);
      n > 0 && n < static_cast<ssize_t>(sizeof program)) {
    add_around(list, std::string_view(program, static_cast<std::size_t>(n)));
  }
  add_unique(list, HEADRACE_PLUGIN_INSTALL_DIR);
  add_unique(list, std::string(HEADRACE_PLUGIN_INSTALL_DIR) + "/headrace");
  return list;
}

struct Loaded {
  const CudaPlugin* plugin = nullptr;
  Status failure;
};

Status refuse(Code code, std::string message) { return Status(code, Layer::kDevice, std::move(message)); }

Status check(const CudaPlugin* plugin, const std::string& file) {
  if (plugin == nullptr) return refuse(Code::kInternal, "the CUDA plug-in " + file + " gave no table");
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

Loaded load() {
  Loaded out;
  std::string looked, broken;
  for (const std::string& directory : search_directories()) {
    const std::string file = directory + "/" + kCudaPluginFile;
    if (access(file.c_str(), F_OK) != 0) {
      looked += (looked.empty() ? "" : ", ") + directory;
      continue;
    }
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = dlerror();
      broken = file + ": " + (why != nullptr ? why : "unknown reason");
      break;
    }
    // Kept for good: devices and their threads hold code of the plug-in.
    auto entry = reinterpret_cast<CudaPluginEntry>(dlsym(handle, kCudaPluginEntry));
    if (entry == nullptr) {
      broken = file + " has no function " + kCudaPluginEntry;
      break;
    }
    const CudaPlugin* plugin = entry();
    out.failure = check(plugin, file);
    if (out.failure.ok()) {
      out.plugin = plugin;
      trace::set_range_sink(plugin->ranges);
    }
    return out;
  }
  if (!broken.empty()) {
    out.failure = refuse(Code::kUnsupported, "the CUDA plug-in cannot be loaded").with_cause(broken);
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

// Nobody has device memory before the program has loaded the driver itself: until then the plug-in is not looked for.
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

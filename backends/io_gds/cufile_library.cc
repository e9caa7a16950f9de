#include "cufile_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "os/file_handle.h"
#include "os/file_read.h"
#include "os/trusted_path.h"

namespace headrace::io::gds {
namespace {

constexpr const char* kFile = "libcufile.so.0";
constexpr const char* kFolders[] = {"/usr/local/cuda/lib64",      "/usr/local/cuda/targets/x86_64-linux/lib",
                                    "/usr/lib/x86_64-linux-gnu",  "/usr/local/cuda/targets/sbsa-linux/lib",
                                    "/usr/lib/aarch64-linux-gnu", "/usr/lib64"};
// A variable that only headrace's own library reads.
constexpr std::string_view kOwnMark = "HEADRACE_CUFILE_ENGINE";
constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;  // many times the library's size

Status refuse(Code code, std::string message) { return Status(code, Layer::kIo, std::move(message)); }

// Whether the file is headrace's own libcufile; found without running it.
Result<bool> is_own(const std::string& path) {
  os::FileHandle file;
  HEADRACE_TRY(os::FileHandle::open(path, {}, file));
  std::uint64_t bytes = 0;
  HEADRACE_TRY(file.size(bytes));
  if (bytes > kMaxBytes) return refuse(Code::kUnsupported, path + " is too large for a libcufile");
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  HEADRACE_TRY(os::read_exactly(file.fd(), 0, content));
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  const auto found = std::search(text.begin(), text.end(), std::boyer_moore_searcher(kOwnMark.begin(), kOwnMark.end()));
  return found != text.end();
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<CufileLibrary> load(const std::string& file, bool named) {
  HEADRACE_TRY_ASSIGN(const std::string path, os::resolve_trusted(file));
  if (!named) {
    HEADRACE_TRY_ASSIGN(const bool own, is_own(path));
    if (own) return refuse(Code::kNotFound, path + " is headrace's own");
  }
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return refuse(Code::kUnsupported, path + " cannot be loaded: " + (why != nullptr ? why : "unknown reason"));
  }
  CufileLibrary out;
  out.path = path;
  out.named = named;
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& function) {
    if (!find(library, name, function)) missing = name;
  };
  need("cuFileDriverOpen", out.driver_open);
  need("cuFileDriverGetProperties", out.get_properties);
  need("cuFileHandleRegister", out.register_handle);
  need("cuFileHandleDeregister", out.deregister_handle);
  need("cuFileBufRegister", out.register_buffer);
  need("cuFileBufDeregister", out.deregister_buffer);
  need("cuFileRead", out.read);
  need("cuFileWrite", out.write);
  if (missing != nullptr) {
    return refuse(Code::kUnsupported, path + " has no function " + missing + ": it is not a libcufile, or too old");
  }
  (void)find(library, "cuFileGetVersion", out.get_version);
  (void)find(library, "cuFileGetParameterBool", out.get_bool);
  return out;
}

// The file of the libcufile that the program has loaded, perhaps from a directory of its own; empty if there is none.
std::string loaded_file() {
  void* library = ::dlopen(kFile, RTLD_LAZY | RTLD_NOLOAD);  // does not search directories
  if (library == nullptr) return {};
  link_map* map = nullptr;
  std::string path;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) path = map->l_name;
  ::dlclose(library);
  return path;
}

}  // namespace

Result<CufileLibrary> load_cufile_library() {
  const std::string code = os::own_code_path();
  if (code.substr(code.rfind('/') + 1).starts_with("libcufile.so")) {
    return refuse(Code::kUnsupported, "this code is a libcufile itself");
  }
  // Ignored in set-user-id programs, whose environment is not trusted.
  if (const char* named = ::secure_getenv("HEADRACE_GDS_LIBRARY"); named != nullptr && named[0] != '\0') {
    auto library = load(named, true);
    if (library.ok()) return library;
    return refuse(library.status().code(), "HEADRACE_GDS_LIBRARY cannot be used")
        .with_cause(library.status().to_string());
  }
  std::vector<std::string> files;
  if (std::string loaded = loaded_file(); !loaded.empty()) files.push_back(std::move(loaded));
  for (const char* folder : kFolders) {
    std::string file = std::string(folder) + "/" + kFile;
    if (::access(file.c_str(), F_OK) == 0) files.push_back(std::move(file));
  }
  Status first;
  for (const std::string& file : files) {
    auto library = load(file, false);
    if (library.ok()) return library;
    if (first.ok()) first = std::move(library).status();
  }
  if (!first.ok()) return first;
  return refuse(Code::kNotFound, std::string("NVIDIA's ") + kFile +
                                     " was not found in the usual places; name it by HEADRACE_GDS_LIBRARY");
}

}  // namespace headrace::io::gds

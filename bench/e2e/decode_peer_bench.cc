#include "decode_peer_bench.h"

#include <dlfcn.h>

namespace headrace::bench {

bool NvcompLz4::load(const std::string& path, std::string& why) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = dlerror();
    return false;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) why = std::string("no ") + name + " in " + path;
    return function != nullptr;
  };
  return find(properties_, "nvcompGetProperties") && find(workspace_, "nvcompBatchedLZ4DecompressGetTempSize") &&
         find(decode_, "nvcompBatchedLZ4DecompressAsync");
}

std::string NvcompLz4::version() const {
  Properties properties;
  if (properties_ == nullptr || properties_(&properties) != 0) return "unknown";
  return std::to_string(properties.version);
}

bool NvcompLz4::workspace(std::size_t chunks, std::size_t chunk_bytes, std::size_t& bytes, cudaStream_t stream,
                          std::string& why) const {
  const int status = workspace_(chunks, chunk_bytes, Options{}, &bytes, chunks * chunk_bytes, stream);
  if (status != 0) why = "nvCOMP's status " + std::to_string(status);
  return status == 0;
}

int NvcompLz4::decode(const void* const* src, const std::size_t* src_bytes, const std::size_t* dst_bytes,
                      std::size_t* produced, std::size_t chunks, void* workspace, std::size_t workspace_bytes,
                      void* const* dst, int* statuses, cudaStream_t stream) const {
  return decode_(src, src_bytes, dst_bytes, produced, chunks, workspace, workspace_bytes, dst, Options{}, statuses,
                 stream);
}

}  // namespace headrace::bench

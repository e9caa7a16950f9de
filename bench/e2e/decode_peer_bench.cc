#include "decode_peer_bench.h"

#include <dlfcn.h>

namespace headrace::bench {

bool NvcompDecoder::load(const std::string& path, const std::string& format, std::string& why) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = dlerror();
    return false;
  }
  const auto find = [&](auto& function, const std::string& name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name.c_str()));
    if (function == nullptr) why = "no " + name + " in " + path;
    return function != nullptr;
  };
  return find(properties_, "nvcompGetProperties") &&
         find(workspace_, "nvcompBatched" + format + "DecompressGetTempSize") &&
         find(decode_, "nvcompBatched" + format + "DecompressAsync");
}

std::string NvcompDecoder::version() const {
  Properties properties;
  if (properties_ == nullptr || properties_(&properties) != 0) return "unknown";
  return std::to_string(properties.version);
}

bool NvcompDecoder::workspace(std::size_t chunks, std::size_t chunk_bytes, std::size_t& bytes, cudaStream_t stream,
                              std::string& why) const {
  const int status = workspace_(chunks, chunk_bytes, Options{}, &bytes, chunks * chunk_bytes, stream);
  if (status != 0) why = "nvCOMP's status " + std::to_string(status);
  return status == 0;
}

int NvcompDecoder::decode(const void* const* src, const std::size_t* src_bytes, const std::size_t* dst_bytes,
                          std::size_t* produced, std::size_t chunks, void* workspace, std::size_t workspace_bytes,
                          void* const* dst, int* statuses, cudaStream_t stream) const {
  return decode_(src, src_bytes, dst_bytes, produced, chunks, workspace, workspace_bytes, dst, Options{}, statuses,
                 stream);
}

}  // namespace headrace::bench

// nvCOMP's batched decoders, loaded at run time: what decode_bench is compared with. None of its files are needed to
// build; the few functions are declared here as NVIDIA's public documentation of version 6 gives them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace headrace::bench {

class NvcompDecoder {
 public:
  // `format` as its functions have it: "LZ4", "Zstd", "Deflate", "Gzip". False, with `why`, where the library or one of
  // them is missing.
  bool load(const std::string& path, const std::string& format, std::string& why);
  std::string version() const;
  // Bytes of workspace, or an error text in `why`.
  bool workspace(std::size_t chunks, std::size_t chunk_bytes, std::size_t& bytes, cudaStream_t stream,
                 std::string& why) const;
  // All arrays are in device memory. Returns nvCOMP's status, 0 is success.
  int decode(const void* const* src, const std::size_t* src_bytes, const std::size_t* dst_bytes, std::size_t* produced,
             std::size_t chunks, void* workspace, std::size_t workspace_bytes, void* const* dst, int* statuses,
             cudaStream_t stream) const;

 private:
  // The options are a back end (0: its own choice), whether to sort for the hardware engine, and room, 64 bytes in all.
  struct Options {
    int backend = 0;
    int sort = 0;
    char reserved[56] = {};
  };
  static_assert(sizeof(Options) == 64);
  struct Properties {
    std::uint32_t version = 0, cudart_version = 0;
    std::uint32_t room[14] = {};
  };
  int (*properties_)(Properties*) = nullptr;
  int (*workspace_)(std::size_t, std::size_t, Options, std::size_t*, std::size_t, cudaStream_t) = nullptr;
  int (*decode_)(const void* const*, const std::size_t*, const std::size_t*, std::size_t*, std::size_t, void*,
                 std::size_t, void* const*, Options, int*, cudaStream_t) = nullptr;
};

}  // namespace headrace::bench

// nvCOMP's batched decoders, loaded at run time, as the comparison for decode_bench. Building needs none of its files:
// the functions used are declared here according to NVIDIA's public documentation of version 6.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace headrace::bench {

class NvcompDecoder {
 public:
  // `format` as in its function names: "LZ4", "Zstd", "Deflate", "Gzip". Returns false and sets `why` if the library or
  // a function is missing.
  bool load(const std::string& path, const std::string& format, std::string& why);
  std::string version() const;
  // Sets `bytes` to the workspace size; on failure returns false and sets `why`.
  bool workspace(std::size_t chunks, std::size_t chunk_bytes, std::size_t& bytes, cudaStream_t stream,
                 std::string& why) const;
  // All arrays are in device memory. Returns nvCOMP's status; 0 is success.
  int decode(const void* const* src, const std::size_t* src_bytes, const std::size_t* dst_bytes, std::size_t* produced,
             std::size_t chunks, void* workspace, std::size_t workspace_bytes, void* const* dst, int* statuses,
             cudaStream_t stream) const;

 private:
  // nvCOMP's options: a back end (0: automatic), whether to sort for the hardware engine, and padding to 64 bytes.
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

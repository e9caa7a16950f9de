// The zstd codecs of numcodecs and Zarr on the GPU: a chunk is one stream.
#include <memory>
#include <new>

#include "codecs/lz77/lz77_stage.cuh"
#include "zstd_stage_device.cuh"

namespace headrace::codec::gpu {

// Takes no parameters.
std::unique_ptr<device::gpu::GpuCodec> make_zstd_stage(const device::DecodeStage& stage) {
  using Stage = lz77::StreamStage<ZstdFormat>;
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) Stage({}, stage.exact));
}

}  // namespace headrace::codec::gpu

// gzip and zlib on the GPU: a chunk is one stream, which for gzip may have several members.
#include <memory>
#include <new>

#include "codecs/lz77/lz77_stage.cuh"
#include "deflate_stage_device.cuh"

namespace headrace::codec::gpu {

// parameters[0]: a DeflateKind.
std::unique_ptr<device::gpu::GpuCodec> make_deflate_stage(const device::DecodeStage& stage) {
  using Stage = lz77::StreamStage<DeflateFormat>;
  const auto kind = stage.parameters[0] == 0 ? DeflateKind::kGzip : DeflateKind::kZlib;
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) Stage({kind}, stage.exact));
}

}  // namespace headrace::codec::gpu

// ChunkDecoder on CUDA: runs the stages that codecs registered, one after the other on one stream.
#pragma once

#include <memory>
#include <span>

#include "cuda_error.h"
#include "decode_graphs.h"
#include "device/decode.h"

namespace headrace::device::cuda {

// kUnsupported names the first stage without device code. `health` and `graphs` must outlive the decoder.
Result<std::unique_ptr<ChunkDecoder>> make_cuda_decoder(std::span<const DecodeStage> stages, const Health& health,
                                                        DecodeGraphs& graphs, int ordinal, int multiprocessors);

}  // namespace headrace::device::cuda

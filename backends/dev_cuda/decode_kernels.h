// The kernel between two stages of a chain; plain C++, for the rest of the plug-in.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/gpu_stage.h"

namespace headrace::device::cuda {

// Turns a stage's output into the next stage's input. The next output goes to `next` + i * `stride`, or to final[i].
cudaError_t launch_advance(gpu::Chunk* chunks, const std::uint64_t* outcomes, std::uint32_t count, unsigned char* next,
                           std::uint64_t stride, unsigned char* const* final, std::uint64_t capacity,
                           cudaStream_t stream) noexcept;

}  // namespace headrace::device::cuda

// Launches of the copy and assembly kernels; plain C++, for the rest of the plug-in.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "work_items.h"

namespace headrace::device::cuda {

// Whether the kernels in this plug-in run on the current device.
cudaError_t probe_kernels() noexcept;

// All pointers are to memory that the current device can access; those of launch_assemble to device memory, 16-byte
// aligned.
cudaError_t launch_move_pieces(const PieceItem* items, std::uint32_t count, int multiprocessors,
                               cudaStream_t stream) noexcept;
cudaError_t launch_assemble(const BoxItem* items, const std::uint32_t* first_unit, std::uint32_t count,
                            std::uint32_t units, const std::byte* pattern, int multiprocessors,
                            cudaStream_t stream) noexcept;
// For lists built by BoxList::add_converting.
cudaError_t launch_assemble_converting(const BoxItem* items, const std::uint32_t* first_unit, std::uint32_t count,
                                       std::uint32_t units, const Conversion& conversion, int multiprocessors,
                                       cudaStream_t stream) noexcept;

}  // namespace headrace::device::cuda

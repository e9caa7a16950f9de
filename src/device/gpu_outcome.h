// DecodeOutcome::pack for device code, which writes it when a chunk is bad. Included by device code only.
#pragma once

#include <cstdint>

#include "device/decode.h"

namespace headrace::device::gpu {

__device__ inline std::uint64_t pack_outcome(unsigned stage, std::uint64_t position, DecodeReason reason) {
  const std::uint64_t limited = position < DecodeOutcome::kPositionMask ? position : DecodeOutcome::kPositionMask;
  return static_cast<std::uint64_t>(stage & 15) << 52 | limited << 8 | static_cast<std::uint64_t>(reason);
}

}  // namespace headrace::device::gpu

// Scratch size of Blosc's stage: its own lists, then the scratch of the inner decoder. Depends on the limits alone, so
// that device and tests agree.
#pragma once

#include <algorithm>

#include "blosc_device.cuh"
#include "codecs/deflate/deflate_job_device.cuh"
#include "codecs/lz4/lz4_scratch_device.cuh"
#include "codecs/zstd/zstd_job_device.cuh"

namespace headrace::codec::gpu::blosc {

// Limits of a batch's inner streams; `Inner` is Lz4Limits or another codec's type. A chunk has at least one stream.
template <class Inner>
Inner inner_limits(const device::gpu::Limits& limits, const Layout& layout) noexcept {
  Inner out;
  out.streams = static_cast<std::uint32_t>(std::min<std::uint64_t>(layout.stream_count, UINT32_MAX));
  out.min_streams = limits.chunks;
  out.src_bytes = limits.src_bytes;
  out.dst_bytes = limits.dst_bytes;
  if constexpr (requires { out.largest_src_bytes; }) {
    out.largest_src_bytes = limits.largest_src_bytes;
    out.largest_dst_bytes = std::min<std::uint64_t>(limits.largest_dst_bytes, kMaxBlockBytes);
  }
  return out;
}

inline std::uint64_t stage_scratch_bytes(const device::gpu::Limits& limits, Named named) {
  const std::uint32_t few = named == Named::kOthers ? kLz4TilesMostStreams : lz77::TileLayout::kMaxStreams;
  return device::gpu::max_scratch(limits, few, [named](const device::gpu::Limits& batch) {
    const Layout layout(batch, allowance_for(named), named);
    switch (named) {
      case Named::kZstd:
        return layout.inner + zstd_scratch_bytes(inner_limits<lz77::StreamLimits>(batch, layout));
      case Named::kZlib:
        return layout.inner + deflate_scratch_bytes(inner_limits<lz77::StreamLimits>(batch, layout));
      case Named::kOthers:
        break;
    }
    return layout.inner + lz4_scratch_bytes(inner_limits<Lz4Limits>(batch, layout));
  });
}

}  // namespace headrace::codec::gpu::blosc

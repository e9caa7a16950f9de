// DecodeScratch: layout of a batch's scratch: outcomes, the list of chunks, intermediate results, and each
// stage's own needs.
//
// Threads: immutable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/checked.h"
#include "device/decode.h"
#include "device/gpu_stage.h"

namespace headrace::device {

class DecodeScratch {
 public:
  static constexpr std::uint64_t kAlignment = 256;

  // For these stages, in decoding order.
  explicit DecodeScratch(std::span<const DecodeStage> stages) {
    for (const DecodeStage& stage : stages) capacities_.push_back(stage.capacity_bytes);
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i + 1 < capacities_.size(); ++i) largest = std::max(largest, capacities_[i]);
    stride_ = base::align_up(largest, kAlignment);
    buffers_ = std::min<std::uint64_t>(capacities_.size() - 1, 2);
  }

  std::size_t stages() const noexcept { return capacities_.size(); }
  std::uint64_t capacity(std::size_t stage) const noexcept { return capacities_[stage]; }
  // Per chunk, intermediate results have room for the largest one in each of up to two buffers.
  std::uint64_t stride() const noexcept { return stride_; }
  std::uint64_t buffers() const noexcept { return buffers_; }

  // Offsets in the scratch of a batch of `items` items; the outcomes begin at 0.
  static std::uint64_t list_at(std::uint64_t items) noexcept {
    return base::align_up(items * sizeof(DecodeOutcome), kAlignment);
  }
  // A gpu::Chunk per item and, with several stages, the final destination of each.
  std::uint64_t list_bytes(std::uint64_t items) const noexcept {
    return items * (sizeof(gpu::Chunk) + (stages() > 1 ? sizeof(unsigned char*) : 0));
  }
  std::uint64_t between_at(std::uint64_t items) const noexcept {
    return list_at(items) + base::align_up(list_bytes(items), kAlignment);
  }
  std::uint64_t stage_at(std::uint64_t items) const noexcept { return between_at(items) + buffers_ * items * stride_; }

  gpu::Limits limits_of(std::size_t stage, const DecodeLimits& limits) const noexcept {
    gpu::Limits out;
    out.chunks = limits.items;
    out.src_bytes = stage == 0 ? limits.src_bytes : limits.items * capacities_[stage - 1];
    out.largest_src_bytes = stage == 0 ? limits.largest_src_bytes : capacities_[stage - 1];
    out.dst_bytes = limits.items * capacities_[stage];
    if (limits.dst_bytes != 0 && stages() == 1) out.dst_bytes = std::min(out.dst_bytes, limits.dst_bytes);
    out.largest_dst_bytes = capacities_[stage];
    return out;
  }
  // Enough for every batch within the limits, if stage_bytes(stage, limits of the stage) is.
  template <class StageBytes>
  std::uint64_t bytes(const DecodeLimits& limits, const StageBytes& stage_bytes) const {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < stages(); ++i) most = std::max(most, stage_bytes(i, limits_of(i, limits)));
    return stage_at(limits.items) + base::align_up(most, kAlignment);
  }

 private:
  std::vector<std::uint64_t> capacities_;
  std::uint64_t stride_ = 0, buffers_ = 0;
};

// The tightest limits that hold for this batch.
inline DecodeLimits limits_of(std::span<const DecodeItem> items) noexcept {
  DecodeLimits limits;
  limits.items = static_cast<std::uint32_t>(items.size());
  for (const DecodeItem& item : items) {
    limits.src_bytes += item.src_bytes;
    limits.largest_src_bytes = std::max(limits.largest_src_bytes, item.src_bytes);
  }
  return limits;
}

}  // namespace headrace::device

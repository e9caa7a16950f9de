#include "staged_decoder.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "base/checked.h"

namespace headrace::device {

StagedDecodeModel& staged_decode_model() noexcept {
  static StagedDecodeModel* const model = [] {
    static StagedDecodeModel all;
    const auto text = [](const char* name) {
      const char* value = ::secure_getenv(name);
      return value != nullptr ? value : "";
    };
    all.any_codec = std::string_view(text("HEADRACE_STAGED_DECODE")) == "all";
    all.host_only_every = static_cast<unsigned>(std::strtoul(text("HEADRACE_STAGED_HOST_ONLY"), nullptr, 10));
    all.index = text("HEADRACE_STAGED_INDEX")[0] == '1';
    all.decoded_bytes_per_us = std::strtod(text("HEADRACE_STAGED_DECODE_GBPS"), nullptr) * 1e3;
    return &all;
  }();
  return *model;
}

Status StagedStages::check(std::span<const DecodeStage> stages, std::span<const std::unique_ptr<HostStage>> hosts) {
  if (stages.empty() || stages.size() > kMaxDecodeStages) {
    return Status(Code::kInvalidArgument, Layer::kDevice, "a decoder needs 1 to 8 stages");
  }
  if (hosts.size() < stages.size()) {
    return Status(Code::kUnsupported, Layer::kDevice, "codec '" + stages[hosts.size()].codec + "' has no decoder here");
  }
  return {};
}

// As much as a GPU would need, which decodes all chunks concurrently.
std::uint64_t StagedStages::scratch_bytes(const DecodeLimits& limits) const noexcept {
  const auto of_stage = staged_decode_model().stage_scratch.load(std::memory_order_relaxed);
  return layout_.bytes(
      limits, [&](std::size_t i, const gpu::Limits& of) { return of_stage != nullptr ? of_stage(stages_[i], of) : 0; });
}

DecodeOutcome StagedStages::decode_one(const DecodeItem& item, std::byte* const between[2]) const {
  std::span<const std::byte> src{item.src, static_cast<std::size_t>(item.src_bytes)};
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    std::byte* const dst = i + 1 == stages_.size() ? item.dst : between[i % 2];
    std::uint64_t room = stages_[i].capacity_bytes;
    std::uint64_t whole = room;
    if (stages_.size() == 1 && item.dst_bytes != 0) whole = room = std::min(room, item.dst_bytes);
    if (ends_early() && item.enough != 0) room = std::min(room, item.enough);
    std::size_t produced = 0;
    const DecodeReason reason = hosts_[i]->decode(src, {dst, static_cast<std::size_t>(room)}, whole, produced);
    if (reason != DecodeReason::kNone) return {DecodeOutcome::pack(static_cast<unsigned>(i), 0, reason)};
    src = {dst, produced};
  }
  return {};
}

namespace {

// A decode index for tests: 16 bytes that identify the chunk's bytes.
void look_at_index(const DecodeItem& item, const DecodeIndices& indices, std::size_t i) {
  std::uint64_t own[2] = {14695981039346656037u, item.src_bytes};
  for (std::uint64_t k = 0; k < item.src_bytes; ++k) {
    own[0] = (own[0] ^ std::to_integer<std::uint64_t>(item.src[k])) * 1099511628211u;
  }
  const std::uint32_t given = indices.given(i);
  std::uint32_t made = kIndexNothing;
  if (given == kIndexCollect) {
    std::memcpy(indices.entries(i), own, sizeof(own));
    made = sizeof(own);
  } else if (given != kIndexNone) {
    if (given != sizeof(own) || std::memcmp(indices.entries(i), own, sizeof(own)) != 0) made = kIndexBad;
  }
  std::memcpy(indices.pinned + indices.made_at() + i * sizeof(made), &made, sizeof(made));
}

}  // namespace

void StagedStages::run(std::span<const DecodeItem> items, std::byte* scratch, DecodeOutcome* outcomes,
                       const DecodeIndices& indices) const noexcept {
  const StagedDecodeModel& model = staged_decode_model();
  const unsigned every = model.host_only_every.load(std::memory_order_relaxed);
  std::byte* const buffers = scratch + layout_.between_at(items.size());
  const std::uint64_t of_item = layout_.buffers() * layout_.stride();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (every != 0 && i % every == 0) {
      outcomes[i] = {DecodeOutcome::pack(0, 0, DecodeReason::kHostOnly)};
      continue;
    }
    if (indices.pinned != nullptr) look_at_index(items[i], indices, i);
    std::byte* const first = buffers + i * of_item;
    std::byte* const between[2] = {first, first + (layout_.buffers() > 1 ? layout_.stride() : 0)};
    try {
      outcomes[i] = decode_one(items[i], between);
    } catch (const std::bad_alloc&) {
      outcomes[i] = {DecodeOutcome::pack(0, 0, DecodeReason::kHostOnly)};
    }
  }
  const double rate = model.decoded_bytes_per_us.load(std::memory_order_relaxed);
  if (rate > 0) {
    const double bytes = static_cast<double>(items.size()) * static_cast<double>(stages_.back().capacity_bytes);
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(bytes / rate));
  }
}

}  // namespace headrace::device

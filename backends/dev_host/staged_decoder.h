// What the host-staged device has instead of a GPU's decoder: the codecs' CPU code, run on the stream's thread.
//
// Threads: run() from any thread; the model may be changed while no read is under way.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/decode.h"
#include "device/decode_scratch.h"
#include "device/stand_in.h"

namespace headrace::device {

// How the device simulates a GPU: from the environment at first, later as a test sets it.
struct StagedDecodeModel {
  // HEADRACE_STAGED_DECODE=all: chains are decoded whether their codecs have device code or not.
  std::atomic<bool> any_codec{false};
  // HEADRACE_STAGED_HOST_ONLY=n: one chunk of n is handed back as kHostOnly. 0: none.
  std::atomic<unsigned> host_only_every{0};
  // HEADRACE_STAGED_DECODE_GBPS: no faster than so many 1e9 decoded bytes a second. 0: as fast as it goes.
  std::atomic<double> decoded_bytes_per_us{0};
  // HEADRACE_STAGED_INDEX=1: decode indices are collected and asked for, though nothing is the faster for it: an index
  // is a checksum of the chunk's bytes, so that one of other bytes is found out.
  std::atomic<bool> index{false};
  // Scratch of a stage, as gpu::GpuCodec::scratch_bytes(): so much is asked for, and none of it is used. Null: none is.
  std::atomic<std::uint64_t (*)(const DecodeStage& stage, const gpu::Limits& limits)> stage_scratch{nullptr};
  // How often a decoder was made ready.
  std::atomic<unsigned> loads{0};
};
StagedDecodeModel& staged_decode_model() noexcept;

// The stages of one chain. Immutable.
class StagedStages {
 public:
  // kUnsupported names the first stage that the CPU does not undo.
  static Status check(std::span<const DecodeStage> stages, std::span<const std::unique_ptr<HostStage>> hosts);
  StagedStages(std::span<const DecodeStage> stages, std::vector<std::unique_ptr<HostStage>> hosts)
      : stages_(stages.begin(), stages.end()), hosts_(std::move(hosts)), layout_(stages_) {}

  std::uint64_t scratch_bytes(const DecodeLimits& limits) const noexcept;
  bool ends_early() const noexcept { return stages_.size() == 1 && hosts_[0]->ends_early(); }
  std::uint64_t index_stride() const noexcept { return staged_decode_model().index ? 1024 : 0; }
  void run(std::span<const DecodeItem> items, std::byte* scratch, DecodeOutcome* outcomes,
           const DecodeIndices& indices) const noexcept;

 private:
  DecodeOutcome decode_one(const DecodeItem& item, std::byte* const between[2]) const;
  const std::vector<DecodeStage> stages_;
  const std::vector<std::unique_ptr<HostStage>> hosts_;  // one for each
  const DecodeScratch layout_;
};

}  // namespace headrace::device

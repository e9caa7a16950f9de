// The decoder of the host-staged device: runs the codecs' CPU code on the stream's thread, in place of a GPU's decoder.
//
// Threads: run() from any thread; the model may be changed while no read is in flight.
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

// How the device simulates a GPU: initialised from the environment, changed by tests.
struct StagedDecodeModel {
  // HEADRACE_STAGED_DECODE=all: decode chains whether or not their codecs have device code.
  std::atomic<bool> any_codec{false};
  // HEADRACE_STAGED_HOST_ONLY=n: one chunk of every n is returned as kHostOnly. 0: none.
  std::atomic<unsigned> host_only_every{0};
  // HEADRACE_STAGED_DECODE_GBPS: limit of the decoding rate, in 1e9 decoded bytes a second. 0: unlimited.
  std::atomic<double> decoded_bytes_per_us{0};
  // HEADRACE_STAGED_INDEX=1: collect and request decode indices, though they speed nothing up. An index is a checksum
  // of the chunk's bytes, so an index of other bytes is detected.
  std::atomic<bool> index{false};
  // Scratch size of a stage, as gpu::GpuCodec::scratch_bytes(): requested but not used. Null: none is requested.
  std::atomic<std::uint64_t (*)(const DecodeStage& stage, const gpu::Limits& limits)> stage_scratch{nullptr};
  // How often a decoder was prepared.
  std::atomic<unsigned> loads{0};
};
StagedDecodeModel& staged_decode_model() noexcept;

// The stages of one chain. Immutable.
class StagedStages {
 public:
  // kUnsupported names the first stage that the CPU cannot decode.
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
  const std::vector<std::unique_ptr<HostStage>> hosts_;  // one per stage
  const DecodeScratch layout_;
};

}  // namespace headrace::device

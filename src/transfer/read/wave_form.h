// WaveForm: how a read processes the chunks of one form: who decodes them, and their layout in a wave's slabs.
// WaveForms makes one after another as the plan proceeds; slabs, workers and budgets are sized for the largest.
//
// Threads: a WaveForm is immutable. begin(), take() and current() by one thread at a time, planned_bytes() by any.
#pragma once

#include <headrace/array.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <string>

#include "device/decode.h"
#include "device/device.h"
#include "transfer/context/resources.h"
#include "transfer/plan/plan.h"
#include "transfer/read/read_sizes.h"

namespace headrace::transfer {

// Who decodes the chunks of a chain, as far as that can be decided before reading.
struct ChunkDecoding {
  std::unique_ptr<device::ChunkDecoder> decoder;  // null: the CPU decodes
  std::size_t first_stage = 0;                    // the first stage of the chain that the decoder undoes
  std::uint64_t index_stride = 0;                 // 0: no decode indices
  std::string note;                               // why the device does not decode
};

struct WaveForm {
  std::shared_ptr<const ChunkForm> chunks;  // whose chain the decoder refers to
  WaveSizes sizes;
  ChunkDecoding decoding;
};

class WaveForms {
 public:
  // All arguments outlive it.
  WaveForms(Resources& resources, const Plan& plan, device::Device& device, Placement placement) noexcept
      : resources_(resources), plan_(plan), device_(device), placement_(placement) {}

  // Sizes the read and selects the largest form. Fails before anything is read: kResourceExhausted when not even one
  // chunk fits the budgets, kUnsupported when the device must decode and cannot. `more_lane_bytes`: working memory of
  // each worker besides that of decoding. `plans_rooms`: false where the sink manages that memory itself.
  Result<ReadSizes> begin(std::uint64_t more_lane_bytes, bool plans_rooms);
  // Switches to another form, or keeps the current one. Fails as begin() does.
  Status take(const std::shared_ptr<const ChunkForm>& form);
  const std::shared_ptr<const WaveForm>& current() const noexcept { return current_; }
  // Upper bound on one group's stored bytes, except unusually long ones; also the size requested of an object of
  // unknown size.
  std::uint64_t planned_bytes() const noexcept { return planned_bytes_; }

 private:
  Result<ChunkDecoding> choose_decoder(const codec::Chain& chain) const;
  SizeRequest request_of(const codec::Chain& chain) const;
  void add_window(SizeRequest& request, const codec::Chain& chain) const;
  SizeRequest with_decoder(SizeRequest request, const codec::Chain& chain, ChunkDecoding& decoding) const;
  // Called when the budgets are too small for the device's decoder: makes the CPU decode. False: the caller
  // requires the device to decode.
  bool leave_to_cpu(ChunkDecoding& decoding) const;
  std::uint64_t encoded_bytes(const codec::Chain& chain) const noexcept;

  Resources& resources_;
  const Plan& plan_;
  device::Device& device_;
  const Placement placement_;
  ReadSizes sizes_;
  bool decodes_ = false;  // the device decodes forms that it can, as it does the largest
  bool plans_rooms_ = true;
  std::uint64_t planned_bytes_ = 0, more_lane_bytes_ = 0;
  std::shared_ptr<const WaveForm> current_;
};

}  // namespace headrace::transfer

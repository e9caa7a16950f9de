// WaveForm: how a read carries the chunks of one form: who decodes them, and how they lie in a wave's slabs.
// WaveForms makes one after the other as its plan goes on; slabs, workers and budgets are sized for the largest.
//
// Threads: a WaveForm is immutable. begin(), take() and current() by one at a time, planned_bytes() by any.
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

// Who decodes the chunks of a chain, as far as that is known before anything is read.
struct ChunkDecoding {
  std::unique_ptr<device::ChunkDecoder> decoder;  // null: the CPU decodes
  std::size_t first_stage = 0;                    // of the chain, that the decoder undoes
  std::uint64_t index_stride = 0;                 // 0: no decode indices
  std::string note;                               // why the device does not decode
};

struct WaveForm {
  std::shared_ptr<const ChunkForm> chunks;  // the decoder needs its chain
  WaveSizes sizes;
  ChunkDecoding decoding;
};

class WaveForms {
 public:
  // All of them outlive it.
  WaveForms(Resources& resources, const Plan& plan, device::Device& device, Placement placement) noexcept
      : resources_(resources), plan_(plan), device_(device), placement_(placement) {}

  // Sizes the read, and is then at the largest form. Fails before anything is read: kResourceExhausted when not even
  // one chunk fits the budgets, kUnsupported when the device is to decode and cannot. `more_lane_bytes`: working memory
  // of each worker beside that of decoding. `plans_rooms`: false where all of that is the sink's affair.
  Result<ReadSizes> begin(std::uint64_t more_lane_bytes, bool plans_rooms);
  // Goes on to another form, or stays. Fails as begin() does.
  Status take(const std::shared_ptr<const ChunkForm>& form);
  const std::shared_ptr<const WaveForm>& current() const noexcept { return current_; }
  // Most that one group's stored bytes take, but for unusual ones; what is asked for of an object of unknown size.
  std::uint64_t planned_bytes() const noexcept { return planned_bytes_; }

 private:
  Result<ChunkDecoding> choose_decoder(const codec::Chain& chain) const;
  SizeRequest request_of(const codec::Chain& chain) const;
  void add_window(SizeRequest& request, const codec::Chain& chain) const;
  SizeRequest with_decoder(SizeRequest request, const codec::Chain& chain, ChunkDecoding& decoding) const;
  // The budgets are too small for the device's decoder. False: it was asked for.
  bool leave_to_cpu(ChunkDecoding& decoding) const;
  std::uint64_t encoded_bytes(const codec::Chain& chain) const noexcept;

  Resources& resources_;
  const Plan& plan_;
  device::Device& device_;
  const Placement placement_;
  ReadSizes sizes_;
  bool decodes_ = false;  // the device, if it can, as it can the largest
  bool plans_rooms_ = true;
  std::uint64_t planned_bytes_ = 0, more_lane_bytes_ = 0;
  std::shared_ptr<const WaveForm> current_;
};

}  // namespace headrace::transfer

// ReadSizes: divides the budgets of a read into waves and workers, before anything is read.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <optional>

#include "device/decode.h"

namespace headrace::transfer {

struct SizeRequest {
  std::uint64_t chunks = 1;  // of the read
  // Whether all chunks have one form; otherwise waves may be small, so the read gets as many as asked for.
  bool one_form = true;
  std::uint64_t decoded_bytes = 1;  // of one chunk
  std::uint64_t lane_bytes = 0;     // working memory of one worker
  std::uint64_t host_budget_bytes = 0, device_budget_bytes = 0;
  std::uint64_t io_bytes = 0;    // reserved for the I/O service, of the host budget; an eighth if that is more
  std::uint64_t wave_bytes = 0;  // target of decoded bytes per wave
  // Decoded bytes that a store needs in flight to reach full throughput; 0: no such limit.
  std::uint64_t window_bytes = 0;
  bool arrives = false;  // stored bytes may arrive directly in slabs, with one byte of room more that marks their end
  std::uint64_t arriving_window_bytes = 0;  // window_bytes where each object arrives directly in its place
  unsigned waves = 1, threads = 1;
  bool staged = false;
  // The device decodes, so a wave also has room for encoded bytes. Null: the CPU decodes.
  const device::ChunkDecoder* decoder = nullptr;
  bool parts = false;              // most chunks are decoded in part
  std::uint64_t source_bytes = 0;  // most bytes of one chunk that the decoder is given
  std::uint64_t index_stride = 0;  // room for each chunk's decode index; 0: none
};

// Layout of a wave's pinned slab and device slab; offsets and sizes in bytes.
struct WaveAreas {
  std::uint64_t pinned_bytes = 0, device_bytes = 0;
  std::uint64_t encoded_bytes = 0;  // of both slabs, from their start. In the pinned slab the unused rest and the space
                                    // up to outcomes_at hold chunks that the CPU decodes after all: at least one
  std::uint64_t outcomes_at = 0;    // pinned
  std::uint64_t decoded_at = 0;     // device; one stride per task
  std::uint64_t scratch_at = 0, scratch_bytes = 0;  // device
  std::uint64_t indices_at = 0;                     // pinned: device::DecodeIndices
  std::uint64_t indices_on_device_at = 0;           // its copy on the device
};

struct WaveSizes {
  std::uint64_t stride = 0;  // distance of decoded chunks in a slab
  std::uint64_t tasks = 1;   // most tasks of a wave
  // Task limit of a trial wave: a trial costs more the larger its wave is.
  std::uint64_t trial_tasks = 1;
  WaveAreas areas;  // staged devices only
};

struct ReadSizes : WaveSizes {
  std::uint64_t waves = 1, workers = 1;
  std::uint64_t wave_bytes = 0;  // target of decoded bytes per wave
};

inline constexpr std::uint64_t kSlabAlignment = 16;  // widest vector access of the copy kernels
// Longer objects arrive directly in a wave's slab. Shorter ones are copied there, close together, so that one copy
// moves them to the device.
inline constexpr std::uint64_t kMinArrivingBytes = 256 << 10;

// kResourceExhausted names the budget that cannot hold even one chunk.
Result<ReadSizes> size_read(const SizeRequest& request);
// Sizes a read that the device decodes, choosing the number and size of waves for speed instead of using those asked
// for. REQUIRES: request.decoder.
Result<ReadSizes> size_decoded_read(const SizeRequest& request);
// Sizes waves of other chunks of such a read, in the slabs made for its largest ones. Nullopt: not even one chunk fits.
std::optional<WaveSizes> size_wave(SizeRequest request, const ReadSizes& read);

}  // namespace headrace::transfer

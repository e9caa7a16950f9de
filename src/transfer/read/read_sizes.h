// ReadSizes: how a read divides the budgets into waves and workers, before anything is read.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <optional>

#include "device/decode.h"

namespace headrace::transfer {

struct SizeRequest {
  std::uint64_t chunks = 1;         // of the read
  bool one_form = true;             // all of them; else waves may have few, and there are as many waves as asked for
  std::uint64_t decoded_bytes = 1;  // of one chunk
  std::uint64_t lane_bytes = 0;     // working memory of one worker
  std::uint64_t host_budget_bytes = 0, device_budget_bytes = 0;
  std::uint64_t io_bytes = 0;      // of the host budget, that the I/O service has; at least an eighth is left to it
  std::uint64_t wave_bytes = 0;    // decoded bytes a wave aims at
  std::uint64_t window_bytes = 0;  // decoded, that a store has to have under way, which limits the read; 0: none
  bool arrives = false;            // what is stored may come straight into slabs, with a byte more that tells its end
  std::uint64_t arriving_window_bytes = 0;  // the same, where each object comes straight into its place
  unsigned waves = 1, threads = 1;
  bool staged = false;
  // The device decodes: a wave has room for encoded bytes as well. Null: it does not.
  const device::ChunkDecoder* decoder = nullptr;
  bool parts = false;              // most chunks are decoded in part
  std::uint64_t source_bytes = 0;  // most bytes that one chunk gives the decoder
  std::uint64_t index_stride = 0;  // room for each chunk's decode index; 0: there are none
};

// Where things lie in a wave's pinned slab and its device slab; offsets and sizes in bytes.
struct WaveAreas {
  std::uint64_t pinned_bytes = 0, device_bytes = 0;
  std::uint64_t encoded_bytes = 0;  // of both slabs, from their start; what is not used of the pinned one, and what
                                    // lies up to outcomes_at, takes chunks that the CPU decodes after all: at least one
  std::uint64_t outcomes_at = 0;    // pinned
  std::uint64_t decoded_at = 0;     // device; one stride for each task
  std::uint64_t scratch_at = 0, scratch_bytes = 0;  // device
  std::uint64_t indices_at = 0;                     // pinned: device::DecodeIndices
  std::uint64_t indices_on_device_at = 0;           // and its copy on the device
};

struct WaveSizes {
  std::uint64_t stride = 0;  // between decoded chunks in a slab
  std::uint64_t tasks = 1;   // of a wave, at most
  // Of one that is for finding out who decodes faster, which larger waves make dearer.
  std::uint64_t trial_tasks = 1;
  WaveAreas areas;  // staged devices only
};

struct ReadSizes : WaveSizes {
  std::uint64_t waves = 1, workers = 1;
  std::uint64_t wave_bytes = 0;  // decoded, that a wave aims at
};

inline constexpr std::uint64_t kSlabAlignment = 16;  // widest vector access of the copy kernels
// Longer objects come straight into a wave's slab. Fewer bytes are copied there, close together, and cross the bus as
// one.
inline constexpr std::uint64_t kLeastArrivingBytes = 256 << 10;

// kResourceExhausted names the budget that not even one chunk fits.
Result<ReadSizes> size_read(const SizeRequest& request);
// The same of a read that the device decodes, whose waves are not as many and as large as asked for, but as it is fast
// with. REQUIRES: request.decoder.
Result<ReadSizes> size_decoded_read(const SizeRequest& request);
// Waves of other chunks of such a read, in the slabs that its largest ones have. Nothing: they do not have room for
// one.
std::optional<WaveSizes> size_wave(SizeRequest request, const ReadSizes& read);

}  // namespace headrace::transfer

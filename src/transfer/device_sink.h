// DeviceSink: encoded bytes go into the wave's slab, one copy takes them to the device, one call undoes the codecs
// there and one places the chunks. What the device hands back is decoded by the CPU from the same bytes once the wave
// is through, and what the CPU says of them is what counts.
#pragma once

#include <headrace/array.h>

#include <memory>
#include <optional>
#include <string>

#include "device/decode.h"
#include "transfer/index_cache.h"
#include "transfer/read_sizes.h"
#include "transfer/slab_sink.h"

namespace headrace::transfer {

// Who decodes the chunks of a chain, as far as that is known before anything is read.
struct ChunkDecoding {
  std::unique_ptr<device::ChunkDecoder> decoder;  // null: the CPU decodes
  std::size_t first_stage = 0;                    // of the chain, that the decoder undoes
  std::uint64_t index_stride = 0;                 // 0: no decode indices
  std::string note;                               // why the device does not decode
};

// kUnsupported: the device is to decode, and cannot.
Result<ChunkDecoding> choose_decoder(const codec::Chain& chain, device::Device& device, Placement placement);

class DeviceSink final : public SlabSink {
 public:
  // REQUIRES: decoding.decoder. `indices` outlives the sink. slab_stride: bytes between decoded chunks in a slab.
  DeviceSink(const ReadTasks& tasks, std::shared_ptr<device::Device> device, ChunkDecoding decoding,
             const WaveAreas& areas, std::uint64_t slab_stride, IndexCache& indices, bool maps);

  void begin(Wave& wave) override;
  bool hands_back(const Wave& wave) const noexcept override;
  std::span<const std::uint32_t> settle(Wave& wave, Lane& lane) override;
  Status take_again(Wave& wave, std::uint32_t task_index, std::span<const std::byte> data, Lane& lane) override;
  Status finish_again(Wave& wave, Lane& lane) override;

 private:
  Result<std::span<std::byte>> own_room(Wave& wave, const Group& group, std::uint64_t length, Lane& lane) override;
  Status take_task(Wave& wave, const Group& group, std::uint32_t task_index, std::span<const std::byte> encoded,
                   std::uint64_t skipped, Lane& lane) override;
  Status queue(Wave& wave, Lane& lane) override;
  std::optional<std::span<std::byte>> reserve(Wave& wave, std::uint32_t task_index, std::uint64_t bytes) const;
  Status note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t offset, std::uint64_t length,
                     Lane& lane) override;
  bool reserve_together(Wave& wave, const Group& group, const MappedRange& range) const override;
  Status note_encoded(Wave& wave, std::uint32_t task_index, std::uint64_t length, Lane& lane) const;
  Status gather(Wave& wave, std::size_t& boxes) const;
  Status add_encoded_pieces(Wave& wave) const;
  std::span<const device::DecodeOutcome> outcomes(const Wave& wave) const noexcept;
  device::DecodeIndices indices_of(const Wave& wave) const;
  device::DecodeIndices give_indices(Wave& wave) const;
  void keep_indices(const Wave& wave, Lane& lane) const;
  void count_decoded(const Wave& wave, Lane& lane) const;

  const ChunkDecoding decoding_;
  const WaveAreas areas_;
  const std::uint64_t stride_;
  IndexCache& indices_;
};

}  // namespace headrace::transfer

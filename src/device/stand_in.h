// StandIn: how a device that simulates a GPU on the host decodes: by the codecs' CPU code, device code or not.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "device/decode.h"

namespace headrace::device {

// One stage of a chain, undone by the CPU. Threads: any.
class HostStage {
 public:
  virtual ~HostStage() = default;
  // Whether it decodes the beginning of a stream alone.
  virtual bool ends_early() const noexcept = 0;
  // dst: of what decodes to at most `capacity` bytes; less than that only where ends_early(). Throws std::bad_alloc.
  virtual DecodeReason decode(std::span<const std::byte> src, std::span<std::byte> dst, std::uint64_t capacity,
                              std::size_t& produced) = 0;
};

class StandIn {
 public:
  // Whether stages without device code are decoded, too.
  virtual bool decodes_any_codec() const noexcept = 0;
  // As Device::make_decoder(); hosts[i] undoes stages[i].
  virtual Result<std::unique_ptr<ChunkDecoder>> make_host_decoder(std::span<const DecodeStage> stages,
                                                                  std::vector<std::unique_ptr<HostStage>> hosts) = 0;

 protected:
  ~StandIn() = default;
};

}  // namespace headrace::device

// StandIn: decoding on a device that simulates a GPU on the host, with the codecs' CPU code.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "device/decode.h"

namespace headrace::device {

// Decodes one stage of a chain on the CPU. Threads: any.
class HostStage {
 public:
  virtual ~HostStage() = default;
  // Whether it can decode just the beginning of a stream.
  virtual bool ends_early() const noexcept = 0;
  // `capacity` is the maximum decoded size; dst is smaller than that only if ends_early(). Throws std::bad_alloc.
  virtual DecodeReason decode(std::span<const std::byte> src, std::span<std::byte> dst, std::uint64_t capacity,
                              std::size_t& produced) = 0;
};

class StandIn {
 public:
  // Whether it also decodes stages that have no device code.
  virtual bool decodes_any_codec() const noexcept = 0;
  // As Device::make_decoder(). hosts[i] decodes stages[i].
  virtual Result<std::unique_ptr<ChunkDecoder>> make_host_decoder(std::span<const DecodeStage> stages,
                                                                  std::vector<std::unique_ptr<HostStage>> hosts) = 0;

 protected:
  ~StandIn() = default;
};

}  // namespace headrace::device

// Encoder of Blosc1 containers: inner codec lz4 or zstd, byte shuffle or no filter.
#pragma once

#include <cstdint>
#include <memory>

#include "blosc_header.h"
#include "codec/encoder.h"

namespace headrace::codec {

struct BloscSettings {
  BloscHeader::Inner inner = BloscHeader::Inner::kLz4;
  BloscHeader::Filter filter = BloscHeader::Filter::kShuffle;
  int level = 5;                  // Blosc's scale: 0 stores, 9 compresses best
  std::uint32_t item_bytes = 1;   // 1..255
  std::uint32_t block_bytes = 0;  // 0: chosen by the encoder
  const char* refusal = nullptr;  // the setting that cannot be encoded; null if all are supported
};

// Fails with kUnsupported and `settings.refusal` if that is set.
Result<std::unique_ptr<Encoder>> make_blosc_encoder(const BloscSettings& settings);

}  // namespace headrace::codec

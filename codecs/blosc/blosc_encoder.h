// The encoder of Blosc1 containers: lz4 and zstd inside, byte shuffle or none.
#pragma once

#include <cstdint>
#include <memory>

#include "blosc_header.h"
#include "codec/encoder.h"

namespace headrace::codec {

struct BloscSettings {
  BloscHeader::Inner inner = BloscHeader::Inner::kLz4;
  BloscHeader::Filter filter = BloscHeader::Filter::kShuffle;
  int level = 5;                  // Blosc's: 0 stores, 9 is the best
  std::uint32_t item_bytes = 1;   // 1..255
  std::uint32_t block_bytes = 0;  // 0: chosen here
  const char* refusal = nullptr;  // what there is no encoder for; null: all of it is supported
};

// kUnsupported with the refusal.
Result<std::unique_ptr<Encoder>> make_blosc_encoder(const BloscSettings& settings);

}  // namespace headrace::codec

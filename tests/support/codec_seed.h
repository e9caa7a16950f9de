// CodecSeed: one fuzz input or seed file of a bytes -> bytes codec. It holds the stream, the decoded capacity and the
// configuration.
//
// Bytes 0-2: capacity, little-endian. Byte 3: bit 0 is set when the stream may decode to fewer bytes; the other bits
// select one of the codec's configurations. From byte 4: the stream. Every byte string of at least 4 bytes is a valid
// input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/json_fwd.h"

namespace headrace::test {

struct CodecSeed {
  static constexpr std::size_t kHeaderBytes = 4;
  static constexpr std::size_t kMaxCapacity = 1 << 18;

  std::size_t capacity = 0;
  bool exact = true;
  unsigned choice = 0;
  std::span<const std::byte> stream;
};

inline bool parse_codec_seed(std::span<const std::byte> input, CodecSeed& seed) {
  if (input.size() < CodecSeed::kHeaderBytes) return false;
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(input[i]); };
  seed.capacity = (at(0) | at(1) << 8 | at(2) << 16) % (CodecSeed::kMaxCapacity + 1);
  seed.exact = (at(3) & 1) == 0;
  seed.choice = at(3) >> 1;
  seed.stream = input.subspan(CodecSeed::kHeaderBytes);
  return true;
}

// A configuration in v2 form, which has defaults for most codecs. Codecs without defaults, or whose seeds need several
// configurations, define one in a header of their folder: headrace_plugin(... SEED_CONFIG).
base::Json codec_seed_config(std::string_view codec, unsigned choice);

}  // namespace headrace::test

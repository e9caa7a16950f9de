// CodecSeed: one fuzz input or seed file of a bytes -> bytes codec: what to decode, into how much, and how configured.
//
// Bytes 0-2: capacity, little-endian. Byte 3: bit 0 set when fewer bytes than that are allowed; the rest is a number
// from which codecs that have a choice take it. From byte 4: the stream. Every byte string of 4 or more is an input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

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

// A configuration in v2 form, in which every codec has defaults.
inline base::Json codec_seed_config(std::string_view codec, unsigned choice) {
  base::Json config = base::Json::object();
  if (codec == "shuffle") config["elementsize"] = choice % 40;
  if (codec == "crc32c") config["location"] = choice % 2 == 0 ? "end" : "start";
  if (codec == "blosc") {  // for the encoder; a container says these things itself
    config["cname"] = choice % 2 == 0 ? "lz4" : "zstd";
    config["shuffle"] = choice / 2 % 2;
    config["typesize"] = 1 + choice / 4;
    config["blocksize"] = choice % 3 * 500;
  }
  return config;
}

}  // namespace headrace::test

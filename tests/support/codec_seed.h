// CodecSeed: one fuzz input or seed file of a bytes -> bytes codec: what to decode, into how much, and how configured.
//
// Bytes 0-2: capacity, little-endian. Byte 3: bit 0 set when fewer bytes than that are allowed; the rest is a number
// from which codecs that have a choice take it. From byte 4: the stream. Every byte string of 4 or more is an input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
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
  if (codec == "crc32" || codec == "adler32") config["location"] = choice % 2 == 0 ? "start" : "end";
  if (codec == "bz2") config["level"] = 1 + choice % 9;
  if (codec == "jenkins_lookup3") config["initval"] = choice;
  if (codec == "lzma") {
    constexpr const char* kConfigs[] = {R"({"format":1,"preset":0})", R"({"format":2,"preset":0})",
                                        R"({"format":3,"filters":[{"id":3,"dist":4},{"id":33,"preset":0}]})",
                                        R"({"format":3,"filters":[{"id":4},{"id":4611686018427387905,"preset":0}]})"};
    config = base::Json::parse(kConfigs[choice % std::size(kConfigs)]);
  }
  if (codec == "bitround") config["keepbits"] = 8;
  if (codec == "delta") {
    constexpr const char* kPairs[][2] = {{"<i4", "<i4"}, {"<i2", "<i2"}, {"|u1", "|u1"}, {">i8", ">i8"}, {"<i4", "<i2"},
                                         {"<f4", "<f4"}, {"<f8", "<f4"}, {"|b1", "|b1"}, {"<f2", "<f2"}};
    const auto& pair = kPairs[choice % std::size(kPairs)];
    config["dtype"] = pair[0];
    config["astype"] = pair[1];
  }
  if (codec == "astype") {
    constexpr const char* kTypes[] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1",
                                      "<u2", "<u4", "<u8", "<f2", ">f4", "<f8"};
    config["encode_dtype"] = kTypes[choice % std::size(kTypes)];
    config["decode_dtype"] = kTypes[choice / std::size(kTypes)];
  }
  if (codec == "quantize" || codec == "fixedscaleoffset") {
    constexpr const char* kPairs[][2] = {{"<f4", "<f4"}, {"<f8", "<f4"}, {"<f8", "<f2"}, {">f8", ">f4"},
                                         {"<f4", "<i2"}, {"<f8", "|u1"}, {">f8", "<u4"}, {"<i4", "<i2"}};
    const auto& pair = kPairs[choice % (codec == "quantize" ? 4 : std::size(kPairs))];
    config["dtype"] = pair[0];
    config["astype"] = pair[1];
    config["digits"] = 2;
    config["scale"] = 10;
    config["offset"] = 1000.5;
  }
  if (codec == "blosc") {  // for the encoder; a container says these things itself
    config["cname"] = choice % 2 == 0 ? "lz4" : "zstd";
    config["shuffle"] = choice / 2 % 2;
    config["typesize"] = 1 + choice / 4;
    config["blocksize"] = choice % 3 * 500;
  }
  return config;
}

// The least configuration in v3 form.
inline base::Json codec_v3_config(std::string_view codec) {
  base::Json config = base::Json::object();
  if (codec == "transpose") config["order"] = {1, 0};
  if (codec == "reshape") config["shape"] = base::Json::array({-1});
  if (codec == "astype") config["encode_dtype"] = "<i2";
  if (codec == "zfp") config["mode"] = "reversible";
  if (codec == "bitround") config["keepbits"] = 8;
  if (codec == "cast_value") config["data_type"] = "int16";
  if (codec == "fixedscaleoffset") config = {{"astype", "<i2"}, {"scale", 10}, {"offset", 1}};
  return config;
}

}  // namespace headrace::test

// What codecs have in common that put a 32-bit checksum, little-endian, behind the bytes or before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "codec/stream_codec.h"

namespace headrace::codec {

using ChecksumFunction = std::uint32_t (*)(const std::byte* data, std::size_t bytes);

// Their numbers on the GPU: codecs/crc32c/checksum_device.cuh.
enum class ChecksumKind : std::uint32_t { kCrc32c, kCrc32, kAdler32, kFletcher32 };

// `name` is that of the codec's row and lasts as long as the program.
Codec make_checksum_codec(std::string_view name, ChecksumKind kind, ChecksumFunction checksum, bool at_start);

// The same from a configuration as numcodecs' crc32 and adler32 have it: {"location": "start" | "end"}, start by
// default.
Result<Codec> make_checksum_codec(std::string_view name, ChecksumKind kind, ChecksumFunction checksum,
                                  const base::Json& config, const CodecArgs& context);

}  // namespace headrace::codec

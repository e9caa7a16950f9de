// Common part of codecs that put a 32-bit little-endian checksum before or after the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "codec/stream_codec.h"

namespace headrace::codec {

using ChecksumFunction = std::uint32_t (*)(const std::byte* data, std::size_t bytes);

// The values are shared with GPU code: codecs/crc32c/checksum_device.cuh.
enum class ChecksumKind : std::uint32_t { kCrc32c, kCrc32, kAdler32, kFletcher32 };

// `name` is the codec's row name, with static lifetime.
Codec make_checksum_codec(std::string_view name, ChecksumKind kind, ChecksumFunction checksum, bool at_start);

// From a configuration as in numcodecs' crc32 and adler32: {"location": "start" | "end"}, with "start" as the default.
Result<Codec> make_checksum_codec(std::string_view name, ChecksumKind kind, ChecksumFunction checksum,
                                  const base::Json& config, const CodecArgs& context);

}  // namespace headrace::codec

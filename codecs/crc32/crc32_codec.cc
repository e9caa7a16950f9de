// numcodecs' crc32: gzip's CRC-32, four bytes little-endian, before (or after) the bytes that it covers.
#include <libdeflate.h>

#include "codec/checksum_codec.h"

namespace headrace::codec {
namespace {

std::uint32_t checksum(const std::byte* data, std::size_t bytes) {
  return bytes == 0 ? 0 : libdeflate_crc32(0, data, bytes);
}

}  // namespace

Result<Codec> make_crc32(const base::Json& config, const CodecArgs& context) {
  return make_checksum_codec("crc32", ChecksumKind::kCrc32, &checksum, config, context);
}

}  // namespace headrace::codec

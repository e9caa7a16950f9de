// numcodecs' adler32: zlib's Adler-32, four bytes little-endian, before (or after) the bytes that it covers.
#include <libdeflate.h>

#include "codec/checksum_codec.h"

namespace headrace::codec {
namespace {

std::uint32_t checksum(const std::byte* data, std::size_t bytes) {
  return bytes == 0 ? 1 : libdeflate_adler32(1, data, bytes);
}

}  // namespace

Result<Codec> make_adler32(const base::Json& config, const CodecArgs& context) {
  return make_checksum_codec("adler32", ChecksumKind::kAdler32, &checksum, config, context);
}

}  // namespace headrace::codec

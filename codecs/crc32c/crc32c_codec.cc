// crc32c: the bytes followed by their CRC-32C, four bytes little-endian (numcodecs may also put it before them).
#include "base/crc32c.h"
#include "base/json.h"
#include "codec/checksum_codec.h"
#include "codec/config_reader.h"

namespace headrace::codec {

Result<Codec> make_crc32c(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  int location = 0;
  if (reader.numcodecs_form()) {
    // null means the default, as in numcodecs.
    const base::Json* value = reader.any("location", Need::kOptional);
    if (value != nullptr && !value->is_null()) location = reader.choice("location", Need::kOptional, {"end", "start"});
  }
  HEADRACE_TRY(reader.finish());
  return make_checksum_codec("crc32c", ChecksumKind::kCrc32c, &base::crc32c, location == 1);
}

}  // namespace headrace::codec

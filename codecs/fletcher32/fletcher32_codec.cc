// numcodecs' fletcher32: the bytes, followed by their Fletcher-32, four bytes little-endian.
#include "codec/checksum_codec.h"
#include "codec/config_reader.h"
#include "fletcher32.h"

namespace headrace::codec {

Result<Codec> make_fletcher32(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  HEADRACE_TRY(reader.finish());
  return make_checksum_codec("fletcher32", ChecksumKind::kFletcher32, &fletcher32, false);
}

}  // namespace headrace::codec

// adler32 as numcodecs has it: the Adler-32 of zlib, four bytes little-endian, before the bytes it is of (or behind
// them).
#include <libdeflate.h>

#include "base/json.h"
#include "codec/checksum_codec.h"
#include "codec/config_reader.h"

namespace headrace::codec {
namespace {

std::uint32_t checksum(const std::byte* data, std::size_t bytes) {
  return bytes == 0 ? 1 : libdeflate_adler32(1, data, bytes);
}

}  // namespace

Result<std::unique_ptr<Codec>> make_adler32(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  // null stands for the default, as in numcodecs.
  const base::Json* value = reader.any("location", Need::kOptional);
  int location = 0;
  if (value != nullptr && !value->is_null()) location = reader.choice("location", Need::kOptional, {"start", "end"});
  HEADRACE_TRY(reader.finish());
  return make_checksum_codec("adler32", ChecksumKind::kAdler32, &checksum, location == 0);
}

}  // namespace headrace::codec

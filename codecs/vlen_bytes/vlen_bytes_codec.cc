// vlen-bytes: byte strings of any length, each preceded by its length.
#include "codec/config_reader.h"
#include "codec/variable_codec.h"

namespace headrace::codec {
namespace {

class VlenBytesCodec final : public VlenCodec {
 public:
  std::string_view name() const noexcept override { return "vlen-bytes"; }

 protected:
  TypeKind element_kind() const noexcept override { return TypeKind::kVariableBytes; }
};

}  // namespace

Result<Codec> make_vlen_bytes(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<VlenBytesCodec>());
}

}  // namespace headrace::codec

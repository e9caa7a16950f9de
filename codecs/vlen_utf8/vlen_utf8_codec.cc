// vlen-utf8: UTF-8 strings of any length, each preceded by its length.
#include "codec/config_reader.h"
#include "codec/variable_codec.h"

namespace headrace::codec {
namespace {

class VlenUtf8Codec final : public VlenCodec {
 public:
  std::string_view name() const noexcept override { return "vlen-utf8"; }

 protected:
  TypeKind element_kind() const noexcept override { return TypeKind::kString; }
};

}  // namespace

Result<Codec> make_vlen_utf8(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<VlenUtf8Codec>());
}

}  // namespace headrace::codec

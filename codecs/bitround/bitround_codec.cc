// bitround: floats (in v3 also integers) rounded to some bits of their mantissa. Rounding is not undone, so there is
// nothing to decode: the elements are the stored ones.
#include "codec/config_reader.h"
#include "codec/representation.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

class BitroundCodec final : public ArrayToArray, public BytesToBytes {
 public:
  std::string_view name() const noexcept override { return "bitround"; }
  const StreamCoder* coder() const noexcept override { return nullptr; }

  Status enter(Representation& elements) const override {
    const DataType& dtype = elements.dtype();
    if (dtype.kind == TypeKind::kInt || dtype.kind == TypeKind::kUint || dtype.kind == TypeKind::kFloat ||
        dtype.kind == TypeKind::kBfloat16 || dtype.kind == TypeKind::kComplex || dtype.kind == TypeKind::kDatetime ||
        dtype.kind == TypeKind::kTimedelta) {
      return {};
    }
    return corrupt("codec 'bitround' cannot round elements of type '%s'", dtype.name.substr(0, 60).c_str());
  }
};

}  // namespace

Result<Codec> make_bitround(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  reader.integer("keepbits", Need::kRequired, 0, INT64_MAX);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<BitroundCodec>(), context.zarr_format);
}

}  // namespace headrace::codec

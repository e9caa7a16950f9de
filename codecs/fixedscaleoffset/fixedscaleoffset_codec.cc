// numcodecs' fixedscaleoffset: (x - offset) * scale, rounded, stored as another type.
//
// Decoding is stored / scale + offset as NumPy computes it: integers and bools as float64, floats in their own type, to
// which scale and offset are rounded first. A cast to the decoded type follows.
#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/element_codec.h"

namespace headrace::codec {
namespace {

std::uint64_t number(ConfigReader& reader, const char* key, Number type) {
  const base::Json* value = reader.any(key, Need::kRequired);
  if (value == nullptr) return 0;
  if (!value->is_number()) {
    reader.refuse(key, "is not a number");
    return 0;
  }
  return numbers::convert(numbers::bits_of(value->get<double>()), Number::kFloat64, type);
}

}  // namespace

Result<Codec> make_fixedscaleoffset(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  ElementFilter op;
  op.kind = ElementFilter::Kind::kScale;
  HEADRACE_TRY(read_numpy_type(reader, context, "dtype", Need::kRequired, entering_type(context), op.decoded));
  HEADRACE_TRY(read_numpy_type(reader, context, "astype", Need::kOptional, op.decoded, op.stored));
  op.scale = number(reader, "scale", op.arithmetic());
  op.offset = number(reader, "offset", op.arithmetic());
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ElementCodec>("fixedscaleoffset", op), context.zarr_format);
}

}  // namespace headrace::codec

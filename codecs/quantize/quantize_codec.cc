// numcodecs' quantize: floats rounded to some decimal digits, possibly stored as narrower floats. Rounding is not
// undone, so decoding is just the cast.
#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/element_codec.h"

namespace headrace::codec {

Result<Codec> make_quantize(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  ElementFilter op;
  HEADRACE_TRY(read_numpy_type(reader, context, "dtype", Need::kRequired, entering_type(context), op.decoded));
  HEADRACE_TRY(read_numpy_type(reader, context, "astype", Need::kOptional, op.decoded, op.stored));
  reader.integer("digits", Need::kOptional, INT64_MIN, INT64_MAX);  // only the encoder needs it
  if (!is_float(op.decoded.number)) reader.refuse("dtype", "is not a floating-point type");
  if (!is_float(op.stored.number)) reader.refuse("astype", "is not a floating-point type");
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ElementCodec>("quantize", op), context.zarr_format);
}

}  // namespace headrace::codec

// numcodecs' astype: elements of one of NumPy's types stored as another.
#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/element_codec.h"

namespace headrace::codec {

Result<Codec> make_astype(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  ElementFilter op;
  HEADRACE_TRY(read_numpy_type(reader, context, "encode_dtype", Need::kRequired, std::nullopt, op.stored));
  HEADRACE_TRY(read_numpy_type(reader, context, "decode_dtype", Need::kRequired, entering_type(context), op.decoded));
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ElementCodec>("astype", op), context.zarr_format);
}

}  // namespace headrace::codec

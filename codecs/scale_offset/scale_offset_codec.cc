// scale_offset, registered for Zarr v3: (x - offset) * scale in the arithmetic of the array's type, which does not
// change.
//
// Decoding is stored / scale + offset. An integer that is not divisible by the scale, or a sum that overflows, is
// corrupt: the specification defines no rounding for it.
#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/element_codec.h"
#include "codec/scalar.h"

namespace headrace::codec {
namespace {

std::uint64_t scalar(ConfigReader& reader, const char* key, Number type, std::uint64_t fallback) {
  const base::Json* value = reader.any(key, Need::kOptional);
  if (value == nullptr) return fallback;
  const std::optional<std::uint64_t> bits = parse_scalar(*value, type);
  if (!bits) reader.refuse(key, "cannot be represented in the array's type");
  return bits.value_or(fallback);
}

}  // namespace

Result<Codec> make_scale_offset(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const std::optional<Element> type = entering_type(context);
  const Number number = type ? type->number : Number::kUint8;
  ElementFilter op;
  op.kind = ElementFilter::Kind::kScaleOffset;
  op.stored.number = op.decoded.number = number;
  op.offset = scalar(reader, "offset", number, 0);
  op.scale = scalar(reader, "scale", number, numbers::convert(1, Number::kUint8, number));
  if (!is_float(number)) {
    op.offset = numbers::extend(op.offset, number);
    op.scale = numbers::extend(op.scale, number);
    if (op.scale == 0) reader.refuse("scale", "is zero");
  }
  HEADRACE_TRY(reader.finish());
  if (!type || number == Number::kBool) {
    return unsupported("codec 'scale_offset' does not support elements of type '%s'",
                       context.dtype == nullptr ? "" : context.dtype->name.substr(0, 60).c_str());
  }
  return Codec(std::make_unique<ElementCodec>("scale_offset", op), context.zarr_format);
}

}  // namespace headrace::codec

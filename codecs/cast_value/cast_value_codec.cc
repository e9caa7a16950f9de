// cast_value, registered for Zarr v3: elements stored as another type that holds (about) the same values.
//
// A value that does not fit is corrupt unless `out_of_range` says otherwise; NaN never fits an integer. Values listed
// in scalar_map.decode are looked up first.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/element_codec.h"
#include "codec/scalar.h"

namespace headrace::codec {
namespace {

using ScalarMap = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
constexpr std::size_t kMaxMapEntries = 4096;

// Searches the map linearly for each element: meant for few special values.
class MappedCastCodec final : public ValueCodec {
 public:
  MappedCastCodec(const ElementFilter& op, ScalarMap map)
      : ValueCodec(op.stored, op.decoded), op_(op), map_(std::move(map)) {}
  std::string_view name() const noexcept override { return "cast_value"; }
  Prefix prefix(std::uint64_t) const noexcept override { return Prefix::kSameShare; }
  std::unique_ptr<StreamCoder> make_big_endian_coder() const override {
    ElementFilter op = op_;
    op.stored.big_endian = true;
    return std::make_unique<MappedCastCodec>(op, map_);
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    std::size_t count = 0;
    HEADRACE_TRY(count_elements(stream, count));
    const auto* src = reinterpret_cast<const unsigned char*>(stream.src);
    auto* dst = reinterpret_cast<unsigned char*>(stream.dst);
    const unsigned from = width_bytes(stored().number), to = width_bytes(decoded().number);
    for (std::size_t i = 0; i < count; ++i, src += from, dst += to) {
      const std::uint64_t bits = numbers::load_bits(src, stored());
      const auto found = std::find_if(map_.begin(), map_.end(), [&](const auto& row) { return same(row.first, bits); });
      std::uint64_t value = 0;
      if (found != map_.end()) {
        value = found->second;
      } else if (!apply(op_, bits, value)) {
        return corrupt("cast_value: element %zu has a value that the array's type cannot represent", i);
      }
      numbers::store_bits(dst, decoded(), value);
    }
    stream.dst_bytes = count * to;
    return {};
  }

 private:
  // Equal as values: all NaNs are equal, and so are the two zeros.
  bool same(std::uint64_t a, std::uint64_t b) const {
    const Number type = stored().number;
    if (!is_float(type)) return a == b;
    if (numbers::is_nan(a, type) || numbers::is_nan(b, type)) {
      return numbers::is_nan(a, type) && numbers::is_nan(b, type);
    }
    return a == b || ((a | b) & (numbers::sign_bit(type) - 1)) == 0;
  }

  ElementFilter op_;
  ScalarMap map_;
};

// Whether every value of `from` is exactly representable in `to`, a float type.
bool always_exact(Number from, Number to) {
  if (is_float(from)) return width_bytes(from) <= width_bytes(to);
  return 8 * width_bytes(from) - (is_signed_integer(from) ? 1 : 0) <= numbers::mantissa_bits(to) + 1;
}

Result<ScalarMap> parse_map(ConfigReader& reader, const base::Json& value, Number key, Number result) {
  ScalarMap out;
  if (!value.is_array() || value.size() > kMaxMapEntries) {
    reader.refuse("scalar_map", "holds something other than a list of at most 4096 pairs");
    return out;
  }
  for (const base::Json& row : value) {
    const bool pair = row.is_array() && row.size() == 2;
    const auto from = pair ? parse_scalar(row[0], key) : std::nullopt;
    const auto to = pair ? parse_scalar(row[1], result) : std::nullopt;
    if (!from || !to) {
      reader.refuse("scalar_map", "holds something other than pairs of values of the two types");
      return out;
    }
    out.emplace_back(*from, *to);
  }
  return out;
}

}  // namespace

Result<Codec> make_cast_value(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const std::optional<Element> entering = entering_type(context);
  ElementFilter op;
  op.kind = ElementFilter::Kind::kCast;
  if (entering) op.decoded = *entering;
  std::string type_name;
  if (const base::Json* value = reader.any("data_type", Need::kRequired); value != nullptr) {
    if (value->is_string()) {
      type_name = value->get<std::string>();
    } else if (value->is_object() && value->size() == 1 && value->contains("name") && (*value)["name"].is_string()) {
      type_name = (*value)["name"].get<std::string>();
    } else {
      reader.refuse("data_type", "is not the name of a data type");
    }
  }
  const std::optional<Number> number = number_of(numeric_type(type_name));
  if (number) op.stored.number = *number;
  op.rounding = static_cast<ElementFilter::Rounding>(
      reader.choice("rounding", Need::kOptional,
                    {"nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"}));
  const int range = reader.choice("out_of_range", Need::kOptional, {"clamp", "wrap"}, -1);
  op.range = range < 0    ? ElementFilter::Range::kError
             : range == 0 ? ElementFilter::Range::kClamp
                          : ElementFilter::Range::kWrap;
  if (range == 1 && number && is_float(*number))
    reader.refuse("out_of_range", "is 'wrap', which requires an integer data_type");
  const base::Json* map = reader.any("scalar_map", Need::kOptional);
  ScalarMap decode;
  if (map != nullptr) {
    if (!map->is_object()) {
      reader.refuse("scalar_map", "is not an object");
    } else {
      for (const auto& item : map->items()) {
        if (item.key() != "encode" && item.key() != "decode") reader.refuse("scalar_map", "holds an unknown key");
      }
      if (entering && number && map->contains("encode")) {
        HEADRACE_TRY(parse_map(reader, (*map)["encode"], op.decoded.number, op.stored.number).status());
      }
      if (entering && number && map->contains("decode")) {
        HEADRACE_TRY_ASSIGN(decode, parse_map(reader, (*map)["decode"], op.stored.number, op.decoded.number));
      }
    }
  }
  HEADRACE_TRY(reader.finish());
  if (!entering || op.decoded.number == Number::kBool) {
    return unsupported("codec 'cast_value' does not support elements of type '%s'",
                       context.dtype == nullptr ? "" : context.dtype->name.substr(0, 60).c_str());
  }
  if (!number || *number == Number::kBool) {
    return unsupported("codec 'cast_value' does not support conversion to type '%s'", type_name.substr(0, 60).c_str());
  }
  if (op.rounding != ElementFilter::Rounding::kNearestEven && is_float(op.decoded.number) &&
      !always_exact(op.stored.number, op.decoded.number)) {
    return unsupported("codec 'cast_value': floats rounded other than 'nearest-even'");
  }
  if (!decode.empty()) {
    return Codec(std::make_unique<MappedCastCodec>(op, std::move(decode)), context.zarr_format);
  }
  return Codec(std::make_unique<ElementCodec>("cast_value", op), context.zarr_format);
}

}  // namespace headrace::codec

// zfp as registered for v3 ("zfp": parameters in the configuration, no header) and as in numcodecs ("zfpy": all
// parameters in a header). In v3 both are array -> bytes codecs; in v2 zfpy decodes a stream of bytes.
#include <algorithm>
#include <optional>

#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/representation.h"
#include "codec/stream_codec.h"
#include "zfp_blocks.h"

namespace headrace::codec {
namespace {

constexpr int kMaxRank = 4;

// Parameters in the configuration for a stream without a header.
struct Mode {
  enum class Kind : std::uint8_t { kHeader, kReversible, kExpert, kAccuracy, kRate, kPrecision };
  Kind kind = Kind::kHeader;
  double number = 0;  // tolerance or bits per element
  unsigned precision = 0;
  unsigned min_bits = 0, max_bits = 0, max_precision = 0;
  int min_exponent = 0;
};

std::optional<ZfpNumber> number_of(const DataType& dtype) {
  switch (dtype.kind) {
    case TypeKind::kInt:
      return dtype.item_bytes == 1   ? ZfpNumber::kInt8
             : dtype.item_bytes == 2 ? ZfpNumber::kInt16
             : dtype.item_bytes == 4 ? ZfpNumber::kInt32
                                     : ZfpNumber::kInt64;
    case TypeKind::kUint:
      return dtype.item_bytes == 1   ? ZfpNumber::kUint8
             : dtype.item_bytes == 2 ? ZfpNumber::kUint16
             : dtype.item_bytes == 4 ? ZfpNumber::kUint32
                                     : ZfpNumber::kUint64;
    case TypeKind::kFloat:
      if (dtype.item_bytes == 4) return ZfpNumber::kFloat;
      if (dtype.item_bytes == 8) return ZfpNumber::kDouble;
      return std::nullopt;
    case TypeKind::kDatetime:
    case TypeKind::kTimedelta:
      return ZfpNumber::kInt64;
    default:
      return std::nullopt;
  }
}

ZfpNumber number_of(zfp_type type) {
  return type == zfp_type_int32   ? ZfpNumber::kInt32
         : type == zfp_type_int64 ? ZfpNumber::kInt64
         : type == zfp_type_float ? ZfpNumber::kFloat
                                  : ZfpNumber::kDouble;
}

class ZfpCodec final : public ArrayToBytes, public StreamCodec {
 public:
  // No number, no shape: both are in the header.
  ZfpCodec(Mode mode, std::optional<ZfpNumber> number, std::optional<ZfpShape> shape)
      : mode_(mode), number_(number), shape_(shape) {}
  std::string_view name() const noexcept override { return "zfp"; }
  const StreamCoder* coder() const noexcept override { return this; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<ZfpScratch>(); }

  Status enter(Representation& elements) const override {
    const std::size_t rank = elements.shape().size();
    if (rank > kMaxRank) return unsupported("codec 'zfp' with %zu axes; zfp supports up to 4", rank);
    elements.set_byte_order(false);
    return {};
  }
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    const std::uint64_t some = std::min<std::uint64_t>(decoded_bytes, 1ull << 58);
    if (!shape_ || !number_) return {4 * some + 65536};
    // A block with a single used element is as long as a full one. Buffers are sized by this result, so it is capped;
    // the cap permits two axes of extent 1 at the rate of the elements themselves.
    const std::uint64_t values = 1ull << (2 * shape_->rank);
    const std::uint64_t least = mode_.kind == Mode::Kind::kRate
                                    ? static_cast<std::uint64_t>(mode_.number * static_cast<double>(values))
                                    : mode_.min_bits;
    return {std::max(std::min(zfp_most_bytes(*shape_, *number_, least), 16 * some + 65536),
                     StreamCoder::encoded_size(decoded_bytes).most)};
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override {
    auto& own = static_cast<ZfpScratch&>(*scratch);
    own.load({stream.src, stream.src_bytes});
    ZfpShape shape;
    ZfpNumber number = number_.value_or(ZfpNumber::kInt8);
    if (mode_.kind == Mode::Kind::kHeader) {
      HEADRACE_TRY(read_header(own, stream, shape, number));
    } else {
      shape.extent[0] = stream.dst_capacity / width_bytes(number);
      if (shape_) shape = *shape_;
      set_mode(own.zfp, shape.rank, zfp_type_of(number));
    }
    if (!zfp_parameters_bounded(*own.zfp))
      return corrupt("zfp: unsupported block size of %u to %u bits", own.zfp->minbits, own.zfp->maxbits);
    // The shape may come from the header: it must be known to fit before anything is written.
    std::uint64_t bytes = width_bytes(number);
    for (const std::uint64_t extent : shape.extent) {
      if (extent != 0 && bytes > stream.dst_capacity / extent) bytes = ~std::uint64_t{0};
      if (bytes == ~std::uint64_t{0}) return wrong_size("zfp", bytes, stream);
      bytes *= extent;
    }
    HEADRACE_TRY(check_size("zfp", bytes, stream));
    HEADRACE_TRY(decode_zfp_blocks(own, stream.src_bytes, number, shape, stream.dst));
    stream.dst_bytes = static_cast<std::size_t>(bytes);
    return {};
  }

 private:
  void set_mode(zfp_stream* zfp, unsigned rank, zfp_type type) const {
    switch (mode_.kind) {
      case Mode::Kind::kAccuracy:
        zfp_stream_set_accuracy(zfp, mode_.number);
        break;
      case Mode::Kind::kRate:
        zfp_stream_set_rate(zfp, mode_.number, type, rank, 0);
        break;
      case Mode::Kind::kPrecision:
        zfp_stream_set_precision(zfp, mode_.precision);
        break;
      case Mode::Kind::kExpert:
        zfp_stream_set_params(zfp, mode_.min_bits, mode_.max_bits, mode_.max_precision, mode_.min_exponent);
        break;
      default:
        zfp_stream_set_reversible(zfp);
    }
  }

  Status read_header(ZfpScratch& scratch, const EncodedStream& stream, ZfpShape& shape, ZfpNumber& number) const {
    if (zfp_read_header(scratch.zfp, scratch.field, ZFP_HEADER_FULL) == 0 ||
        stream_rtell(zfp_stream_bit_stream(scratch.zfp)) > 8 * stream.src_bytes) {
      return corrupt("zfp: stream of %zu bytes does not begin with a header", stream.src_bytes);
    }
    const ZfpNumber stored = number_of(scratch.field->type);
    if (number_ && stored != number) return corrupt("zfp: the header's type differs from the metadata's");
    number = stored;
    std::size_t extents[kMaxRank] = {scratch.field->nx, scratch.field->ny, scratch.field->nz, scratch.field->nw};
    shape.rank = std::max(1u, zfp_field_dimensionality(scratch.field));
    for (unsigned i = 0; i < kMaxRank; ++i) shape.extent[i] = std::max<std::uint64_t>(extents[i], 1);
    if (shape_ && (shape.rank != shape_->rank || shape.extent != shape_->extent)) {
      return corrupt("zfp: the header's shape differs from the metadata's");
    }
    return {};
  }

  Mode mode_;
  std::optional<ZfpNumber> number_;
  std::optional<ZfpShape> shape_;
};

// Nullopt if the shape is unknown, or if entering the codec refuses it.
std::optional<ZfpShape> shape_of(const CodecArgs& context) {
  if (context.shape == nullptr || context.shape->size() > kMaxRank) return std::nullopt;
  ZfpShape out;
  out.rank = std::max(1u, static_cast<unsigned>(context.shape->size()));
  std::copy(context.shape->rbegin(), context.shape->rend(), out.extent.begin());
  return out;
}

double read_number(ConfigReader& reader, const char* key, double max) {
  const base::Json* value = reader.any(key, Need::kRequired);
  if (value == nullptr) return 0;
  if (!value->is_number() || !(value->get<double>() >= 0) || value->get<double>() > max) {
    reader.refuse(key, "is not a number, or out of range");
    return 0;
  }
  return value->get<double>();
}

// Limits are those of libzfp's own header, except for rates that no element can use.
Mode read_mode(ConfigReader& reader) {
  Mode mode;
  const int choice = reader.choice("mode", Need::kRequired,
                                   {"reversible", "expert", "fixed_accuracy", "fixed_rate", "fixed_precision"});
  mode.kind = static_cast<Mode::Kind>(choice + 1);
  const auto count = [&](const char* key, std::int64_t min, std::int64_t max) {
    return static_cast<unsigned>(reader.integer(key, Need::kRequired, min, max, min));
  };
  if (mode.kind == Mode::Kind::kAccuracy) mode.number = read_number(reader, "tolerance", 1.7976931348623157e308);
  if (mode.kind == Mode::Kind::kRate) mode.number = read_number(reader, "rate", 128);
  if (mode.kind == Mode::Kind::kPrecision) mode.precision = count("precision", 0, UINT32_MAX);
  if (mode.kind == Mode::Kind::kExpert) {
    mode.min_bits = count("minbits", 0, 1 << 15);
    mode.max_bits = count("maxbits", 1, UINT32_MAX);
    mode.max_precision = count("maxprec", 1, ZFP_MAX_PREC);
    mode.min_exponent = static_cast<int>(reader.integer("minexp", Need::kRequired, INT32_MIN, INT32_MAX));
    if (mode.min_bits > mode.max_bits) reader.refuse("minbits", "is more than 'maxbits'");
  }
  return mode;
}

}  // namespace

Result<Codec> make_zfp(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  Mode mode;
  if (reader.numcodecs_form() || context.zarr_format == 2) {
    // numcodecs' encoder settings; the header repeats them.
    for (const char* key : {"mode", "tolerance", "rate", "precision", "compression_kwargs"}) {
      reader.any(key, Need::kOptional);
    }
  } else {
    mode = read_mode(reader);
  }
  HEADRACE_TRY(reader.finish());
  if (context.zarr_format == 2) {
    return Codec(std::make_unique<ZfpCodec>(mode, std::nullopt, std::nullopt), context.zarr_format);
  }
  if (context.dtype == nullptr) return Status(Code::kInternal, Layer::kCodec, "zfp: the data type is unknown");
  const std::optional<ZfpNumber> number = number_of(*context.dtype);
  if (!number)
    return unsupported("codec 'zfp' does not support elements of type '%s'", context.dtype->name.substr(0, 60).c_str());
  return Codec(std::make_unique<ZfpCodec>(mode, number, shape_of(context)), context.zarr_format);
}

}  // namespace headrace::codec

// numcodecs' delta: the first element, then the difference of each element to the one before, possibly as another type.
//
// Decoding is NumPy's cumsum() in the type to which it promotes both, followed by a cast: integers wrap around, floats
// are added in order with rounding at each step, bools are OR-ed. For bools this does not invert the encoder's
// differences, but all readers do it.
#include <cstring>
#include <string>
#include <type_traits>

#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/element_filter.h"
#include "codec/value_codec.h"

namespace headrace::codec {
namespace {

template <class Word>
Word reversed(Word value) {
  if constexpr (sizeof(Word) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(Word) == 4) {
    return __builtin_bswap32(value);
  } else if constexpr (sizeof(Word) == 8) {
    return __builtin_bswap64(value);
  } else {
    return value;
  }
}

template <class Word>
Word load(const std::byte* at, bool big_endian) {
  Word value;
  std::memcpy(&value, at, sizeof value);
  return big_endian ? reversed(value) : value;
}
template <class Word>
void store(std::byte* at, bool big_endian, Word value) {
  if (big_endian) value = reversed(value);
  std::memcpy(at, &value, sizeof value);
}

// Integers of the same width on both sides.
template <class Word>
void sum_words(const std::byte* src, bool src_big, std::byte* dst, bool dst_big, std::size_t count) {
  Word sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum = static_cast<Word>(sum + load<Word>(src + i * sizeof(Word), src_big));
    store<Word>(dst + i * sizeof(Word), dst_big, sum);
  }
}
template <class Word>
void differences(const std::byte* src, bool src_big, std::byte* dst, bool dst_big, std::size_t count) {
  Word last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Word value = load<Word>(src + i * sizeof(Word), src_big);
    store<Word>(dst + i * sizeof(Word), dst_big, static_cast<Word>(value - last));
    last = value;
  }
}

template <class Function>
void with_word(unsigned width, const Function& function) {
  switch (width) {
    case 1:
      return function(std::uint8_t{});
    case 2:
      return function(std::uint16_t{});
    case 4:
      return function(std::uint32_t{});
    default:
      return function(std::uint64_t{});
  }
}

bool same_words(Element stored, Element decoded) {
  const auto integer = [](Number n) { return n != Number::kBool && !is_float(n); };
  if (!integer(stored.number) || !integer(decoded.number)) return false;
  // NumPy adds int64 and uint64 as float64.
  return width_bytes(stored.number) == width_bytes(decoded.number) &&
         !is_float(numbers::promote(stored.number, decoded.number));
}

class DeltaEncoder final : public Encoder {
 public:
  DeltaEncoder(Element stored, Element decoded) : stored_(stored), decoded_(decoded) {}

  std::size_t bound_bytes(std::size_t plain_bytes) const override { return plain_bytes; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const unsigned width = width_bytes(decoded_.number);
    if (plain.size() % width != 0) {
      return Status(Code::kInvalidArgument, Layer::kCodec,
                    "delta: " + std::to_string(plain.size()) + " bytes are not a multiple of the element size " +
                        std::to_string(width));
    }
    with_word(width, [&](auto word) {
      differences<decltype(word)>(plain.data(), decoded_.big_endian, out.data(), stored_.big_endian,
                                  plain.size() / width);
    });
    return plain.size();
  }

 private:
  Element stored_, decoded_;
};

class DeltaCodec final : public ValueCodec {
 public:
  DeltaCodec(Element stored, Element decoded) : ValueCodec(stored, decoded) {}
  std::string_view name() const noexcept override { return "delta"; }
  std::unique_ptr<StreamCoder> make_big_endian_coder() const override {
    return std::make_unique<DeltaCodec>(Element{stored().number, true}, decoded());
  }

  // An element depends only on the elements before it.
  Prefix prefix(std::uint64_t) const noexcept override { return Prefix::kSameShare; }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    if (!same_words(stored(), decoded())) {
      return Status(Code::kUnsupported, Layer::kCodec,
                    "codec 'delta' can only encode integers of equal width on both sides");
    }
    return std::unique_ptr<Encoder>(new DeltaEncoder(stored(), decoded()));
  }

  // Sums of floats depend on the order of additions, and bools are not added.
  bool describe_for_device(device::DecodeStage& stage) const override {
    if (decoded().number == Number::kBool) return false;
    if (is_float(numbers::promote(stored().number, decoded().number))) return false;
    stage.codec = name();
    ElementFilter op;
    op.stored = stored();
    op.decoded = decoded();
    stage.parameters[0] = op.pack()[0];
    return true;
  }

 protected:
  bool elementwise() const noexcept override { return false; }
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    std::size_t count = 0;
    HEADRACE_TRY(count_elements(stream, count));
    const unsigned from = width_bytes(stored().number), to = width_bytes(decoded().number);
    stream.dst_bytes = count * to;
    if (same_words(stored(), decoded())) {
      with_word(to, [&](auto word) {
        sum_words<decltype(word)>(stream.src, stored().big_endian, stream.dst, decoded().big_endian, count);
      });
      return {};
    }
    const auto* src = reinterpret_cast<const unsigned char*>(stream.src);
    auto* dst = reinterpret_cast<unsigned char*>(stream.dst);
    const Number type = numbers::promote(stored().number, decoded().number);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i, src += from, dst += to) {
      const std::uint64_t value = numbers::convert(numbers::load_bits(src, stored()), stored().number, type);
      if (i == 0) {
        sum = value;  // not added to zero, which would turn -0 into 0
      } else if (type == Number::kBool) {
        sum = sum != 0 || value != 0 ? 1 : 0;
      } else if (is_float(type)) {
        sum = numbers::combine(numbers::Arithmetic::kAdd, sum, value, type);
      } else {
        sum = numbers::low_bits(sum + value, type);
      }
      numbers::store_bits(dst, decoded(), numbers::convert(sum, type, decoded().number));
    }
    return {};
  }
};

}  // namespace

Result<Codec> make_delta(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  Element stored, decoded;
  HEADRACE_TRY(read_numpy_type(reader, context, "dtype", Need::kRequired, entering_type(context), decoded));
  HEADRACE_TRY(read_numpy_type(reader, context, "astype", Need::kOptional, decoded, stored));
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<DeltaCodec>(stored, decoded), context.zarr_format);
}

}  // namespace headrace::codec

// ValueCodec: base of codecs that change the values of elements ("filters").
//
// In v3 they are array -> array codecs with a coder. They get elements from the next codec in native order; only the
// last of them also reverses the byte order that `bytes` gave the stored elements. In v2 they are bytes -> bytes codecs
// whose configuration gives the byte order of both sides.
#pragma once

#include <optional>
#include <string_view>

#include "codec/config_reader.h"
#include "codec/numbers.h"
#include "codec/representation.h"
#include "codec/stream_codec.h"

namespace headrace::codec {

class ValueCodec : public ArrayToArray, public StreamCodec {
 public:
  std::string_view name() const noexcept override = 0;
  Status enter(Representation& elements) const override;
  const StreamCoder* coder() const noexcept final { return this; }
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override;

 protected:
  ValueCodec(Element stored, Element decoded) : stored_(stored), decoded_(decoded) {}
  // Whether each element is encoded independently, so that order does not matter.
  virtual bool elementwise() const noexcept { return true; }
  // The number of elements in a stream, after checking that they are whole and fit.
  Status count_elements(EncodedStream& stream, std::size_t& count) const;

  const Element& stored() const noexcept { return stored_; }
  const Element& decoded() const noexcept { return decoded_; }

 private:
  Element stored_, decoded_;
};

// Parses NumPy's name of an integer, float or bool type: "<f4", "i2", "|b1", "int16". Nothing for other types.
std::optional<Element> parse_numpy_type(std::string_view text);
// The number type of an element. Nothing for other types.
std::optional<Number> number_of(const DataType& dtype);
DataType type_of(Number number);

// Reads numcodecs' data type under `key`, or uses the fallback if it is absent. A type that is not a numpy number fails
// with kUnsupported or kCorrupt. In v3 the array's chain determines the byte order, not this type.
Status read_numpy_type(ConfigReader& reader, const CodecArgs& context, const char* key, Need need,
                       std::optional<Element> fallback, Element& out);
// The type that v3 metadata gives to the elements that enter the codec.
std::optional<Element> entering_type(const CodecArgs& context);

}  // namespace headrace::codec

// ValueCodec: what codecs have in common that change the values of elements ("filters").
//
// In v3 they are array -> array codecs with a coder: their elements come from the codec behind them in native order,
// except that the last one undoes the byte order `bytes` gave the stored ones as it goes. In v2, and only there, they
// are bytes -> bytes codecs whose configuration gives the byte order on both sides.
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
  // Whether each element is encoded by itself, so that their order does not matter.
  virtual bool elementwise() const noexcept { return true; }
  // Number of elements in a stream, once it is known to be whole elements that fit.
  Status count_elements(EncodedStream& stream, std::size_t& count) const;

  const Element& stored() const noexcept { return stored_; }
  const Element& decoded() const noexcept { return decoded_; }

 private:
  Element stored_, decoded_;
};

// NumPy's name of an integer, float or bool type: "<f4", "i2", "|b1", "int16". Nothing if it is another type.
std::optional<Element> parse_numpy_type(std::string_view text);
// The numbers of an element. Nothing if it is another type.
std::optional<Number> number_of(const DataType& dtype);
DataType type_of(Number number);

// Reads numcodecs' data type under `key`; the fallback if it is absent. A type that is none of numpy's numbers fails
// with kUnsupported or kCorrupt. In v3 the array's chain gives the byte order, not the type.
Status read_numpy_type(ConfigReader& reader, const CodecArgs& context, const char* key, Need need,
                       std::optional<Element> fallback, Element& out);
// The type that v3 metadata gives the elements which enter the codec.
std::optional<Element> entering_type(const CodecArgs& context);

}  // namespace headrace::codec

// ValueCodec: what codecs have in common that change the values of elements ("filters").
//
// In v3 they are array -> array codecs with a decode stage of their own: their elements come from the codec behind them
// in native order, except that the last one undoes the byte order `bytes` gave the stored ones as it goes. In v2, and
// only there, they are bytes -> bytes codecs whose configuration gives the byte order on both sides.
#pragma once

#include <optional>
#include <string_view>

#include "codec/config_reader.h"
#include "codec/numbers.h"
#include "codec/stream_codec.h"

namespace headrace::codec {

class ValueCodec : public StreamCodec {
 public:
  Kind kind() const noexcept final { return zarr_format_ == 2 ? Kind::kBytesToBytes : Kind::kArrayToArray; }
  bool has_decode_stage() const noexcept override { return true; }
  Status resolve_layout(const DataType& dtype, std::vector<std::uint64_t>& shape, Layout& layout) const override;
  DataType encoded_type(const DataType& dtype) const override;
  void set_stored_byte_order(bool big_endian) override { stored_.big_endian = big_endian; }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override;
  bool fixed_size(std::uint64_t decoded_bytes, std::uint64_t& encoded_bytes) const override;

 protected:
  ValueCodec(Element stored, Element decoded, int zarr_format)
      : stored_(stored), decoded_(decoded), zarr_format_(zarr_format) {}
  // Number of elements in a stream, once it is known to be whole elements that fit.
  Status count_elements(Stream& stream, std::size_t& count) const;

  const Element& stored() const noexcept { return stored_; }
  const Element& decoded() const noexcept { return decoded_; }

 private:
  Element stored_, decoded_;
  int zarr_format_;
};

// NumPy's name of an integer, float or bool type: "<f4", "i2", "|b1", "int16". Nothing if it is another type.
std::optional<Element> parse_numpy_type(std::string_view text);
// The numbers of an element. Nothing if it is another type.
std::optional<Number> number_of(const DataType& dtype);
DataType type_of(Number number);

// Reads numcodecs' data type under `key`; the fallback if it is absent. A type that is none of numpy's numbers fails
// with kUnsupported or kCorrupt. In v3 the array's chain gives the byte order, not the type.
Status read_numpy_type(ConfigReader& reader, const Context& context, const char* key, Need need,
                       std::optional<Element> fallback, Element& out);
// The type that v3 metadata gives the elements which enter the codec.
std::optional<Element> entering_type(const Context& context);

}  // namespace headrace::codec

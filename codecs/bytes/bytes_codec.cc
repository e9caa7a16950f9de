// bytes: elements in C order. Decodes nothing; it defines the byte order of the elements.
#include "codec/config_reader.h"
#include "codec/representation.h"

namespace headrace::codec {
namespace {

enum class Endian : std::uint8_t { kNone, kLittle, kBig };

class BytesCodec final : public ArrayToBytes {
 public:
  explicit BytesCodec(Endian endian) : endian_(endian) {}
  std::string_view name() const noexcept override { return "bytes"; }

  Status enter(Representation& elements) const override {
    const DataType& dtype = elements.dtype();
    const bool has_order = dtype.uniform_swap_width() != 1;
    // Only the legacy alias "structured" may lack the key; it then means little-endian (registered extension "struct").
    if (has_order && endian_ == Endian::kNone && dtype.name != "structured") {
      return Status(Code::kCorrupt, Layer::kCodec,
                    "codec 'bytes': configuration key 'endian' is missing, and elements of type '" + dtype.name +
                        "' have a byte order");
    }
    elements.set_byte_order(has_order && endian_ == Endian::kBig);
    return {};
  }

 private:
  Endian endian_;
};

}  // namespace

Result<Codec> make_bytes(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const int endian = reader.choice("endian", Need::kOptional, {"little", "big"}, -1);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<BytesCodec>(endian < 0 ? Endian::kNone : endian == 0 ? Endian::kLittle : Endian::kBig));
}

}  // namespace headrace::codec

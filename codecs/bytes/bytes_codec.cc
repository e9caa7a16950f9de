// bytes: elements one after the other in C order. Decodes nothing; it says in which byte order the elements are.
#include "codec/config_reader.h"

namespace headrace::codec {
namespace {

enum class Endian : std::uint8_t { kNone, kLittle, kBig };

class BytesCodec final : public Codec {
 public:
  explicit BytesCodec(Endian endian) : endian_(endian) {}
  std::string_view name() const noexcept override { return "bytes"; }
  Kind kind() const noexcept override { return Kind::kArrayToBytes; }

  Status resolve_layout(const DataType& dtype, std::vector<std::uint64_t>&, Layout& layout) const override {
    const bool has_order = dtype.uniform_swap_width() != 1;
    // Only the legacy alias "structured" may lack the key and is then little-endian (registered extension "struct").
    if (has_order && endian_ == Endian::kNone && dtype.name != "structured") {
      return Status(Code::kCorrupt, Layer::kCodec,
                    "codec 'bytes': configuration key 'endian' is missing, and elements of type '" + dtype.name +
                        "' have a byte order");
    }
    layout.byte_swapped = has_order && endian_ == Endian::kBig;
    return {};
  }

 private:
  Endian endian_;
};

}  // namespace

Result<std::unique_ptr<Codec>> make_bytes(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  const int endian = reader.choice("endian", Need::kOptional, {"little", "big"}, -1);
  HEADRACE_TRY(reader.finish());
  return std::unique_ptr<Codec>(new BytesCodec(endian < 0    ? Endian::kNone
                                               : endian == 0 ? Endian::kLittle
                                                             : Endian::kBig));
}

}  // namespace headrace::codec

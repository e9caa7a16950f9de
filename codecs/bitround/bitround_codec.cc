// bitround: floats (in v3 integers too) rounded to some bits of their mantissa. Rounding is not undone, so a chain has
// nothing to decode; the elements are the stored ones.
#include <cstring>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

class BitroundCodec final : public StreamCodec {
 public:
  explicit BitroundCodec(int zarr_format) : zarr_format_(zarr_format) {}
  std::string_view name() const noexcept override { return "bitround"; }
  Kind kind() const noexcept override { return zarr_format_ == 2 ? Kind::kBytesToBytes : Kind::kArrayToArray; }
  bool has_decode_stage() const noexcept override { return false; }

  Status resolve_layout(const DataType& dtype, std::vector<std::uint64_t>& shape, Layout& layout) const override {
    if (kind() != Kind::kArrayToArray) return Codec::resolve_layout(dtype, shape, layout);
    if (dtype.kind == TypeKind::kInt || dtype.kind == TypeKind::kUint || dtype.kind == TypeKind::kFloat ||
        dtype.kind == TypeKind::kBfloat16 || dtype.kind == TypeKind::kComplex || dtype.kind == TypeKind::kDatetime ||
        dtype.kind == TypeKind::kTimedelta) {
      return {};
    }
    return corrupt("codec 'bitround' cannot round elements of type '%s'", dtype.name.substr(0, 60).c_str());
  }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes; }
  bool fixed_size(std::uint64_t decoded_bytes, std::uint64_t& encoded_bytes) const override {
    encoded_bytes = decoded_bytes;
    return true;
  }

 protected:
  Status decode_stream(Stream& stream, Scratch*) const override {
    if (stream.exact ? stream.src_bytes != stream.dst_capacity : stream.src_bytes > stream.dst_capacity) {
      return wrong_size("bitround", stream.src_bytes, stream);
    }
    std::memcpy(stream.dst, stream.src, stream.src_bytes);
    stream.dst_bytes = stream.src_bytes;
    return {};
  }

 private:
  int zarr_format_;
};

}  // namespace

Result<std::unique_ptr<Codec>> make_bitround(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  reader.integer("keepbits", Need::kRequired, 0, INT64_MAX);
  HEADRACE_TRY(reader.finish());
  return std::unique_ptr<Codec>(new BitroundCodec(context.zarr_format));
}

}  // namespace headrace::codec

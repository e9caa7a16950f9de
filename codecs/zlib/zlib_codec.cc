// zlib: one RFC 1950 stream. Nothing may follow it.
#include <libdeflate.h>

#include "codec/config_reader.h"
#include "codec/library_handle.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

struct ZlibScratch final : Scratch {
  LibraryHandle<libdeflate_decompressor, &libdeflate_free_decompressor> inflater{libdeflate_alloc_decompressor()};
};

// libdeflate compresses better than zlib at the same level; any inflater reads its output.
class ZlibEncoder final : public Encoder {
 public:
  explicit ZlibEncoder(int level) : deflater_(libdeflate_alloc_compressor(level)) {}

  std::size_t bound_bytes(std::size_t plain_bytes) const override {
    return libdeflate_zlib_compress_bound(deflater_.get(), plain_bytes);
  }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const std::size_t bytes =
        libdeflate_zlib_compress(deflater_.get(), plain.data(), plain.size(), out.data(), out.size());
    if (bytes == 0) return Status(Code::kInternal, Layer::kCodec, "zlib: the encoder's own bound is too small");
    return bytes;
  }

 private:
  LibraryHandle<libdeflate_compressor, &libdeflate_free_compressor> deflater_;
};

class ZlibCodec final : public StreamCodec {
 public:
  explicit ZlibCodec(int level) : level_(level) {}
  std::string_view name() const noexcept override { return "zlib"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<ZlibScratch>(); }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new ZlibEncoder(level_));
  }
  // parameters[0]: a DeflateKind.
  bool describe_for_device(device::DecodeStage& stage) const override {
    stage.codec = "zlib";
    stage.parameters[0] = 1;
    return true;
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override {
    std::size_t in = 0, out = 0;
    switch (libdeflate_zlib_decompress_ex(static_cast<ZlibScratch*>(scratch)->inflater.get(), stream.src,
                                          stream.src_bytes, stream.dst, stream.dst_capacity, &in, &out)) {
      case LIBDEFLATE_SUCCESS:
        break;
      case LIBDEFLATE_INSUFFICIENT_SPACE:
        needs_more_room(stream);
        return corrupt("zlib: stream decodes to more than the %zu bytes expected", stream.dst_capacity);
      default:
        return corrupt("zlib: stream of %zu bytes is damaged", stream.src_bytes);
    }
    if (in != stream.src_bytes) return corrupt("zlib: %zu bytes follow the end of the stream", stream.src_bytes - in);
    stream.dst_bytes = out;
    return {};
  }

 private:
  int level_;
};

}  // namespace

Result<Codec> make_zlib(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  // -1 is zlib's default, 6; numcodecs writes 1 by default.
  const std::int64_t level = reader.integer("level", Need::kOptional, -1, 9, 1);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ZlibCodec>(level < 0 ? 6 : static_cast<int>(level)));
}

}  // namespace headrace::codec

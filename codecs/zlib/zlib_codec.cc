// zlib: one RFC 1950 stream. Nothing may follow it.
#include <libdeflate.h>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

struct ZlibScratch final : Scratch {
  ZlibScratch() : inflater(libdeflate_alloc_decompressor()) {
    if (inflater == nullptr) throw std::bad_alloc();
  }
  ~ZlibScratch() override { libdeflate_free_decompressor(inflater); }
  ZlibScratch(const ZlibScratch&) = delete;
  ZlibScratch& operator=(const ZlibScratch&) = delete;
  libdeflate_decompressor* inflater;
};

class ZlibCodec final : public StreamCodec {
 public:
  std::string_view name() const noexcept override { return "zlib"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<ZlibScratch>(); }

 protected:
  Status decode_stream(Stream& stream, Scratch* scratch) const override {
    std::size_t in = 0, out = 0;
    switch (libdeflate_zlib_decompress_ex(static_cast<ZlibScratch*>(scratch)->inflater, stream.src, stream.src_bytes,
                                          stream.dst, stream.dst_capacity, &in, &out)) {
      case LIBDEFLATE_SUCCESS:
        break;
      case LIBDEFLATE_INSUFFICIENT_SPACE:
        return corrupt("zlib: stream decodes to more than the %zu bytes expected", stream.dst_capacity);
      default:
        return corrupt("zlib: stream of %zu bytes is damaged", stream.src_bytes);
    }
    if (in != stream.src_bytes) return corrupt("zlib: %zu bytes follow the end of the stream", stream.src_bytes - in);
    stream.dst_bytes = out;
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Codec>> make_zlib(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  reader.integer("level", Need::kOptional, -1, 9);
  HEADRACE_TRY(reader.finish());
  return std::unique_ptr<Codec>(new ZlibCodec);
}

}  // namespace headrace::codec

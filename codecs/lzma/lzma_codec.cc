// numcodecs' lzma, which is Python's lzma module: .xz streams, .lzma ("alone") streams, or raw streams whose filters
// are in the configuration. Streams with a header may be concatenated; nothing else may follow the last one.
#include <algorithm>
#include <cstring>

#include "codec/stream_codec.h"
#include "lzma_filters.h"
#include "xz_decoder.h"

namespace headrace::codec {
namespace {

constexpr std::byte kXzMagic[] = {std::byte{0xFD}, std::byte{'7'}, std::byte{'z'},
                                  std::byte{'X'},  std::byte{'Z'}, std::byte{0}};
// Header of an .lzma stream: properties, dictionary size, decoded size.
constexpr std::size_t kAloneHeaderBytes = 13;

class LzmaCodec final : public StreamCodec {
 public:
  explicit LzmaCodec(LzmaConfig config) : config_(std::make_shared<const LzmaConfig>(std::move(config))) {}
  std::string_view name() const noexcept override { return "lzma"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<LzmaScratch>(); }
  Result<std::unique_ptr<Encoder>> make_encoder() const override { return make_lzma_encoder(config_); }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override {
    auto& own = static_cast<LzmaScratch&>(*scratch);
    std::size_t at = 0;
    do {
      HEADRACE_TRY(decode_one(stream, at, own));
    } while (at < stream.src_bytes && config_->format != LzmaFormat::kRaw);
    // A second raw stream cannot be distinguished from damage: LZMA2 accepts any zero byte as a stream.
    if (at < stream.src_bytes) return corrupt("lzma: %zu bytes follow the raw stream", stream.src_bytes - at);
    return {};
  }

 private:
  Status decode_one(EncodedStream& stream, std::size_t& at, LzmaScratch& scratch) const {
    switch (config_->format) {
      case LzmaFormat::kXz:
        return decode_xz(stream, at, scratch);
      case LzmaFormat::kAlone:
        return decode_alone(stream, at, scratch);
      case LzmaFormat::kRaw:
        return decode_raw(stream, at, scratch);
      case LzmaFormat::kAuto:
        break;
    }
    const std::size_t left = std::min(stream.src_bytes - at, sizeof kXzMagic);
    const bool is_xz = std::equal(kXzMagic, kXzMagic + left, stream.src + at);
    return is_xz ? decode_xz(stream, at, scratch) : decode_alone(stream, at, scratch);
  }

  Status decode_alone(EncodedStream& stream, std::size_t& at, LzmaScratch& scratch) const {
    const char* const what = ".lzma stream";
    const std::size_t begin = at;
    if (stream.src_bytes - at < kAloneHeaderBytes) {
      return corrupt("lzma: .lzma stream at byte %zu is cut off after %zu bytes", begin, stream.src_bytes);
    }
    // liblzma allocates the dictionary that the header declares, so it gets a modified header that declares only what
    // is needed.
    std::uint8_t header[kAloneHeaderBytes];
    std::memcpy(header, stream.src + at, sizeof header);
    std::uint32_t dictionary = 0;
    for (int i = 0; i < 4; ++i) dictionary |= std::uint32_t{header[1 + i]} << (8 * i);
    dictionary = enough_dictionary(dictionary, stream);
    for (int i = 0; i < 4; ++i) header[1 + i] = static_cast<std::uint8_t>(dictionary >> (8 * i));
    lzma_ret result = lzma_alone_decoder(&scratch.coder, UINT64_MAX);
    if (result != LZMA_OK) return lzma_failure(result, what, begin, stream);
    scratch.coder.next_in = header;
    scratch.coder.avail_in = sizeof header;
    // Without room for output, liblzma would not read the header, although that produces none.
    std::uint8_t nothing;
    scratch.coder.next_out = &nothing;
    scratch.coder.avail_out = 1;
    result = lzma_code(&scratch.coder, LZMA_RUN);
    if (result != LZMA_OK) return lzma_failure(result, what, begin, stream);
    if (scratch.coder.avail_in != 0 || scratch.coder.avail_out != 1)
      return lzma_failure(LZMA_DATA_ERROR, what, begin, stream);
    at += sizeof header;
    return run_lzma_coder(what, stream, at, scratch);
  }

  Status decode_raw(EncodedStream& stream, std::size_t& at, LzmaScratch& scratch) const {
    const char* const what = "raw stream";
    LzmaFilters::FilterList chain = config_->filters.chain();
    // The chain ends with LZMA1 or LZMA2; reading the configuration checked this.
    lzma_filter* last = chain.filters;
    while (last[1].id != LZMA_VLI_UNKNOWN) ++last;
    lzma_options_lzma options = *static_cast<const lzma_options_lzma*>(last->options);
    options.dict_size = enough_dictionary(options.dict_size, stream);
    last->options = &options;
    const lzma_ret result = lzma_raw_decoder(&scratch.coder, chain.filters);
    if (result != LZMA_OK) return lzma_failure(result, what, at, stream);
    return run_lzma_coder(what, stream, at, scratch);
  }

  std::shared_ptr<const LzmaConfig> config_;
};

}  // namespace

Result<Codec> make_lzma(const base::Json& config, const CodecArgs& context) {
  HEADRACE_TRY_ASSIGN(LzmaConfig read, read_lzma_config(config, context));
  return Codec(std::make_unique<LzmaCodec>(std::move(read)));
}

}  // namespace headrace::codec

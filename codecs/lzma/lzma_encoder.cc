#include "lzma_filters.h"

namespace headrace::codec {
namespace {

class LzmaEncoder final : public Encoder {
 public:
  explicit LzmaEncoder(std::shared_ptr<const LzmaConfig> config) : config_(std::move(config)) {}
  ~LzmaEncoder() override { lzma_end(&coder_); }
  LzmaEncoder(const LzmaEncoder&) = delete;
  LzmaEncoder& operator=(const LzmaEncoder&) = delete;

  // LZMA2 stores incompressible data; LZMA1 cannot.
  std::size_t bound_bytes(std::size_t plain_bytes) const override {
    return config_->format == LzmaFormat::kXz ? lzma_stream_buffer_bound(plain_bytes) + 1024
                                              : plain_bytes + plain_bytes / 5 + 1024;
  }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const lzma_ret started = start();
    if (started == LZMA_MEM_ERROR) return Status::out_of_memory();
    if (started != LZMA_OK) {
      return Status(Code::kUnsupported, Layer::kCodec,
                    "lzma: liblzma cannot encode with this preset, check or filters");
    }
    coder_.next_in = reinterpret_cast<const std::uint8_t*>(plain.data());
    coder_.avail_in = plain.size();
    coder_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    coder_.avail_out = out.size();
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK) result = lzma_code(&coder_, LZMA_FINISH);
    if (result == LZMA_MEM_ERROR) return Status::out_of_memory();
    if (result != LZMA_STREAM_END) {
      return Status(Code::kInternal, Layer::kCodec, "lzma: the encoder's own bound is too small");
    }
    return out.size() - coder_.avail_out;
  }

 private:
  lzma_ret start() {
    const LzmaFilters::FilterList chain = config_->filters.chain();
    const bool has_filters = !config_->filters.empty();
    if (config_->format == LzmaFormat::kRaw) return lzma_raw_encoder(&coder_, chain.filters);
    if (config_->format == LzmaFormat::kXz) {
      return has_filters ? lzma_stream_encoder(&coder_, chain.filters, config_->check)
                         : lzma_easy_encoder(&coder_, config_->preset, config_->check);
    }
    lzma_options_lzma options;
    if (has_filters) {
      if (chain.filters[0].id != LZMA_FILTER_LZMA1 || chain.filters[1].id != LZMA_VLI_UNKNOWN)
        return LZMA_OPTIONS_ERROR;
      options = *static_cast<const lzma_options_lzma*>(chain.filters[0].options);
    } else if (lzma_lzma_preset(&options, config_->preset)) {
      return LZMA_OPTIONS_ERROR;
    }
    return lzma_alone_encoder(&coder_, &options);
  }

  std::shared_ptr<const LzmaConfig> config_;
  lzma_stream coder_ = LZMA_STREAM_INIT;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_lzma_encoder(std::shared_ptr<const LzmaConfig> config) {
  if (config->format == LzmaFormat::kAuto) {
    return Status(Code::kUnsupported, Layer::kCodec,
                  "codec 'lzma': format 0 (automatic) is only for reading; it does not say what to write");
  }
  return std::unique_ptr<Encoder>(new LzmaEncoder(std::move(config)));
}

}  // namespace headrace::codec

// The "lzma" configuration of numcodecs in liblzma's terms; Python's lzma module defines the numbers.
#pragma once

#include <lzma.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "codec/config_reader.h"

namespace headrace::codec {

// Python's FORMAT_*.
enum class LzmaFormat : std::uint8_t { kAuto = 0, kXz = 1, kAlone = 2, kRaw = 3 };

// Filters in encoding order; owns the memory of their options.
class LzmaFilters {
 public:
  bool empty() const noexcept { return specs_.empty(); }
  // Ends with LZMA_VLI_UNKNOWN. Points into this object.
  struct FilterList {
    lzma_filter filters[LZMA_FILTERS_MAX + 1];
  };
  FilterList chain() const noexcept;

  // Reads "filters" from the configuration.
  static LzmaFilters read(ConfigReader& reader);

 private:
  struct Spec {
    lzma_vli id = LZMA_VLI_UNKNOWN;
    lzma_options_lzma lzma{};
    lzma_options_delta delta{};
    lzma_options_bcj bcj{};
  };
  static Spec read_one(ConfigReader& reader, const base::Json& item);
  std::vector<Spec> specs_;
};

struct LzmaConfig {
  LzmaFormat format = LzmaFormat::kXz;
  lzma_check check = LZMA_CHECK_CRC64;
  std::uint32_t preset = LZMA_PRESET_DEFAULT;
  LzmaFilters filters;
};

Result<LzmaConfig> read_lzma_config(const base::Json& config, const CodecArgs& context);

// Makes an encoder for this configuration. Fails with kUnsupported for formats that can only be read.
Result<std::unique_ptr<Encoder>> make_lzma_encoder(std::shared_ptr<const LzmaConfig> config);

}  // namespace headrace::codec

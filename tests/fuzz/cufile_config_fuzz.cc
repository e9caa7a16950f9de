// cufile.json: any text is either refused as a whole or gives a configuration within the allowed ranges.
#include <string_view>

#include "cufile/cufile_config.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  using namespace headrace::cufile;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Config config;
  const Status status = parse_config(text, config);
  FUZZ_CHECK(status.ok() || status.code() == Code::kCorrupt || status.code() == Code::kResourceExhausted);
  (void)check_ranges(config);
  for (std::size_t i = 0; i < kSizes; ++i) {
    const SizeParameter& parameter = kSizeParameters[i];
    if (parameter.least > parameter.most) continue;
    FUZZ_CHECK(config.sizes[i] >= parameter.least && config.sizes[i] <= parameter.most);
  }
  FUZZ_CHECK(config.staging_mib >= 4 && config.staging_mib <= 4096 && config.threads <= 1024);
  FUZZ_CHECK(config.posix_slabs.sizes_kb.size() == config.posix_slabs.counts.size());
  FUZZ_CHECK(config.gpu_slabs.sizes_kb.size() == config.gpu_slabs.counts.size());
  FUZZ_CHECK(check_ranges(config).empty());
  return 0;
}

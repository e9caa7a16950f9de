#include "tests/support/codec_seed.h"

#include "base/json.h"
#include "codec_seed_configs.inc"

namespace headrace::test {

base::Json codec_seed_config(std::string_view codec, unsigned choice) {
  struct Row {
    std::string_view codec;
    base::Json (*config)(unsigned choice);
  };
  static constexpr Row kRows[] = {HEADRACE_SEED_CONFIG_ROWS};
  for (const Row& row : kRows) {
    if (codec == row.codec) return row.config(choice);
  }
  return base::Json::object();
}

}  // namespace headrace::test

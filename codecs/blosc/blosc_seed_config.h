// The v2 configuration that decodes a seed of this codec.
#pragma once

#include "base/json.h"

namespace headrace::test {

inline base::Json blosc_seed_config(unsigned choice) {
  // Only the encoder uses this; a container is self-describing.
  return {{"cname", choice % 2 == 0 ? "lz4" : "zstd"},
          {"shuffle", choice / 2 % 2},
          {"typesize", 1 + choice / 4},
          {"blocksize", choice % 3 * 500}};
}

}  // namespace headrace::test

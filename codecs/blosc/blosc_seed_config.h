// The v2 configuration with which a seed of this codec is decoded.
#pragma once

#include "base/json.h"

namespace headrace::test {

inline base::Json blosc_seed_config(unsigned choice) {
  // For the encoder; a container says these things itself.
  return {{"cname", choice % 2 == 0 ? "lz4" : "zstd"},
          {"shuffle", choice / 2 % 2},
          {"typesize", 1 + choice / 4},
          {"blocksize", choice % 3 * 500}};
}

}  // namespace headrace::test

// The v2 configuration for decoding a seed of this codec. Codecs whose keys all have defaults need no such file.
#pragma once

#include "base/json.h"

namespace headrace::test {

// `choice` comes from the seed (tests/support/codec_seed.h).
inline base::Json toy_seed_config(unsigned choice) { return {{"key", choice % 256}}; }

}  // namespace headrace::test

// The v2 configuration with which a seed of this codec is decoded. Codecs whose keys all have defaults have no such
// file.
#pragma once

#include "base/json.h"

namespace headrace::test {

// `choice` comes with the seed (tests/support/codec_seed.h).
inline base::Json toy_seed_config(unsigned choice) { return {{"key", choice % 256}}; }

}  // namespace headrace::test

// The v2 configuration that decodes a seed of this codec.
#pragma once

#include "base/json.h"

namespace headrace::test {

inline base::Json shuffle_seed_config(unsigned choice) { return {{"elementsize", choice % 40}}; }

}  // namespace headrace::test

// The v2 configuration that decodes a seed of this codec.
#pragma once

#include "base/json.h"

namespace headrace::test {

inline base::Json bz2_seed_config(unsigned choice) { return {{"level", 1 + choice % 9}}; }

}  // namespace headrace::test

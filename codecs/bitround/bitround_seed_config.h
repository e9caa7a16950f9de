// The v2 configuration that decodes a seed of this codec.
#pragma once

#include "base/json.h"

namespace headrace::test {

inline base::Json bitround_seed_config(unsigned) { return {{"keepbits", 8}}; }

}  // namespace headrace::test

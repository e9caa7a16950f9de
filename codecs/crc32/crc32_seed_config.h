// The v2 configuration that decodes a seed of this codec.
#pragma once

#include "base/json.h"

namespace headrace::test {

inline base::Json crc32_seed_config(unsigned choice) { return {{"location", choice % 2 == 0 ? "start" : "end"}}; }

}  // namespace headrace::test

// The v2 configuration that decodes a seed of this codec.
#pragma once

#include "base/json.h"

namespace headrace::test {

inline base::Json jenkins_lookup3_seed_config(unsigned choice) { return {{"initval", choice}}; }

}  // namespace headrace::test

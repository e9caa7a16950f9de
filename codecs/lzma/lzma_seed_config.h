// The v2 configuration that decodes a seed of this codec.
#pragma once

#include <iterator>

#include "base/json.h"

namespace headrace::test {

inline base::Json lzma_seed_config(unsigned choice) {
  constexpr const char* kConfigs[] = {R"({"format":1,"preset":0})", R"({"format":2,"preset":0})",
                                      R"({"format":3,"filters":[{"id":3,"dist":4},{"id":33,"preset":0}]})",
                                      R"({"format":3,"filters":[{"id":4},{"id":4611686018427387905,"preset":0}]})"};
  return base::Json::parse(kConfigs[choice % std::size(kConfigs)]);
}

}  // namespace headrace::test

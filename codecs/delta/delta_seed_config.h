// The v2 configuration that decodes a seed of this codec.
#pragma once

#include <iterator>

#include "base/json.h"

namespace headrace::test {

inline base::Json delta_seed_config(unsigned choice) {
  constexpr const char* kPairs[][2] = {{"<i4", "<i4"}, {"<i2", "<i2"}, {"|u1", "|u1"}, {">i8", ">i8"}, {"<i4", "<i2"},
                                       {"<f4", "<f4"}, {"<f8", "<f4"}, {"|b1", "|b1"}, {"<f2", "<f2"}};
  const auto& pair = kPairs[choice % std::size(kPairs)];
  return {{"dtype", pair[0]}, {"astype", pair[1]}};
}

}  // namespace headrace::test

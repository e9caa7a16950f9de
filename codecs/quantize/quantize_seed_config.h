// The v2 configuration that decodes a seed of this codec.
#pragma once

#include <iterator>

#include "base/json.h"

namespace headrace::test {

inline base::Json quantize_seed_config(unsigned choice) {
  constexpr const char* kPairs[][2] = {{"<f4", "<f4"}, {"<f8", "<f4"}, {"<f8", "<f2"}, {">f8", ">f4"}};
  const auto& pair = kPairs[choice % std::size(kPairs)];
  return {{"dtype", pair[0]}, {"astype", pair[1]}, {"digits", 2}};
}

}  // namespace headrace::test

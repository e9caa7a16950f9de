// The v2 configuration that decodes a seed of this codec.
#pragma once

#include <iterator>

#include "base/json.h"

namespace headrace::test {

inline base::Json astype_seed_config(unsigned choice) {
  constexpr const char* kTypes[] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", ">f4", "<f8"};
  return {{"encode_dtype", kTypes[choice % std::size(kTypes)]}, {"decode_dtype", kTypes[choice / std::size(kTypes)]}};
}

}  // namespace headrace::test

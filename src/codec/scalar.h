// Scalars in a v3 codec's configuration, written as fill values are. [v3/core "Permitted fill values"]
#pragma once

#include <cstdint>
#include <optional>

#include "base/json_fwd.h"
#include "codec/numbers.h"

namespace headrace::codec {

// Bits of a number of the type, in native order. Nothing if the JSON value is none. REQUIRES: not kBool.
std::optional<std::uint64_t> parse_scalar(const base::Json& value, Number type);

}  // namespace headrace::codec

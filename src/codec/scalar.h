// Scalars in a v3 codec's configuration, written like fill values. [v3/core "Permitted fill values"]
#pragma once

#include <cstdint>
#include <optional>

#include "base/json_fwd.h"
#include "codec/numbers.h"

namespace headrace::codec {

// The bits of a number of this type, in native order. Nothing if the JSON value is not one. REQUIRES: not kBool.
std::optional<std::uint64_t> parse_scalar(const base::Json& value, Number type);

}  // namespace headrace::codec

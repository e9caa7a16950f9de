// The registered data types below eight bits, the 8-bit floats, and complex types of small floats.
//
// Nothing here computes with them. An element is read as its stored bytes (one for a number; for complex, the real
// part, then the imaginary part), and the type keeps its name. The extension registry defines each type.
//
// Threads: pure functions.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace headrace::zarr {

bool is_small_type(std::string_view v3_name) noexcept;
// The type has kind kRaw. An empty name in the result means that the type does not exist.
DataType small_type(std::string_view v3_name);
// The bytes of one element. REQUIRES: is_small_type(v3_name).
Result<std::vector<std::byte>> small_type_fill(const base::Json& value, std::string_view v3_name);

}  // namespace headrace::zarr

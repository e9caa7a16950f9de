// The registered data types below eight bits, the 8-bit floats, and the complex types of small floats.
//
// Nothing here computes with them: an element is read as the bytes that it is stored in (one for a number; complex: the
// real part, then the imaginary one), and the type keeps its name. The registry of extensions defines each.
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
// An empty name in the result means that there is no such type. Its kind is kRaw.
DataType small_type(std::string_view v3_name);
// The bytes of one element. REQUIRES: is_small_type(v3_name).
Result<std::vector<std::byte>> small_type_fill(const base::Json& value, std::string_view v3_name);

}  // namespace headrace::zarr

// The name of the JSON type, for headers that only pass it on: the whole library takes a second to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace headrace::base {
using Json = nlohmann::json;
}

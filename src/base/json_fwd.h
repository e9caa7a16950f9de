// Forward declaration of the JSON type, since including the whole library costs a second of compile time.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace headrace::base {
using Json = nlohmann::json;
}

// A SystemReport in words and as JSON.
#pragma once

#include <headrace/system.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace headrace::cli {

// Aligned rows; lines that tell of something wrong begin with "!".
std::string doctor_text(const SystemReport& report);

// One object; what is not known is null. Names end in their unit.
nlohmann::ordered_json doctor_json(const SystemReport& report);

}  // namespace headrace::cli

// Formats a SystemReport as text and as JSON.
#pragma once

#include <headrace/system.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace headrace::cli {

// Aligned rows; lines that report a problem start with "!".
std::string doctor_text(const SystemReport& report);

// One object; unknown values are null. Names end in their unit.
nlohmann::ordered_json doctor_json(const SystemReport& report);

}  // namespace headrace::cli

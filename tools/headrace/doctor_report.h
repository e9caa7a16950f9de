// A SystemReport in words and as JSON.
#pragma once

#include <headrace/system.h>

#include <string>

#include "json_writer.h"

namespace headrace::cli {

// Aligned rows; lines that tell of something wrong begin with "!".
std::string doctor_text(const SystemReport& report);

// One object; what is not known is null. Names end in their unit.
void write_doctor(JsonWriter& json, const SystemReport& report);

}  // namespace headrace::cli

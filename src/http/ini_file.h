// INI files of AWS's tools: sections of "name = value".
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace headrace::http {

// Empty if there is no such value. Indented lines belong to the value before them.
std::string ini_value(std::string_view text, std::string_view section, std::string_view name);
bool has_ini_section(std::string_view text, std::string_view section);

}  // namespace headrace::http

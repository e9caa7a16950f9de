// SHA-1 (FIPS 180-4), for file names that AWS's tools derive from it. Not used for security.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace headrace::http {

// Lower-case hexadecimal.
std::string sha1_hex(std::string_view text);

}  // namespace headrace::http

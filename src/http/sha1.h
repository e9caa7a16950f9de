// SHA-1 (FIPS 180-4), for names that AWS's tools make of it. It protects nothing.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace headrace::http {

// In hexadecimal, lower case.
std::string sha1_hex(std::string_view text);

}  // namespace headrace::http

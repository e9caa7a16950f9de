// SHA-256 of a block of memory (FIPS 180-4), as 64 lower-case hexadecimal digits.
#pragma once

#include <cstddef>
#include <string>

std::string sha256_hex(const std::byte* data, std::size_t bytes);

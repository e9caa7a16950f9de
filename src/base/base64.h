// Base64 (RFC 4648), with padding and without line breaks or other characters.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headrace::base {

std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace headrace::base

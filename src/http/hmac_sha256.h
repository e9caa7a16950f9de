// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104) for signatures of a few hundred bytes; avoids a dependency on a
// crypto library.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::http {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::string_view text) noexcept;
Digest hmac_sha256(std::string_view key, std::string_view text) noexcept;
inline std::string_view as_text(const Digest& digest) noexcept {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}
// Lower-case hexadecimal.
std::string hex(const Digest& digest);

}  // namespace headrace::http

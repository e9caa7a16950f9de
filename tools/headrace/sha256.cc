#include "sha256.h"

namespace headrace::cli {

std::array<std::byte, SHA256_DIGEST_LENGTH> Sha256::digest() {
  std::array<std::byte, SHA256_DIGEST_LENGTH> out;
  SHA256_Final(reinterpret_cast<unsigned char*>(out.data()), &state_);
  return out;
}

std::string Sha256::finish() {
  std::string hex;
  for (const std::byte byte : digest()) {
    const auto value = std::to_integer<unsigned>(byte);
    hex += "0123456789abcdef"[value >> 4];
    hex += "0123456789abcdef"[value & 15u];
  }
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

}  // namespace headrace::cli

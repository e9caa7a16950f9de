// Sha256: a C++ wrapper of libcrypto's SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

// Uses the deprecated functions below OpenSSL's EVP: linked from the archive they add 25 KB, EVP would add 3.8 MB. They
// also read no configuration file.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace headrace::cli {

class Sha256 {
 public:
  Sha256() { SHA256_Init(&state_); }

  void update(std::span<const std::byte> bytes) { SHA256_Update(&state_, bytes.data(), bytes.size()); }
  // Ends the hash and returns 64 hexadecimal digits. REQUIRES: called once.
  std::string finish();
  // The same as bytes.
  std::array<std::byte, SHA256_DIGEST_LENGTH> digest();

 private:
  SHA256_CTX state_;
};

// Hash of `bytes`.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace headrace::cli

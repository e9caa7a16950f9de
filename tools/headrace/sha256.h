// Sha256: libcrypto's, in the types of C++.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

// The functions below OpenSSL's EVP: of the archive they take 25 KB into the program where EVP takes 3.8 MB, and they
// read no configuration file.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace headrace::cli {

class Sha256 {
 public:
  Sha256() { SHA256_Init(&state_); }

  void update(std::span<const std::byte> bytes) { SHA256_Update(&state_, bytes.data(), bytes.size()); }
  // Ends the hash: 64 hexadecimal digits. REQUIRES: called once.
  std::string finish();
  // The same as bytes.
  std::array<std::byte, SHA256_DIGEST_LENGTH> digest();

 private:
  SHA256_CTX state_;
};

// The whole of `bytes` at once.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace headrace::cli

// Sha256: FIPS 180-4, with the processor's SHA instructions where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headrace::cli {

class Sha256 {
 public:
  Sha256();
  // `accelerated` false forces the portable code, so that a test can compare the two.
  explicit Sha256(bool accelerated);

  void update(std::span<const std::byte> bytes);
  // Ends the hash: 64 hexadecimal digits. REQUIRES: called once.
  std::string finish();
  // The same as bytes.
  std::array<std::byte, 32> digest();

 private:
  using Compress = void (*)(std::uint32_t* state, const std::uint8_t* blocks, std::size_t count);
  Compress compress_;
  std::uint32_t state_[8];
  std::uint64_t total_bytes_ = 0;
  std::array<std::uint8_t, 64> block_{};
  std::size_t fill_ = 0;
};

// The whole of `bytes` at once.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace headrace::cli

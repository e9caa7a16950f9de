#include "http/hmac_sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace headrace::http {
namespace {

constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

class Hasher {
 public:
  void update(std::string_view text) noexcept {
    total_ += text.size();
    while (!text.empty()) {
      const std::size_t some = std::min(text.size(), sizeof(block_) - filled_);
      std::memcpy(block_ + filled_, text.data(), some);
      text.remove_prefix(some);
      filled_ += some;
      if (filled_ == sizeof(block_)) compress();
    }
  }
  Digest finish() noexcept {
    const std::uint64_t bits = total_ * 8;
    static constexpr char kPad[72] = {'\x80'};
    update({kPad, (filled_ < 56 ? 56 : 120) - filled_});
    char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
    update({length, 8});
    Digest out;
    for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
  }

 private:
  void compress() noexcept {
    std::uint32_t w[64];
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = std::uint32_t{block_[4 * i]} << 24 | std::uint32_t{block_[4 * i + 1]} << 16 |
             std::uint32_t{block_[4 * i + 2]} << 8 | block_[4 * i + 3];
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    std::uint32_t s[8];
    std::memcpy(s, state_, sizeof(s));
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t one = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                                ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRound[i] + w[i];
      const std::uint32_t two = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                                ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      for (int k = 7; k > 0; --k) s[k] = s[k - 1];
      s[4] += one;
      s[0] = one + two;
    }
    for (int i = 0; i < 8; ++i) state_[i] += s[i];
    filled_ = 0;
  }

  std::uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char block_[64];
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

Digest sha256(std::string_view text) noexcept {
  Hasher hasher;
  hasher.update(text);
  return hasher.finish();
}

Digest hmac_sha256(std::string_view key, std::string_view text) noexcept {
  Digest shortened;
  if (key.size() > 64) {
    shortened = sha256(key);
    key = as_text(shortened);
  }
  char inner[64] = {}, outer[64];
  std::memcpy(inner, key.data(), key.size());
  for (int i = 0; i < 64; ++i) {
    outer[i] = static_cast<char>(inner[i] ^ 0x5c);
    inner[i] = static_cast<char>(inner[i] ^ 0x36);
  }
  Hasher first, second;
  first.update({inner, 64});
  first.update(text);
  const Digest digest = first.finish();
  second.update({outer, 64});
  second.update(as_text(digest));
  return second.finish();
}

std::string hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace headrace::http

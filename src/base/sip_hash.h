// SipHash (Aumasson and Bernstein, 2012): a keyed hash for texts that untrusted parties choose, so that they cannot
// construct collisions. The caller sets the number of rounds and the length of the result.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace headrace::base {

// Call take() for whole words, then take_rest() once, then result() once.
class SipHash {
 public:
  SipHash(std::uint64_t key0, std::uint64_t key1, int rounds, int last_rounds) noexcept
      : v0_(key0 ^ 0x736f6d6570736575u),
        v1_(key1 ^ 0x646f72616e646f6du),
        v2_(key0 ^ 0x6c7967656e657261u),
        v3_(key1 ^ 0x7465646279746573u),
        rounds_(rounds),
        last_rounds_(last_rounds) {}

  void take(std::uint64_t word) noexcept {
    length_ += 8;
    mix(word);
  }
  // Call once, last.
  void take_rest(std::string_view text) noexcept {
    const char* at = text.data();
    std::size_t left = text.size();
    for (; left >= 8; at += 8, left -= 8) {
      std::uint64_t word;
      std::memcpy(&word, at, 8);
      take(word);
    }
    length_ += left;
    std::uint64_t last = 0;
    if (left > 0) std::memcpy(&last, at, left);
    mix(last | length_ << 56);
  }

  // Call one of the result() functions once, after take_rest().
  std::uint64_t result() noexcept {
    v2_ ^= 0xff;
    return finish();
  }
  // 128-bit result. REQUIRES: lengthen() was called before anything was taken.
  void result(std::uint64_t& low, std::uint64_t& high) noexcept {
    v2_ ^= 0xee;
    low = finish();
    v1_ ^= 0xdd;
    high = finish();
  }
  void lengthen() noexcept { v1_ ^= 0xee; }

 private:
  void mix(std::uint64_t word) noexcept {
    v3_ ^= word;
    for (int i = 0; i < rounds_; ++i) round();
    v0_ ^= word;
  }
  std::uint64_t finish() noexcept {
    for (int i = 0; i < last_rounds_; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }
  void round() noexcept {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_, length_ = 0;
  const int rounds_, last_rounds_;
};

}  // namespace headrace::base

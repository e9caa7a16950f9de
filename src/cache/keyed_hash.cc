#include "cache/keyed_hash.h"

#include <bit>
#include <cstring>

namespace headrace::cache {
namespace {

// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein).
class SipStream {
 public:
  explicit SipStream(const CacheSecret& secret) noexcept
      : v0_(secret[0] ^ 0x736f6d6570736575u),
        v1_(secret[1] ^ 0x646f72616e646f6du ^ 0xee),
        v2_(secret[0] ^ 0x6c7967656e657261u),
        v3_(secret[1] ^ 0x7465646279746573u) {}

  void word(std::uint64_t value) noexcept {
    length_ += 8;
    take(value);
  }
  // Once, and last.
  CacheKey finish(std::string_view rest) noexcept {
    const char* at = rest.data();
    std::size_t left = rest.size();
    length_ += left;
    for (; left >= 8; at += 8, left -= 8) {
      std::uint64_t value;
      std::memcpy(&value, at, 8);
      take(value);
    }
    std::uint64_t last = length_ << 56, tail = 0;
    if (left > 0) std::memcpy(&tail, at, left);
    take(last | tail);
    CacheKey key;
    v2_ ^= 0xee;
    for (int i = 0; i < 4; ++i) round();
    key.low = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xdd;
    for (int i = 0; i < 4; ++i) round();
    key.high = v0_ ^ v1_ ^ v2_ ^ v3_;
    return key;
  }

 private:
  void take(std::uint64_t value) noexcept {
    v3_ ^= value;
    round();
    round();
    v0_ ^= value;
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
};

}  // namespace

CacheKey KeyedHash::of(std::string_view text) const noexcept { return SipStream(secret_).finish(text); }

CacheKey KeyedHash::of(const CacheKey& base, std::uint64_t first, std::uint64_t second) const noexcept {
  SipStream stream(secret_);
  for (const std::uint64_t value : {base.low, base.high, first, second}) stream.word(value);
  return stream.finish({});
}

CacheKey KeyedHash::of(const CacheKey& base, std::string_view name) const noexcept {
  SipStream stream(secret_);
  stream.word(base.low);
  stream.word(base.high);
  return stream.finish(name);
}

}  // namespace headrace::cache

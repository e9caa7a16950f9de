// SHA-1 and SHA-512, for verify blocks: portable code that follows FIPS 180-4. SHA-256 is the command line's.
#include <algorithm>
#include <bit>
#include <cstring>

#include "verify_sum.h"

namespace headrace::bench {
namespace {

// The standard's constants: of the cube roots of the first primes, and of the square roots, the bits behind the point.
constexpr std::uint64_t kRound512[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc, 0x3956c25bf348b538,
    0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118, 0xd807aa98a3030242, 0x12835b0145706fbe,
    0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2, 0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235,
    0xc19bf174cf692694, 0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5, 0x983e5152ee66dfab,
    0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4, 0xc6e00bf33da88fc2, 0xd5a79147930aa725,
    0x06ca6351e003826f, 0x142929670a0e6e70, 0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed,
    0x53380d139d95b3df, 0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30, 0xd192e819d6ef5218,
    0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8, 0x19a4c116b8d2d0c8, 0x1e376c085141ab53,
    0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8, 0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373,
    0x682e6ff3d6b2b8a3, 0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b, 0xca273eceea26619c,
    0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178, 0x06f067aa72176fba, 0x0a637dc5a2c898a6,
    0x113f9804bef90dae, 0x1b710b35131c471b, 0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc,
    0x431d67c49c100d4c, 0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817};
constexpr std::array<std::uint64_t, 8> kStart512 = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                                    0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                                    0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

// Words lie in a block with their highest byte first.
template <class Word>
Word load_reversed(const std::byte* at) noexcept {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    word = static_cast<Word>(word << 8) | std::to_integer<std::uint8_t>(at[i]);
  }
  return word;
}

struct Sha1 {
  using Word = std::uint32_t;
  static constexpr std::size_t kBlockBytes = 64;
  std::array<Word, 5> state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

  void add_block(const std::byte* block) noexcept {
    Word w[80];
    for (std::size_t i = 0; i < 16; ++i) w[i] = load_reversed<Word>(block + i * 4);
    for (std::size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = state;
    for (std::size_t i = 0; i < 80; ++i) {
      Word mixed = 0, constant = 0;
      if (i < 20) {
        mixed = (b & c) | (~b & d);
        constant = 0x5a827999;
      } else if (i < 40 || i >= 60) {
        mixed = b ^ c ^ d;
        constant = i < 40 ? 0x6ed9eba1 : 0xca62c1d6;
      } else {
        mixed = (b & c) | (b & d) | (c & d);
        constant = 0x8f1bbcdc;
      }
      const Word sum = std::rotl(a, 5) + mixed + e + constant + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = sum;
    }
    const std::array<Word, 5> added = {a, b, c, d, e};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
  }
};

struct Sha512 {
  using Word = std::uint64_t;
  static constexpr std::size_t kBlockBytes = 128;
  std::array<Word, 8> state = kStart512;

  void add_block(const std::byte* block) noexcept {
    Word w[80];
    for (std::size_t i = 0; i < 16; ++i) w[i] = load_reversed<Word>(block + i * 8);
    for (std::size_t i = 16; i < 80; ++i) {
      const Word near = w[i - 2], far = w[i - 15];
      w[i] = w[i - 16] + (std::rotr(far, 1) ^ std::rotr(far, 8) ^ (far >> 7)) + w[i - 7] +
             (std::rotr(near, 19) ^ std::rotr(near, 61) ^ (near >> 6));
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 80; ++i) {
      const Word first =
          h + (std::rotr(e, 14) ^ std::rotr(e, 18) ^ std::rotr(e, 41)) + ((e & f) ^ (~e & g)) + kRound512[i] + w[i];
      const Word second = (std::rotr(a, 28) ^ std::rotr(a, 34) ^ std::rotr(a, 39)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + first;
      d = c;
      c = b;
      b = a;
      a = first + second;
    }
    const std::array<Word, 8> added = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
  }
};

// Both parts, a one bit, zeros, and the length in bits: whole blocks.
template <class Hash, std::size_t kDigestBytes>
std::array<std::byte, kDigestBytes> digest_of(std::span<const std::byte> first,
                                              std::span<const std::byte> second) noexcept {
  constexpr std::size_t kBlock = Hash::kBlockBytes, kLength = kBlock / 8;
  Hash hash;
  std::array<std::byte, 2 * kBlock> rest{};
  std::size_t held = 0;
  for (std::span<const std::byte> part : {first, second}) {
    if (held > 0) {
      const std::size_t taken = std::min(kBlock - held, part.size());
      std::copy_n(part.begin(), taken, rest.begin() + static_cast<std::ptrdiff_t>(held));
      part = part.subspan(taken);
      held += taken;
      if (held < kBlock) continue;
      hash.add_block(rest.data());
      held = 0;
    }
    for (; part.size() >= kBlock; part = part.subspan(kBlock)) hash.add_block(part.data());
    std::copy(part.begin(), part.end(), rest.begin());
    held = part.size();
  }
  std::fill(rest.begin() + static_cast<std::ptrdiff_t>(held), rest.end(), std::byte{0});
  rest[held] = std::byte{0x80};
  const std::size_t bytes = held + 1 + kLength <= kBlock ? kBlock : 2 * kBlock;
  const std::uint64_t bits = (std::uint64_t{first.size()} + second.size()) * 8;
  for (std::size_t i = 0; i < 8; ++i) rest[bytes - 1 - i] = static_cast<std::byte>(bits >> (8 * i) & 0xFF);
  for (std::size_t at = 0; at < bytes; at += kBlock) hash.add_block(rest.data() + at);
  std::array<std::byte, kDigestBytes> digest;
  constexpr std::size_t kWord = sizeof(typename Hash::Word);
  for (std::size_t i = 0; i < kDigestBytes; ++i) {
    digest[i] = static_cast<std::byte>(hash.state[i / kWord] >> (8 * (kWord - 1 - i % kWord)) & 0xFF);
  }
  return digest;
}

}  // namespace

Sha1Digest sha1(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  return digest_of<Sha1, 20>(first, second);
}

Sha512Digest sha512(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  return digest_of<Sha512, 64>(first, second);
}

}  // namespace headrace::bench

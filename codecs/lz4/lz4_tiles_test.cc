// The GPU's LZ4 decoder by tiles, its own source run on the CPU, accepts what liblz4 accepts, gives the same bytes and
// stays inside its buffers.
// clang-format off: gives the device code its keywords
#include "codecs/lz4/lz4_tiles_check.h"
// clang-format on

#include <gtest/gtest.h>
#include <lz4hc.h>

#include <random>
#include <string>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using codec::gpu::Lz4Kind;
using codec::gpu::Lz4Stream;
using device::DecodeOutcome;
using device::DecodeReason;

Bytes compress(const Bytes& plain, bool high = false) {
  Bytes out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
  const auto* const from = reinterpret_cast<const char*>(plain.data());
  auto* const to = reinterpret_cast<char*>(out.data());
  const int bytes = static_cast<int>(plain.size()), room = static_cast<int>(out.size());
  const int got = high ? LZ4_compress_HC(from, to, bytes, room, 9) : LZ4_compress_fast(from, to, bytes, room, 1);
  out.resize(static_cast<std::size_t>(got));
  return out;
}

// Writes a block token by token, right or wrong.
class TokenWriter {
 public:
  TokenWriter& sequence(std::size_t literals, std::size_t offset, std::size_t match) {
    token(literals, match - 4);
    add_literals(literals);
    bytes_.push_back(static_cast<std::byte>(offset));
    bytes_.push_back(static_cast<std::byte>(offset >> 8));
    if (match - 4 >= 15) extend(match - 19);
    plain_ += literals + match;
    return *this;
  }
  TokenWriter& last(std::size_t literals) {
    token(literals, 0);
    add_literals(literals);
    plain_ += literals;
    return *this;
  }
  TokenWriter& literal_bytes(int value) {  // of every literal to come; -1: varied
    value_ = value;
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }
  std::size_t plain() const { return plain_; }

 private:
  void token(std::size_t literals, std::size_t match) {
    bytes_.push_back(
        static_cast<std::byte>(std::min<std::size_t>(literals, 15) << 4 | std::min<std::size_t>(match, 15)));
    if (literals >= 15) extend(literals - 15);
  }
  void extend(std::size_t length) {
    for (; length >= 255; length -= 255) bytes_.push_back(std::byte{255});
    bytes_.push_back(static_cast<std::byte>(length));
  }
  void add_literals(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      next_ = next_ * 6364136223846793005u + 1442695040888963407u;
      bytes_.push_back(value_ >= 0 ? static_cast<std::byte>(value_) : static_cast<std::byte>(next_ >> 33));
    }
  }
  Bytes bytes_;
  std::size_t plain_ = 0;
  std::uint64_t next_ = 1;
  int value_ = -1;
};

class Lz4Tiles : public ::testing::Test {
 protected:
  // Both ways round, few and many sections, one slice and several. Returns whether liblz4 accepts it.
  bool same(std::span<const std::byte> block, std::size_t plain_bytes) {
    for (const TilesRun& run : {TilesRun{1, 0}, TilesRun{3, 0}, TilesRun{100, 0}, TilesRun{2, 64 * 5}}) {
      for (const Flush flush : {Flush::kLeft, Flush::kRight}) {
        const char* const difference = beside_.check<SmallTiles>(block, plain_bytes, run, flush);
        EXPECT_EQ(difference, nullptr) << difference << ", " << run.blocks << " blocks, slice " << run.slice_bytes
                                       << ", " << block.size() << " bytes to " << plain_bytes;
        if (difference != nullptr) return beside_.accepted();
      }
    }
    return beside_.accepted();
  }
  bool same(const TokenWriter& block) { return same(block.bytes(), block.plain()); }

  TilesBeside beside_{8 << 20};
};

TEST_F(Lz4Tiles, WhatLiblz4Writes) {
  for (const std::size_t bytes : {1,   4,   5,    12,   13,   14,   31,    32,    33,   63,  64,
                                  65,  96,  97,   127,  128,  1000, 4095,  4096,  9011, 20011}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      const Bytes plain = sample(bytes, content);
      EXPECT_TRUE(same(compress(plain), bytes));
      EXPECT_TRUE(same(compress(plain, true), bytes));
    }
  }
}

TEST_F(Lz4Tiles, MatchesOfEveryDistanceAndLength) {
  for (std::size_t offset = 0; offset <= 140; offset += offset < 70 ? 3 : 7) {
    TokenWriter block;
    block.sequence(140, 1, 4);
    for (const std::size_t length : {4, 5, 8, 15, 18, 19, 33, 63, 64, 65, 128, 257, 273, 274, 300, 529, 1000}) {
      block.sequence(length % 5, offset, length);
    }
    block.last(12);
    EXPECT_TRUE(same(block)) << "offset " << offset;
  }
}

TEST_F(Lz4Tiles, LiteralRunsOfEveryLength) {
  TokenWriter all;
  for (std::size_t literals = 0; literals < 300; ++literals) {
    all.sequence(literals + 1, 1 + literals % 30 % (literals + 1), 4 + literals % 40);
  }
  EXPECT_TRUE(same(all.last(700)));
  for (const std::size_t literals : {1, 14, 15, 16, 269, 270, 271, 15 + 2 * 255, 15 + 255 * 40, 15 + 255 * 60 + 254}) {
    EXPECT_TRUE(same(TokenWriter().last(literals)));
    EXPECT_TRUE(same(TokenWriter().sequence(literals, 1, 20).sequence(3, literals, literals + 4).last(12)));
  }
}

}  // namespace
}  // namespace headrace::test

// The GPU's decoder of small LZ4 streams, the same source run on the CPU, followed by the in-order decoder: accepts
// what liblz4 accepts, produces the same bytes, stays inside its buffers, and leaves nothing that an encoder writes to
// the in-order decoder.
// clang-format off: gives the device code its keywords
#include "tests/support/lz4_small_check.h"
// clang-format on

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using codec::gpu::Lz4Kind;
using codec::gpu::Lz4Stream;
using device::DecodeOutcome;

class Lz4Small : public ::testing::Test {
 protected:
  // Both flush directions, by a block of one warp, or by the device's shape if that is too small. Returns whether
  // liblz4 accepts it.
  bool same(std::span<const std::byte> block, std::size_t plain_bytes) {
    taken_ = true;
    const bool small = plain_bytes <= OneWarp::kMax && block.size() <= OneWarp::kMaxSource;
    for (const Flush flush : {Flush::kLeft, Flush::kRight}) {
      if (small) {
        check<OneWarp>(block, plain_bytes, flush);
        check_clusters<ClusterOneWarp, 2>(block, plain_bytes, flush);
        check_clusters<ClusterOneWarp, 4>(block, plain_bytes, flush);
      }
      if (!small || ++turns_ % 32 == 0) {
        check<Large>(block, plain_bytes, flush);
        check_clusters<ClusterLarge, 4>(block, plain_bytes, flush);
      }
    }
    return beside_.accepted();
  }
  bool same(const TokenWriter& block) { return same(block.bytes(), block.plain()); }
  // Accepted, and decoded by this decoder.
  void taken(std::span<const std::byte> block, std::size_t plain_bytes) {
    EXPECT_TRUE(same(block, plain_bytes));
    EXPECT_TRUE(taken_) << block.size() << " bytes to " << plain_bytes;
  }
  void taken(const TokenWriter& block) { taken(block.bytes(), block.plain()); }

  template <class S>
  void check(std::span<const std::byte> block, std::size_t plain_bytes, Flush flush) {
    const char* const difference = beside_.check<S>(block, plain_bytes, flush);
    EXPECT_EQ(difference, nullptr) << difference << ", blocks of " << S::kThreads << ", " << block.size()
                                   << " bytes to " << plain_bytes;
    taken_ = taken_ && small_decoded == 1;
  }

  template <class S, unsigned kBlocks>
  void check_clusters(std::span<const std::byte> block, std::size_t plain_bytes, Flush flush) {
    const char* const difference = beside_.check_clusters<S, kBlocks>(block, plain_bytes, flush);
    EXPECT_EQ(difference, nullptr) << difference << ", clusters of " << kBlocks << " blocks of " << S::kThreads << ", "
                                   << block.size() << " bytes to " << plain_bytes;
    taken_ = taken_ && small_decoded == 1;
  }

  SmallBeside beside_{1 << 19};
  bool taken_ = false;
  unsigned turns_ = 0;
};

TEST_F(Lz4Small, DecodesLiblz4Output) {
  for (const std::size_t bytes : {1,   4,    5,    12,   13,   14,    31,    32,    33,    63,    64,     65,    96,
                                  128, 1000, 2047, 2048, 4095, 20011, 49151, 49152, 65535, 65537, 131072, 262144}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      const Bytes plain = sample(bytes, content);
      for (const bool high : {false, true}) {
        const Bytes block = compress_lz4(plain, high);
        if (block.size() <= Large::kMax - 4) {
          taken(block, bytes);
        } else {
          EXPECT_TRUE(same(block, bytes));
        }
      }
    }
  }
}

TEST_F(Lz4Small, LargeStreamsAreNotTaken) {
  for (const std::size_t bytes : {262145, 300000}) {
    EXPECT_TRUE(same(compress_lz4(sample(bytes, Content::kText)), bytes));
    EXPECT_FALSE(taken_);
  }
  // Literals alone are copied by others; streams that did not shrink but contain more than literals are taken.
  EXPECT_TRUE(same(TokenWriter().last(Large::kMax)));
  EXPECT_FALSE(taken_);
  TokenWriter block_of_many;
  for (int i = 0; i < 13'796; ++i) block_of_many.sequence(15, 15, 4);
  block_of_many.last(20);
  EXPECT_EQ(block_of_many.plain(), Large::kMax);
  EXPECT_GT(block_of_many.bytes().size(), Large::kMax);
  taken(block_of_many);
  // More input than LZ4 can make of this output, and exactly as much.
  EXPECT_FALSE(same(TokenWriter().last(Large::kMaxSource).bytes(), Large::kMax));
  EXPECT_FALSE(taken_);
  Bytes block = TokenWriter().sequence(1, 1, 4).last(Large::kMax - 5).bytes();
  while (block.size() < Large::kMaxSource) block.insert(block.begin(), {std::byte{0x00}, std::byte{0}, std::byte{0}});
  block.resize(Large::kMaxSource);
  EXPECT_FALSE(same(block, Large::kMax));
}

// Float fields, byte-shuffled ones and sparse ones have other tokens than text.
TEST_F(Lz4Small, TypicalArrayContent) {
  std::mt19937 rng(11);
  Bytes plain(1 << 17), planes = plain, sparse(1 << 18);
  float value = 280;
  for (std::size_t i = 0; i + 4 <= plain.size(); i += 4) {
    value += 0.01f * (static_cast<float>(rng() % 200) - 99.5f);
    const float rounded = static_cast<float>(static_cast<int>(value * 64)) / 64;
    std::memcpy(&plain[i], &rounded, 4);
    for (std::size_t k = 0; k < 4; ++k) planes[i / 4 + k * (plain.size() / 4)] = plain[i + k];
  }
  for (int i = 0; i < 300; ++i) sparse[rng() % sparse.size()] = static_cast<std::byte>(rng());
  for (const Bytes* each : {&plain, &planes, &sparse}) {
    taken(compress_lz4(*each), each->size());
    taken(compress_lz4(*each, true), each->size());
  }
}

TEST_F(Lz4Small, MatchesOfEveryDistanceAndLength) {
  for (std::size_t offset = 1; offset <= 140; offset += offset < 20 ? 1 : 17) {
    TokenWriter block;
    block.sequence(140, 1, 4);
    for (const std::size_t length :
         {4, 5, 7, 8, 15, 18, 19, 31, 32, 33, 34, 64, 255, 273, 274, 275, 511, 512, 513, 528, 529, 1000, 5000}) {
      block.sequence(length % 5, offset, length);
    }
    taken(block.last(20));
  }
}

// One match over nearly everything, and offsets around the limit of a cell.
TEST_F(Lz4Small, LongMatchesAndFarOffsets) {
  for (const std::size_t offset : {1, 2, 3, 7, 100, 255, 256, 3000}) {
    TokenWriter block;
    taken(block.sequence(3000, offset, 62'000).last(12));
    TokenWriter longer;
    taken(longer.sequence(3000, offset, 220'000).sequence(1, 50'000, 40).last(12));
  }
  for (const std::size_t offset : {0xfefe, 0xfeff, 0xff00, 0xff01, 0xffff}) {
    for (const std::size_t before : {66'000, 80'000, 120'000}) {
      TokenWriter block;
      taken(block.sequence(65'900, 3000, before - 65'900).sequence(1, offset, 900).sequence(2, offset, 20).last(12));
    }
  }
}

// Each match copies the one before, so a byte is hundreds of hops from its literal.
TEST_F(Lz4Small, ChainsOfMatches) {
  for (const std::size_t step : {4, 5, 8, 60}) {
    TokenWriter block;
    block.sequence(step, step, 4);
    while (block.plain() < 60'000 && block.bytes().size() < 60'000) block.sequence(0, step, step < 8 ? step : 8);
    taken(block.last(12));
  }
}

// Lengths of many bytes, across segments, and where every byte looks like the inside of one.
TEST_F(Lz4Small, LongLengthFields) {
  for (const std::size_t literals : {14, 15, 16, 269, 270, 271, 1000, 20'000, 64'000, 200'000}) {
    for (const int value : {-1, 0, 255, 0xf0}) {
      TokenWriter block;
      block.literal_bytes(value).sequence(literals, literals < 2 ? 1 : 2, 19);
      taken(block.last(12));
    }
  }
}

// A damaged stream continues in order from the last window before its damage; decoding all of it in order would take
// too long.
TEST_F(Lz4Small, DataBeforeDamageIsNotDecodedTwice) {
  const auto left_at = [this](const TokenWriter& block, std::size_t wrong_at, std::size_t plain_bytes) {
    const auto near = [&](std::size_t window) {
      EXPECT_EQ(small_left.kind, Lz4Kind::kBegun);
      EXPECT_LE(small_left.dst_done, wrong_at);
      EXPECT_GE(small_left.dst_done + window + 400, wrong_at);
      EXPECT_LT(small_left.src_done, block.bytes().size());
    };
    check<Large>(block.bytes(), plain_bytes, Flush::kRight);
    near(Large::kOut);
    check_clusters<ClusterLarge, 4>(block.bytes(), plain_bytes, Flush::kRight);
    near(ClusterLarge::kOut);
  };
  for (const std::size_t wrong_at : {100, 5'000, 33'000, 66'000, 120'000, 200'000, 230'000}) {
    TokenWriter good;
    good.sequence(40, 7, 30);
    while (good.plain() < wrong_at) good.sequence(3, 20, 9);
    const auto go_on = [](TokenWriter block) {
      while (block.plain() < 250'000) block.sequence(3, 20, 9);
      return block.last(12);
    };
    const TokenWriter whole = go_on(good);
    left_at(whole, good.plain(), good.plain() + 2);  // produces too much
    TokenWriter ends = good;
    ends.last(12);
    left_at(ends, ends.plain(), 250'000);  // too little
    if (good.plain() > 65'000) continue;
    const TokenWriter leads_before = go_on(TokenWriter(good).sequence(3, good.plain() + 4, 9));
    left_at(leads_before, good.plain(), leads_before.plain());
  }
}

// liblz4 accepts offset 0 as zeros. In order, the rest of the stream would take many times as long.
TEST_F(Lz4Small, OffsetZeroIsDecodedHere) {
  for (const std::size_t at : {40, 1'000, 24'600, 33'000, 100'000}) {
    TokenWriter block;
    block.sequence(40, 7, 30);
    while (block.plain() < at) block.sequence(3, 20, 9);
    block.sequence(3, 0, 9).sequence(0, 0, 400).sequence(0, 5, 20);
    while (block.plain() < 120'000) block.sequence(3, 20, 9);
    taken(block.last(12));
  }
}

// Streams that liblz4 refuses, or accepts only at the edges of the format.
TEST_F(Lz4Small, DamageHasTheVerdictOfLiblz4) {
  std::mt19937 rng(5);
  const Bytes plain = sample(3000, Content::kText), good = compress_lz4(plain);
  std::size_t refused = 0, accepted = 0;
  for (int i = 0; i < 1500; ++i) {
    Bytes block = good;
    switch (rng() % 4) {
      case 0:
        block[rng() % block.size()] ^= static_cast<std::byte>(1u << rng() % 8);
        break;
      case 1:
        block.resize(rng() % block.size());
        break;
      case 2:
        block[rng() % block.size()] = std::byte{0xff};
        break;
      default:
        std::fill_n(block.begin() + static_cast<std::ptrdiff_t>(rng() % (block.size() - 64)), 64, std::byte{0xff});
    }
    (same(block, rng() % 3 == 0 ? 2000 + rng() % 2000 : plain.size()) ? accepted : refused) += 1;
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(accepted, 20u);
}

TEST_F(Lz4Small, BlockEndsMatchLiblz4) {
  for (std::size_t literals = 0; literals < 16; ++literals) {
    for (std::size_t last = 0; last < 16; ++last) {
      for (const std::size_t offset : {0, 1, 7, 8, 20}) {
        TokenWriter block;
        same(block.sequence(20, 9, 40).sequence(literals, offset, 4 + literals).last(last));
      }
    }
  }
}

// A list as in a batch: bad, too large and non-block streams stand between others, and each block decodes several.
void expect_others_exact(std::size_t count) {
  std::mt19937 rng(3);
  std::vector<Bytes> plains, blocks, outputs;
  for (std::size_t i = 0; i < count; ++i) {
    plains.push_back(sample(i == 5 ? 20'000 : 100 + rng() % 1900, i % 2 == 0 ? Content::kText : Content::kSmooth));
    blocks.push_back(compress_lz4(plains[i]));
    outputs.emplace_back(plains[i].size() + 8, std::byte{0x5A});
  }
  blocks[7].resize(blocks[7].size() - 1);
  std::vector<Lz4Stream> streams;
  for (std::size_t i = 0; i < count; ++i) {
    streams.push_back({reinterpret_cast<const unsigned char*>(blocks[i].data()),
                       reinterpret_cast<unsigned char*>(outputs[i].data()) + 4,
                       static_cast<std::uint32_t>(blocks[i].size()), static_cast<std::uint32_t>(plains[i].size()),
                       static_cast<std::uint32_t>(i), i == 9 ? Lz4Kind::kNone : Lz4Kind::kBlock});
  }
  // All but one have a size that is taken; a cluster takes at most four of them.
  for (const bool clusters : {false, true})
    for (const unsigned grid : {1u, 2u, 5u, 8u, 9u, 64u}) {
      std::vector<std::uint64_t> outcomes(count, DecodeOutcome::kOk);
      outcomes[11] = 0;  // already bad
      for (Bytes& output : outputs) std::fill(output.begin(), output.end(), std::byte{0x5A});
      if (clusters) {
        decode_clusters<ClusterOneWarp, 2>(streams, outcomes, grid, 1);
      } else {
        decode_small<OneWarp>(streams, outcomes, grid, 1);
      }
      EXPECT_EQ(small_decoded,
                clusters && std::size_t{4} * grid < count - 1 ? 1 : count - 3);  // 9 counts; 5, 7 and 11 do not
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(outcomes[i] == DecodeOutcome::kOk, i != 7 && i != 11) << i;
        const std::span<const std::byte> got = std::span(outputs[i]).subspan(4, plains[i].size());
        if (i != 7 && i != 9 && i != 11) {
          EXPECT_TRUE(std::equal(got.begin(), got.end(), plains[i].begin())) << i;
        }
        for (std::size_t k = 0; k < 4; ++k) {
          EXPECT_EQ(outputs[i][k], std::byte{0x5A}) << i;
          EXPECT_EQ(outputs[i][4 + plains[i].size() + k], std::byte{0x5A}) << i;
        }
      }
    }
}

TEST(Lz4SmallBatch, TheOthersStayExact) {
  expect_others_exact(37);
  expect_others_exact(31);  // at most one stream per thread: longer ones first
}

TEST(Lz4SmallBatch, LongerOnesHaveTheFirstNumbers) {
  constexpr std::uint32_t kCount = 30;
  std::vector<Lz4Stream> streams(kCount);
  static const unsigned char token = 0;
  std::uint32_t taken = 0, longs = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const bool is_long = i % 7 == 3, counts = i % 5 != 1;
    streams[i] = {
        &token, nullptr, 1, is_long ? OneWarp::kMax : OneWarp::kMax / 2, i, counts ? Lz4Kind::kBlock : Lz4Kind::kNone};
    if (!counts) streams[i].dst_bytes = 0;
    taken += counts ? 1 : 0;
    longs += counts && is_long ? 1 : 0;
  }
  for (const std::uint32_t most : {taken, taken + 9}) {
    static codec::gpu::small::Shared<OneWarp> shared;
    std::vector<std::uint32_t> by_number(taken, ~0u);
    std::uint32_t found = 0;
    testing::gpu::launch(1, OneWarp::kThreads, [&] {
      const std::uint32_t all = codec::gpu::small::number_longest_first(
          shared, streams.data(), kCount, most, [&](std::uint32_t number, std::uint32_t i) { by_number[number] = i; });
      if (threadIdx.x == 0) found = all;
    });
    EXPECT_EQ(found, taken);
    for (std::uint32_t number = 0; number < taken; ++number) {
      ASSERT_LT(by_number[number], kCount);
      EXPECT_EQ(streams[by_number[number]].dst_bytes == OneWarp::kMax, number < longs) << number;
      const bool first_of_kind = number == 0 || number == longs;
      EXPECT_TRUE(first_of_kind || by_number[number - 1] < by_number[number]) << number;
    }
  }
}

}  // namespace
}  // namespace headrace::test

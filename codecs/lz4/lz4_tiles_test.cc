// The GPU's LZ4 decoder by tiles, the same source run on the CPU: accepts what liblz4 accepts, produces the same bytes,
// and stays inside its buffers.
// clang-format off: gives the device code its keywords
#include "tests/support/lz4_tiles_check.h"
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
using device::DecodeReason;

class Lz4Tiles : public ::testing::Test {
 protected:
  // Both flush directions, few and many sections, one slice and several. Returns whether liblz4 accepts it.
  bool same(std::span<const std::byte> block, std::size_t plain_bytes) {
    for (const TilesRun& run :
         {TilesRun{1, 0}, TilesRun{3, 0}, TilesRun{100, 0}, TilesRun{100, 0, false}, TilesRun{7, 64 * 9}}) {
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

TEST_F(Lz4Tiles, DecodesLiblz4Output) {
  for (const std::size_t bytes :
       {1, 4, 5, 12, 13, 14, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 1000, 4095, 4096, 9011, 20011}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      const Bytes plain = sample(bytes, content);
      EXPECT_TRUE(same(compress_lz4(plain), bytes));
      EXPECT_TRUE(same(compress_lz4(plain, true), bytes));
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

TEST_F(Lz4Tiles, EndsOfBlocks) {
  int accepted = 0, refused = 0;
  for (const std::size_t before : {0, 20, 61}) {
    for (std::size_t literals = 0; literals <= 17; literals += literals < 10 ? 5 : 2) {
      for (std::size_t match = 4; match <= 20; match += 3) {
        for (const std::size_t last : {0, 1, 4, 5, 6, 7, 8, 11, 12, 20}) {
          for (const std::size_t offset : {0, 1, 8, 9}) {
            TokenWriter block;
            if (before != 0) block.sequence(before, 1, 9);
            block.sequence(literals, offset, match).last(last);
            const char* const difference =
                beside_.check<SmallTiles>(block.bytes(), block.plain(), TilesRun{2, 0}, Flush::kRight);
            ASSERT_EQ(difference, nullptr)
                << difference << ": " << before << ' ' << literals << ' ' << match << ' ' << last << ' ' << offset;
            ++(beside_.accepted() ? accepted : refused);
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(refused, 1'000);
}

TEST_F(Lz4Tiles, OtherSizesThanPromisedAndTruncation) {
  const Bytes plain = sample(1500, Content::kText), block = compress_lz4(plain);
  for (std::size_t bytes = 1480; bytes <= 1520; bytes += 4) EXPECT_EQ(same(block, bytes), bytes == 1500);
  EXPECT_FALSE(same({}, 10));
  for (std::size_t bytes = 0; bytes < block.size(); bytes += 7) {
    EXPECT_FALSE(same(std::span(block).first(bytes), plain.size()));
  }
  Bytes longer = block;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(same(longer, plain.size()));
}

// Every byte of such a run looks like a token whose length is the rest of the run.
TEST_F(Lz4Tiles, RunsOf0xFF) {
  for (const std::size_t run : {1, 2, 15, 16, 17, 40, 100, 400, 3000}) {
    for (const std::size_t plain : {1, 1000, 300'000}) {
      EXPECT_FALSE(same(Bytes(run, std::byte{0xFF}), plain));
      Bytes block = {std::byte{0x1F}, std::byte{7}, std::byte{1}, std::byte{0}};
      block.insert(block.end(), run, std::byte{0xFF});
      EXPECT_FALSE(same(block, plain));
    }
    // As lengths, as literals, and as literals before a token that begins with more 0xFF.
    EXPECT_TRUE(same(TokenWriter().sequence(3, 1, 19 + 255 * run).last(12)));
    EXPECT_TRUE(same(TokenWriter().literal_bytes(255).sequence(run, 1, 40).last(run + 12)));
    TokenWriter hard;
    hard.literal_bytes(255).sequence(70'000, 65'535, 19 + 255 * 3 + 254);
    hard.sequence(15 + 255 * 2 + 254, 65'535, 19 + 255 * 2 + 254).sequence(run, 1, 40).last(20);
    EXPECT_TRUE(same(hard));
  }
}

// Each byte of the output is a copy of one 64 bytes before: as many hops as there are tiles.
TEST_F(Lz4Tiles, ChainsThroughAllTiles) {
  for (const std::size_t offset : {61, 64, 70, 200}) {
    TokenWriter block;
    block.sequence(offset, offset, 4);
    for (int i = 0; i < 500; ++i) block.sequence(0, offset, 4 + static_cast<std::size_t>(i) % 30);
    EXPECT_TRUE(same(block.last(12)));
    // One match over many tiles, followed by matches that reach into it.
    EXPECT_TRUE(
        same(TokenWriter().sequence(offset, offset, 5000).sequence(0, 150, 300).sequence(1, offset, 3000).last(30)));
    EXPECT_TRUE(
        same(TokenWriter().sequence(offset, offset - 1, 700).sequence(5, 600, 700).sequence(0, 1, 1000).last(30)));
  }
}

TEST_F(Lz4Tiles, FarMatches) {
  TokenWriter block;
  block.sequence(65'535, 65'535, 70);
  for (std::size_t i = 0; i < 60; ++i) block.sequence(i % 3, 65'535 - i * 937, 4 + i * 7 % 300);
  EXPECT_TRUE(same(block.last(20)));
  EXPECT_FALSE(same(TokenWriter().sequence(65'534, 65'535, 70).last(20)));
}

// Consecutive tokens of a fixed length never synchronise when entered at different positions: paths stay apart, and no
// guess is right.
TEST_F(Lz4Tiles, WalksThatNeverMeet) {
  for (const std::size_t literals : {1, 2, 5, 9, 13}) {
    TokenWriter block;
    block.literal_bytes(static_cast<int>(literals << 4)).sequence(literals + 20, 1, 4);
    const std::size_t offset = literals << 4 | literals << 12;  // its bytes look like tokens, too
    block.sequence(offset, 1, 4);
    for (int i = 0; i < 400; ++i) block.sequence(literals, offset, 4);
    EXPECT_TRUE(same(block.last(20))) << literals;
  }
  // With the device's sizes, more paths than are kept: warps continue the walk, also past long lengths of both kinds.
  for (const std::size_t literals : {2, 3, 4, 10}) {
    TokenWriter block;
    const std::size_t token = literals << 4 | 2, offset = token | token << 8;
    block.literal_bytes(static_cast<int>(token)).sequence(offset, 1, 4);
    for (int i = 0; i < 9'000; ++i) {
      block.sequence(i % 700 == 699 ? 270 : literals, offset, i % 900 == 899 ? 19 + 255 : 6);
    }
    block.last(20);
    const char* const difference =
        beside_.check<LargeTiles>(block.bytes(), block.plain(), TilesRun{12, 0}, Flush::kRight);
    EXPECT_EQ(difference, nullptr) << difference << ", " << literals << " literals";
    EXPECT_TRUE(beside_.accepted());
  }
}

// Segments that look like the inside of a long run of literals are not walked. False positives (the offset of a long
// match whose second byte could be such a token) cost another pass, never correctness.
TEST_F(Lz4Tiles, SkippedSegments) {
  TokenWriter literals, match;
  literals.sequence(20, 1, 9).sequence(15 + 255 * 300 + 7, 9, 9);
  match.sequence(65'000, 1, 9).sequence(3, 0xF123, 19 + 255 * 300 + 7);
  for (std::size_t i = 0; i < 11'000; ++i) {
    if (i < 300) literals.sequence(i % 7, 1 + i * 37 % 60'000, 4 + i % 11);
    match.sequence(3 + i % 5, 1 + i * 37 % 60'000, 4 + i % 11);
  }
  literals.last(30);
  match.last(30);
  const TilesRun run{5, 0};
  for (const auto& [block, again] : {std::pair(&literals, false), std::pair(&match, true)}) {
    const char* difference = beside_.check<SmallTiles>(block->bytes(), block->plain(), run, Flush::kRight);
    EXPECT_EQ(difference, nullptr) << difference;
    EXPECT_EQ(tiles_walked_again, again);
    difference = beside_.check<LargeTiles>(block->bytes(), block->plain(), run, Flush::kRight);
    EXPECT_EQ(difference, nullptr) << difference;
    EXPECT_EQ(tiles_walked_again, again);
    EXPECT_TRUE(beside_.accepted());
  }
}

TEST_F(Lz4Tiles, DamagedBlocks) {
  std::mt19937 rng(5);
  int accepted = 0;
  for (int round = 0; round < 700; ++round) {
    const Content content = std::array{Content::kText, Content::kSmooth, Content::kRandom, Content::kZeros}[rng() % 4];
    const std::size_t bytes = 1 + rng() % 1500;
    Bytes block = compress_lz4(sample(bytes, content), round % 2 == 0);
    for (unsigned changes = 1 + rng() % 4; changes > 0; --changes) {
      block[rng() % block.size()] = static_cast<std::byte>(rng() % 3 == 0 ? 255 : rng());
    }
    const TilesRun run{1 + static_cast<unsigned>(rng() % 20), rng() % 2 == 0 ? 0 : 64 * (1 + rng() % 9)};
    const char* const difference = beside_.check<SmallTiles>(block, bytes, run, Flush::kRight);
    ASSERT_EQ(difference, nullptr) << difference << " in round " << round;
    accepted += beside_.accepted();
  }
  EXPECT_GT(accepted, 20);
}

// With the sizes used on the device.
TEST_F(Lz4Tiles, LargeShapes) {
  std::mt19937 rng(11);
  Bytes plain(600'000 + 3), planes = plain, sparse(700'001);
  float value = 280;
  for (std::size_t i = 0; i + 4 <= plain.size(); i += 4) {
    value += 0.01f * (static_cast<float>(rng() % 200) - 99.5f);
    const float rounded = static_cast<float>(static_cast<int>(value * 64)) / 64;
    std::memcpy(&plain[i], &rounded, 4);
    for (std::size_t k = 0; k < 4; ++k) planes[i / 4 + k * 150'000] = plain[i + k];
  }
  for (int i = 0; i < 3000; ++i) sparse[rng() % sparse.size()] = static_cast<std::byte>(rng());
  for (const Bytes* each : {&plain, &planes, &sparse}) {
    const Bytes block = compress_lz4(*each);
    for (const TilesRun& run : {TilesRun{1, 0}, TilesRun{12, 0}, TilesRun{4, 200'000}}) {
      const char* const difference = beside_.check<LargeTiles>(block, each->size(), run, Flush::kRight);
      EXPECT_EQ(difference, nullptr) << difference;
      EXPECT_TRUE(beside_.accepted());
    }
  }
}

// Several streams of a batch, including stored ones: a bad one leaves the others exact, and all alignments occur.
TEST_F(Lz4Tiles, OneBadStreamLeavesTheOthersExact) {
  for (std::size_t bad = 0; bad < 12; ++bad) {
    std::vector<Bytes> blocks, plains;
    std::vector<Lz4Stream> streams;
    std::vector<std::uint64_t> outcomes(12, DecodeOutcome::kOk);
    Bytes source, target(40'000, std::byte{0x5A});
    source.reserve(60'000);
    std::size_t to = 1;
    for (std::size_t i = 0; i < 12; ++i) {
      plains.push_back(sample(100 + i * 331, i % 3 == 0 ? Content::kText : Content::kSmooth));
      const bool stored = i % 5 == 4;
      Bytes block = stored ? plains.back() : compress_lz4(plains.back());
      if (i == bad) stored ? block.pop_back() : block.resize(block.size() / 2);
      source.resize(source.size() + i % 4 + 1);
      const std::size_t from = source.size();
      source.insert(source.end(), block.begin(), block.end());
      streams.push_back({reinterpret_cast<unsigned char*>(source.data() + from),
                         reinterpret_cast<unsigned char*>(target.data() + to), static_cast<std::uint32_t>(block.size()),
                         static_cast<std::uint32_t>(plains.back().size()), static_cast<std::uint32_t>(i),
                         stored ? Lz4Kind::kStored : Lz4Kind::kBlock});
      to += plains.back().size() + 3;
    }
    for (const TilesRun& run : {TilesRun{2, 0}, TilesRun{7, 64 * 9}}) {
      outcomes.assign(12, DecodeOutcome::kOk);
      decode_by_tiles<SmallTiles>(streams, outcomes, run);
      for (std::size_t i = 0; i < 12; ++i) {
        EXPECT_EQ(outcomes[i] == DecodeOutcome::kOk, i != bad) << i;
        if (i == bad) continue;
        EXPECT_EQ(std::memcmp(streams[i].dst, plains[i].data(), plains[i].size()), 0) << i;
        EXPECT_EQ(streams[i].dst[-1], 0x5A);
        EXPECT_EQ(streams[i].dst[plains[i].size()], 0x5A);
      }
    }
  }
}

// Minimum encoded size for streams of the batch to go by tiles.
std::uint32_t chosen(const std::vector<Lz4Stream>& streams, const codec::gpu::Lz4TilesChoice& choice = {}) {
  namespace tiles = codec::gpu::tiles;
  static tiles::SizeClasses shared;
  std::uint32_t out = 0;
  codec::gpu::Lz4TilesChoice own = choice;
  testing::gpu::launch(1, 64, [&] {
    const auto least = tiles::choose_streams(shared, streams.data(), static_cast<std::uint32_t>(streams.size()),
                                             codec::gpu::kLz4TilesSmallest, own);
    if (threadIdx.x == 0) out = least.src;
  });
  return out;
}

std::vector<Lz4Stream> batch(std::size_t count, std::uint32_t src_bytes, std::uint32_t dst_bytes) {
  std::vector<Lz4Stream> out(count);
  for (Lz4Stream& s : out) {
    s.src_bytes = src_bytes;
    s.dst_bytes = dst_bytes;
    s.kind = Lz4Kind::kBlock;
  }
  return out;
}

constexpr std::uint32_t kKi = 1024, kNone = 0xffffffff;

TEST(Lz4TilesChoice, FewLongStreamsGoByTiles) {
  EXPECT_LE(chosen(batch(1, 30'000 * kKi, 65'536 * kKi)), 512 * kKi);
  EXPECT_LE(chosen(batch(16, 120 * kKi, 256 * kKi)), 64 * kKi);
  EXPECT_LE(chosen(batch(1024, 480 * kKi, 1024 * kKi)), 256 * kKi);
  EXPECT_LE(chosen(batch(1024, 224 * kKi, 256 * kKi)), 128 * kKi);
}

TEST(Lz4TilesChoice, ManyStreamsGoInOrder) {
  EXPECT_EQ(chosen(batch(4096, 120 * kKi, 256 * kKi)), kNone);
  EXPECT_EQ(chosen(batch(4096, 224 * kKi, 256 * kKi)), kNone);  // mostly literals
  EXPECT_EQ(chosen(batch(codec::gpu::kLz4TilesMostStreams + 1, 480 * kKi, 1024 * kKi)), kNone);
}

// Streams smaller than `from` are always ignored. When the list is updated in place, streams that go by tiles become
// kNone.
TEST(Lz4TilesPlan, LargeOnesAlone) {
  namespace tiles = codec::gpu::tiles;
  using Config = LargeTiles;
  using Graph = Config::Graph;
  struct Row {
    std::uint32_t src_bytes, dst_bytes;
    Lz4Kind kind;
    bool tiles;
  };
  const Row rows[] = {
      {90 * kKi, 200 * kKi, Lz4Kind::kBlock, false},   {240 * kKi, 480 * kKi, Lz4Kind::kBlock, true},
      {256 * kKi, 256 * kKi, Lz4Kind::kStored, false}, {1280 * kKi, 1280 * kKi, Lz4Kind::kStored, true},
      {300 * kKi, 300 * kKi, Lz4Kind::kStored, false}, {700 * kKi, 900 * kKi, Lz4Kind::kNone, false},
      {120 * kKi, 256 * kKi, Lz4Kind::kBlock, false},  {200 * kKi, 256 * kKi + 1, Lz4Kind::kBlock, true}};
  constexpr std::size_t kRows = std::size(rows);
  for (const bool in_place : {false, true}) {
    std::vector<Lz4Stream> streams, others(kRows);
    codec::gpu::Lz4Limits limits;
    limits.streams = kRows;
    for (const Row& row : rows) {
      Lz4Stream s{};
      s.src_bytes = row.src_bytes;
      s.dst_bytes = row.dst_bytes;
      s.kind = row.kind;
      limits.src_bytes += s.src_bytes;
      limits.dst_bytes += s.dst_bytes;
      streams.push_back(s);
    }
    const std::size_t bytes = tiles::lay_out<Config>(limits, nullptr, limits.dst_bytes).bytes;
    const std::unique_ptr<std::byte[]> memory(new std::byte[bytes + 256]);
    std::byte* const scratch = memory.get() + (-reinterpret_cast<std::uintptr_t>(memory.get()) & 255);
    const tiles::TilesLayout layout = tiles::lay_out<Config>(limits, scratch, limits.dst_bytes);
    codec::gpu::Lz4TilesChoice choice;
    choice.from = codec::gpu::kLz4Small + 1;
    for (Lz4Stream& s : others) s.chunk = 77;
    Lz4Stream* const rest = in_place ? streams.data() : others.data();
    static tiles::SizeClasses classes;
    static tiles::PlanShared shared;
    testing::gpu::launch(1, 64, [&] {
      const auto least =
          tiles::choose_streams(classes, streams.data(), limits.streams, codec::gpu::kLz4TilesSmallest, choice);
      tiles::plan_streams<Graph, Config::kTileBytes>(shared, streams.data(), limits.streams, least, layout.most,
                                                     layout.graph, 3, rest);
    });
    EXPECT_EQ(layout.graph.plan->streams, 3u);
    for (std::size_t i = 0; i < kRows; ++i) {
      const bool left_alone = rows[i].dst_bytes < choice.from;
      const bool none = rows[i].tiles || rows[i].kind == Lz4Kind::kNone;
      EXPECT_EQ(rest[i].kind == Lz4Kind::kNone, none && (in_place || !left_alone)) << i;
      EXPECT_EQ(rest[i].chunk == 77, !in_place && left_alone) << i;
    }
  }
}

// Streams that shrink well are little work in order; and sizes that scratch was not sized for never go by tiles.
TEST(Lz4TilesChoice, ShortOnesGoInOrder) {
  EXPECT_EQ(chosen(batch(4096, 21 * kKi, 256 * kKi)), kNone);
  EXPECT_LE(chosen(batch(64, 21 * kKi, 256 * kKi)), 16 * kKi);
  EXPECT_EQ(chosen(batch(16, 60 * kKi, 63 * kKi)), kNone);
  EXPECT_EQ(chosen(batch(4, 3 * kKi, 1024 * kKi)), kNone);
  EXPECT_LE(chosen(batch(4, 15 * kKi, 1024 * kKi)), 8 * kKi);
  EXPECT_EQ(chosen({}), kNone);
}

TEST(Lz4TilesChoice, IncompressibleStreamsGoInOrderUnlessAlone) {
  const std::vector<unsigned char> literals(65'800 * kKi, 0xff);  // its first token covers everything
  const auto unshrunk = [&](std::size_t count, std::uint32_t src_bytes, std::uint32_t dst_bytes) {
    std::vector<Lz4Stream> out = batch(count, src_bytes, dst_bytes);
    for (Lz4Stream& s : out) s.src = literals.data();
    return out;
  };
  EXPECT_EQ(chosen(unshrunk(1024, 1028 * kKi, 1024 * kKi)), kNone);
  EXPECT_NE(chosen(unshrunk(1, 65'800 * kKi, 65'536 * kKi)), kNone);
  EXPECT_NE(chosen(unshrunk(16, 65'800 * kKi, 65'536 * kKi)), kNone);
  EXPECT_NE(chosen(unshrunk(1, 1028 * kKi, 1024 * kKi)), kNone);
}

// A chunk whose metadata declares less than its stream decodes to did not shrink either, and may have any tokens.
TEST(Lz4TilesChoice, SeeminglyIncompressibleStreamsAreExamined) {
  std::vector<unsigned char> stream(786 * kKi, 0xff);
  std::vector<Lz4Stream> streams = batch(96, 786 * kKi, 700 * kKi);
  for (Lz4Stream& s : streams) s.src = stream.data();
  EXPECT_EQ(chosen(streams), kNone);
  stream[0] = 0x12;
  EXPECT_LE(chosen(streams), 512 * kKi);
  stream[0] = 0xff;
  std::fill_n(stream.begin() + 100, 200, 0x12);
  EXPECT_LE(chosen(streams), 512 * kKi);
  std::fill_n(stream.begin() + 100, 200, 0xff);
  streams = batch(100, 786 * kKi, 700 * kKi);
  for (Lz4Stream& s : streams) s.src = stream.data();
  const std::vector<unsigned char> dense(786 * kKi, 0x12);
  streams[97].src = dense.data();
  EXPECT_LE(chosen(streams), 512 * kKi);
  streams[97].src_bytes = streams[97].dst_bytes = 0;  // nothing to sample
  streams[97].src = nullptr;
  EXPECT_EQ(chosen(streams), kNone);
}

// Dense planes of shuffled blocks go by tiles; the in-order decoder gets the others.
TEST(Lz4TilesChoice, DensePlanesAlone) {
  std::vector<Lz4Stream> planes = batch(256, 100 * kKi, 128 * kKi);
  const std::vector<Lz4Stream> light = batch(768, 5 * kKi, 128 * kKi);
  planes.insert(planes.end(), light.begin(), light.end());
  const std::uint32_t least = chosen(planes);
  EXPECT_LE(least, 100 * kKi);
  EXPECT_GT(least, 5 * kKi);
}

}  // namespace
}  // namespace headrace::test

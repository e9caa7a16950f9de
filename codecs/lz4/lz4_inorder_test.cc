// The GPU's in-order LZ4 decoder, the same source run on the CPU: accepts what liblz4 accepts, produces the same bytes,
// and stays inside its buffers.
// clang-format off: gives the device code its keywords
#include "tests/support/lz4_inorder_check.h"
// clang-format on

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "codecs/lz4/lz4_stage_device.cuh"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using codec::gpu::Lz4Kind;
using codec::gpu::Lz4Stream;
using device::DecodeOutcome;
using device::DecodeReason;

constexpr unsigned kAllShapes[] = {4, 8, 16, 32};

class Lz4Inorder : public ::testing::Test {
 protected:
  // Both flush directions and every group width. Returns whether liblz4 accepts it.
  bool same(std::span<const std::byte> block, std::size_t plain_bytes) {
    for (const unsigned lanes : kAllShapes) {
      for (const Flush flush : {Flush::kLeft, Flush::kRight}) {
        const char* const difference = beside_.check(block, plain_bytes, lanes, flush);
        EXPECT_EQ(difference, nullptr) << difference << ", " << lanes << " lanes, " << block.size() << " bytes to "
                                       << plain_bytes;
        if (difference != nullptr) return beside_.accepted();
      }
    }
    return beside_.accepted();
  }
  bool same(const TokenWriter& block) { return same(block.bytes(), block.plain()); }

  InorderBeside beside_{1 << 20};
};

TEST_F(Lz4Inorder, DecodesLiblz4Output) {
  for (const std::size_t bytes : {0,  1,  4,  5,   12,  13,   14,   31,   32,    33,    63,    64,
                                  65, 96, 97, 127, 128, 1000, 4095, 4096, 20011, 65535, 65536, 150000}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      const Bytes plain = sample(bytes, content);
      EXPECT_TRUE(same(compress_lz4(plain), bytes));
      EXPECT_TRUE(same(compress_lz4(plain, true), bytes));
    }
  }
}

// Float fields, byte-shuffled ones and sparse ones have other tokens than text.
TEST_F(Lz4Inorder, TypicalArrayContent) {
  std::mt19937 rng(11);
  Bytes plain(40'000 + 3), planes = plain, sparse(70'001);
  float value = 280;
  for (std::size_t i = 0; i + 4 <= plain.size(); i += 4) {
    value += 0.01f * (static_cast<float>(rng() % 200) - 99.5f);
    const float rounded = static_cast<float>(static_cast<int>(value * 64)) / 64;
    std::memcpy(&plain[i], &rounded, 4);
    for (std::size_t k = 0; k < 4; ++k) planes[i / 4 + k * 10'000] = plain[i + k];
  }
  for (int i = 0; i < 300; ++i) sparse[rng() % sparse.size()] = static_cast<std::byte>(rng());
  for (const Bytes* each : {&plain, &planes, &sparse}) {
    EXPECT_TRUE(same(compress_lz4(*each), each->size()));
    EXPECT_TRUE(same(compress_lz4(*each, true), each->size()));
  }
}

TEST_F(Lz4Inorder, MatchesOfEveryDistanceAndLength) {
  for (std::size_t offset = 0; offset <= 140; offset += offset < 70 ? 1 : 7) {
    TokenWriter block;
    block.sequence(140, 1, 4);
    for (const std::size_t length : {4,   5,   7,   8,   15,  18,  19,  31,  32,  33,  34,  47,  63,  64,   65,  127,
                                     128, 129, 255, 256, 257, 272, 273, 274, 275, 300, 511, 528, 529, 1000, 5000}) {
      block.sequence(length % 5, offset, length);
    }
    block.last(12);
    EXPECT_TRUE(same(block)) << "offset " << offset;
  }
}

TEST_F(Lz4Inorder, LiteralRunsOfEveryLength) {
  TokenWriter all;
  for (std::size_t literals = 0; literals < 300; ++literals) {
    EXPECT_TRUE(same(TokenWriter().sequence(literals + 1, 1, 4).last(literals + 12))) << literals;
    all.sequence(literals + 1, 1 + literals % 30 % (literals + 1), 4 + literals % 40);
  }
  EXPECT_TRUE(same(all.last(700)));
  for (const std::size_t literals : {15 + 255, 15 + 2 * 255, 15 + 255 * 40, 15 + 255 * 200 + 254, 100'000}) {
    EXPECT_TRUE(same(TokenWriter().last(literals)));
    EXPECT_TRUE(same(TokenWriter().sequence(literals, 3, 20).sequence(3, 60'000 % literals + 1, literals).last(8)));
  }
}

// Every combination of what can be at the end, with room to spare and without.
TEST_F(Lz4Inorder, EndsOfBlocks) {
  int accepted = 0, refused = 0;
  for (const std::size_t before : {0, 1, 20, 61, 100}) {
    for (std::size_t literals = 0; literals <= 17; ++literals) {
      for (std::size_t match = 4; match <= 20; match += match < 16 ? 2 : 1) {
        for (const std::size_t last : {0, 1, 4, 5, 6, 8, 12, 13}) {
          for (const std::size_t offset : {0, 1, 7, 8, 9}) {
            TokenWriter block;
            if (before != 0) block.sequence(before, 1, 9);
            block.sequence(literals, offset, match).last(last);
            const unsigned lanes = kAllShapes[(literals + match + last + offset) % 4];
            const char* const difference = beside_.check(block.bytes(), block.plain(), lanes, Flush::kRight);
            ASSERT_EQ(difference, nullptr)
                << difference << ": " << before << ' ' << literals << ' ' << match << ' ' << last << ' ' << offset;
            ++(beside_.accepted() ? accepted : refused);
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 5000);
  EXPECT_GT(refused, 5000);
}

TEST_F(Lz4Inorder, OtherSizesThanPromised) {
  const Bytes plain = sample(3000, Content::kText), block = compress_lz4(plain);
  for (std::size_t bytes = 2900; bytes <= 3100; ++bytes) {
    EXPECT_EQ(same(block, bytes), bytes == 3000);
  }
  EXPECT_FALSE(same(block, 0));
  EXPECT_FALSE(same({}, 10));
  EXPECT_FALSE(same({}, 0));
  for (unsigned token = 0; token < 256; ++token) {
    const std::byte byte{static_cast<unsigned char>(token)};
    EXPECT_EQ(same({&byte, 1}, 0), token == 0);
  }
}

TEST_F(Lz4Inorder, TruncatedAnywhereAndTrailingBytes) {
  const Bytes plain = sample(1500, Content::kText);
  Bytes block = compress_lz4(plain);
  for (std::size_t bytes = 0; bytes < block.size(); ++bytes) {
    EXPECT_FALSE(same(std::span(block).first(bytes), plain.size()));
  }
  block.push_back(std::byte{0});
  EXPECT_FALSE(same(block, plain.size()));
}

// Only 0xFF: the length ends with the input or the output, whichever comes first.
TEST_F(Lz4Inorder, EndlessLengths) {
  for (const std::size_t run : {1, 2, 10, 30, 60, 70, 128, 129, 1000}) {
    for (const std::size_t plain : {1, 100, 1000, 300'000}) {
      Bytes block(run, std::byte{0xFF});
      EXPECT_FALSE(same(block, plain));
      block = {std::byte{0x1F}, std::byte{7}, std::byte{1}, std::byte{0}};
      block.insert(block.end(), run, std::byte{0xFF});
      EXPECT_FALSE(same(block, plain));
    }
  }
}

TEST_F(Lz4Inorder, DamagedBlocks) {
  std::mt19937 rng(5);
  int accepted = 0;
  for (int round = 0; round < 1500; ++round) {
    const Content content = std::array{Content::kText, Content::kSmooth, Content::kRandom, Content::kZeros}[rng() % 4];
    const std::size_t bytes = 1 + rng() % 1500;
    Bytes block = compress_lz4(sample(bytes, content), round % 2 == 0);
    for (unsigned changes = 1 + rng() % 4; changes > 0; --changes) {
      block[rng() % block.size()] = static_cast<std::byte>(rng() % 3 == 0 ? 255 : rng());
    }
    const char* const difference = beside_.check(block, bytes, kAllShapes[rng() % 4], Flush::kRight);
    ASSERT_EQ(difference, nullptr) << difference << " in round " << round;
    accepted += beside_.accepted();
  }
  EXPECT_GT(accepted, 50);
}

TEST_F(Lz4Inorder, OutcomesNameTheFirstByteAtFault) {
  TokenWriter block;
  block.sequence(20, 5, 10);
  const std::size_t at = block.bytes().size();
  block.sequence(3, 60, 10).last(20);
  EXPECT_FALSE(same(block));
  EXPECT_EQ(beside_.outcome().reason(), DecodeReason::kOffset);
  EXPECT_EQ(beside_.outcome().position(), at + 4);
}

struct Batch {
  std::vector<Bytes> blocks, plains;
  std::vector<Bytes> dsts;
  std::vector<Lz4Stream> streams;
  std::vector<std::uint64_t> outcomes;

  void add(Bytes block, Bytes plain, Lz4Kind kind) {
    blocks.push_back(std::move(block));
    plains.push_back(std::move(plain));
    dsts.emplace_back(plains.back().size(), std::byte{0x5A});
    const auto chunk = static_cast<std::uint32_t>(streams.size());
    streams.push_back({reinterpret_cast<unsigned char*>(blocks.back().data()),
                       reinterpret_cast<unsigned char*>(dsts.back().data()),
                       static_cast<std::uint32_t>(blocks.back().size()),
                       static_cast<std::uint32_t>(plains.back().size()), chunk, kind});
    outcomes.push_back(DecodeOutcome::kOk);
  }
};

// All kinds in one list, with a bad stream at every position: the others decode exactly.
TEST_F(Lz4Inorder, OneBadStreamLeavesTheOthersExact) {
  for (const unsigned lanes : kAllShapes) {
    for (const std::size_t count : {1, 2, 31, 150}) {
      for (const std::size_t bad : {std::size_t{0}, count / 2, count - 1}) {
        std::mt19937 rng(static_cast<unsigned>(bad + count));
        Batch batch;
        for (std::size_t i = 0; i < count; ++i) {
          const Bytes plain = sample(1 + rng() % 3000, i % 3 == 0 ? Content::kText : Content::kSmooth);
          if (i == bad) {
            Bytes block = compress_lz4(plain);
            block.pop_back();
            batch.add(block, plain, Lz4Kind::kBlock);
          } else if (i % 7 == 3) {
            batch.add(plain, plain, Lz4Kind::kStored);
          } else {
            batch.add(compress_lz4(plain), plain, i % 11 == 5 ? Lz4Kind::kNone : Lz4Kind::kBlock);
          }
        }
        const std::size_t skipped = count > 3 ? (bad + 2) % count : count;
        if (skipped < count) batch.outcomes[skipped] = DecodeOutcome::pack(0, 9, DecodeReason::kChecksum);
        decode_in_order(lanes, batch.streams, batch.outcomes, 1 + static_cast<unsigned>(count) / 64, 1);
        for (std::size_t i = 0; i < count; ++i) {
          const bool untouched = i == skipped || batch.streams[i].kind == Lz4Kind::kNone;
          const DecodeOutcome outcome{batch.outcomes[i]};
          EXPECT_EQ(outcome.ok(), i != bad && i != skipped) << i;
          if (i == skipped) {
            EXPECT_EQ(outcome.word, DecodeOutcome::pack(0, 9, DecodeReason::kChecksum));
          } else if (i == bad) {
            EXPECT_EQ(outcome.stage(), 1u);
          }
          if (i != bad) {
            EXPECT_EQ(batch.dsts[i], untouched ? Bytes(batch.plains[i].size(), std::byte{0x5A}) : batch.plains[i]) << i;
          }
        }
      }
    }
  }
}

TEST_F(Lz4Inorder, StoredStreamsOfOtherSizesAreRefused) {
  Batch batch;
  batch.add(Bytes(100), Bytes(99), Lz4Kind::kStored);
  decode_in_order(8, batch.streams, batch.outcomes);
  EXPECT_FALSE(DecodeOutcome{batch.outcomes[0]}.ok());
  for (const std::size_t bytes : {0, 1, 255, 256, 257, 300, 1000, 5000, 70'001}) {
    for (std::size_t from = 0; from < 17; from += 3) {
      const Bytes plain = sample(bytes, Content::kRandom);
      GuardBuffer src(bytes + from, Flush::kRight), dst(bytes, from % 2 == 0 ? Flush::kRight : Flush::kLeft);
      std::copy(plain.begin(), plain.end(), src.data() + from);
      Lz4Stream stream{reinterpret_cast<unsigned char*>(src.data() + from),
                       reinterpret_cast<unsigned char*>(dst.data()),
                       static_cast<std::uint32_t>(bytes),
                       static_cast<std::uint32_t>(bytes),
                       0,
                       Lz4Kind::kStored};
      std::uint64_t outcome = DecodeOutcome::kOk;
      decode_in_order(32, {&stream, 1}, {&outcome, 1});
      EXPECT_TRUE(DecodeOutcome{outcome}.ok());
      EXPECT_TRUE(dst.intact());
      EXPECT_TRUE(std::equal(plain.begin(), plain.end(), dst.data()));
    }
  }
}

TEST_F(Lz4Inorder, LanesFollowTheNumberOfStreams) {
  codec::gpu::Lz4InorderChoice choice;
  choice.multiprocessors = 100;
  EXPECT_EQ(lz4_inorder_lanes(1, choice), 32u);
  EXPECT_EQ(lz4_inorder_lanes(7'999, choice), 32u);
  EXPECT_EQ(lz4_inorder_lanes(8'000, choice), 8u);
  choice.sparse = true;
  EXPECT_EQ(lz4_inorder_lanes(1'199, choice), 32u);
  EXPECT_EQ(lz4_inorder_lanes(1'200, choice), 16u);
  EXPECT_EQ(lz4_inorder_lanes(100'000, choice), 8u);
  choice.lanes = 16;
  EXPECT_EQ(lz4_inorder_lanes(1, choice), 16u);
}

TEST_F(Lz4Inorder, ChunksBecomeStreams) {
  Bytes good = compress_lz4(sample(1000, Content::kText));
  good.insert(good.begin(), {std::byte{0xE8}, std::byte{3}, std::byte{0}, std::byte{0}});
  Bytes tiny(4), huge = good;
  huge[3] = std::byte{0x80};
  for (const bool exact : {true, false}) {
    std::vector<device::gpu::Chunk> chunks;
    std::vector<std::uint64_t> outcomes;
    const auto add = [&](Bytes& bytes, std::uint64_t room) {
      chunks.push_back({reinterpret_cast<unsigned char*>(bytes.data()), nullptr, bytes.size(), room});
      outcomes.push_back(DecodeOutcome::kOk);
    };
    add(good, 1000);
    add(good, 1001);
    add(good, 999);
    add(tiny, 0);
    add(huge, std::uint64_t{1} << 32);
    add(good, 1000);
    outcomes[5] = 0;
    std::vector<Lz4Stream> streams(6);
    std::uint32_t count[2] = {0, 5};
    testing::gpu::launch(2, 32, [&] {
      codec::gpu::list_lz4_streams_body(chunks.data(), 6, exact, outcomes.data(), 2, streams.data(), count);
    });
    EXPECT_EQ(count[0], 6u);
    EXPECT_EQ(count[1], 0u);  // the ticket
    const bool block[] = {true, !exact, false, false, false, false};
    const bool ok[] = {true, !exact, false, false, false, false};
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(streams[i].kind, block[i] ? Lz4Kind::kBlock : Lz4Kind::kNone) << i;
      EXPECT_EQ(outcomes[i] == DecodeOutcome::kOk, ok[i]) << i;
      EXPECT_EQ(streams[i].chunk, i);
      if (!block[i]) continue;
      EXPECT_EQ(streams[i].src, chunks[i].src + 4);
      EXPECT_EQ(streams[i].src_bytes, good.size() - 4);
      EXPECT_EQ(streams[i].dst_bytes, 1000u);
      EXPECT_EQ(chunks[i].dst_bytes, 1000u);
    }
    EXPECT_EQ(outcomes[5], 0u);
  }
}

}  // namespace
}  // namespace headrace::test

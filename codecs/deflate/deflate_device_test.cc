// DEFLATE's device code, run on the CPU between guard pages and compared with libdeflate on encoder output and on
// damaged streams: verdicts and bytes must be the same.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <iterator>

#include "codecs/deflate/deflate_stage_device.cuh"
#include "tests/support/codec_seed_files.h"
#include "tests/support/deflate_device_check.h"

namespace headrace::test {
namespace {

class DeflateDevice : public DeflateDeviceTest {
 protected:
  void expect_round_trip(const Bytes& plain, const Bytes& stream, const std::string& what) {
    EXPECT_TRUE(expect_decoded(stream, plain.size(), what) == plain) << what;
  }
};

TEST_F(DeflateDevice, WhatLibdeflateWrites) {
  for (const std::size_t bytes : {0, 1, 2, 7, 100, 255, 256, 1000, 4096, 20011, 65791, 65792}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      for (const int level : {0, 1, 2, 6, 9, 12}) {
        if (level != 6 && bytes > 20011) continue;
        gpu_.kind = (level + bytes) % 2 == 0 ? DeflateKind::kGzip : DeflateKind::kZlib;
        const Bytes plain = sample(bytes, content);
        expect_round_trip(plain, deflate_by_libdeflate(plain, gpu_.kind, level),
                          std::to_string(bytes) + " bytes, content " + std::to_string(static_cast<int>(content)) +
                              ", level " + std::to_string(level));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(DeflateDevice, WhatZlibWrites) {
  for (const std::size_t bytes : {1, 300, 9000, 40'000}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      const Bytes plain = sample(bytes, content, 3);
      for (const int strategy : {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED}) {
        for (const int level : {0, 1, 4, 9}) {
          if (bytes > 9000 && level != 4) continue;
          gpu_.kind = (level + strategy) % 2 == 0 ? DeflateKind::kGzip : DeflateKind::kZlib;
          const ZlibOptions options{.level = level, .strategy = strategy, .memory = level == 9 ? 1 : 8};
          expect_round_trip(plain, deflate_by_zlib(plain, gpu_.kind, options),
                            "strategy " + std::to_string(strategy) + " level " + std::to_string(level) + " bytes " +
                                std::to_string(bytes));
          if (HasFailure()) return;
        }
      }
      for (const int flush : {Z_SYNC_FLUSH, Z_FULL_FLUSH, Z_PARTIAL_FLUSH, Z_BLOCK}) {
        const ZlibOptions options{.window = 9 + flush, .flush_each = bytes / 7 + 1, .flush = flush};
        expect_round_trip(plain, deflate_by_zlib(plain, gpu_.kind, options), "flush " + std::to_string(flush));
      }
    }
  }
}

// Blocks are found where they begin: there are many runs, and all are right.
TEST_F(DeflateDevice, SeveralBlocks) {
  for (const DeflateKind kind : {DeflateKind::kGzip, DeflateKind::kZlib}) {
    gpu_.kind = kind;
    for (const std::size_t bytes : {131071, 131073, 300'000}) {
      for (const bool planes : {false, true}) {
        const Bytes plain = float_field(bytes, 3, planes);
        expect_round_trip(plain, deflate_by_zlib(plain, kind), "zlib");
        expect_round_trip(plain, deflate_by_libdeflate(plain, kind, 6), "libdeflate");
        if (bytes == 300'000) expect_round_trip(plain, deflate_by_libdeflate(plain, kind, 12), "libdeflate 12");
      }
      for (const Content content : {Content::kZeros, Content::kSmooth, Content::kText}) {
        const Bytes plain = sample(bytes, content);
        expect_round_trip(plain, deflate_by_zlib(plain, kind, {.level = 1}), std::to_string(bytes));
      }
    }
  }
  const std::uint64_t before = gpu_.runs_left;
  Bytes plain = float_field(1'000'000, 5, false), got;
  const Bytes stream = deflate_by_zlib(plain, gpu_.kind);
  EXPECT_TRUE(run(stream, plain.size(), true, got).ok());
  EXPECT_TRUE(got == plain);
  EXPECT_GT(gpu_.runs_left - before, 15u);
  EXPECT_EQ(gpu_.runs, gpu_.runs_left);
}

// More runs than a turn examines.
TEST_F(DeflateDevice, ManyRuns) {
  gpu_.kind = DeflateKind::kZlib;
  gpu_.runs = gpu_.runs_left = 0;
  const Bytes plain = float_field(1'600'000, 7, false), stream = deflate_by_zlib(plain, gpu_.kind, {.memory = 3});
  Bytes got;
  EXPECT_TRUE(run(stream, plain.size(), true, got).ok());
  EXPECT_TRUE(got == plain);
  EXPECT_GT(gpu_.runs_left, 150u);
}

// Encoder output is never left to the CPU for having too many blocks, however well it compresses.
TEST_F(DeflateDevice, OrdinaryStreamsFitTheAllowance) {
  gpu_.allowance = {};
  gpu_.kind = DeflateKind::kZlib;
  std::vector<Bytes> contents;
  for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
    contents.push_back(sample(150'000, content));
  }
  contents.push_back(float_field(150'000, 1, false));
  // Runs of few values, whose statistics change every few KiB.
  Bytes counts(400'000);
  std::mt19937 rng(6);
  unsigned value = 0, left = 0;
  for (std::size_t i = 0; i < counts.size(); ++i, --left) {
    if (left == 0) {
      value = static_cast<unsigned>(rng() % (2 + i / 5000 % 40));
      left = 1 + static_cast<unsigned>(rng() % (1 + i / 7000 % 90));
    }
    counts[i] = static_cast<std::byte>(value);
  }
  contents.push_back(counts);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const Bytes& plain = contents[i];
    for (const int level : {1, 6, 9}) {
      expect_round_trip(plain, deflate_by_zlib(plain, gpu_.kind, {.level = level}), "zlib " + std::to_string(i));
    }
    for (const int level : {1, 6, 12}) {
      expect_round_trip(plain, deflate_by_libdeflate(plain, gpu_.kind, level), "libdeflate " + std::to_string(i));
    }
  }
}

TEST_F(DeflateDevice, MembersAndTheirHeaders) {
  const Bytes a = sample(5000, Content::kText), b = float_field(30'000, 2, false);
  const auto member = [](const Bytes& plain) { return deflate_by_zlib(plain, DeflateKind::kGzip); };
  const auto plus = [](Bytes x, const Bytes& y) {
    x.insert(x.end(), y.begin(), y.end());
    return x;
  };
  const Bytes both = plus(a, b), empty = member({});
  for (const Bytes& stream :
       {plus(member(a), member(b)), plus(plus(empty, member(a)), plus(member(b), plus(empty, empty))),
        plus(deflate_by_libdeflate(a, DeflateKind::kGzip, 1), deflate_by_libdeflate(b, DeflateKind::kGzip, 12))}) {
    EXPECT_TRUE(expect_decoded(stream, 35'000, "members") == both);
    EXPECT_TRUE(expect_decoded(stream, 40'000, "members", false) == both);
    expect_refused(stream, 35'001, DecodeReason::kWrongSize, "fewer bytes than promised");
    EXPECT_TRUE(same_verdict(stream, 34'999));
    EXPECT_TRUE(same_verdict(stream, 34'999, false));
    EXPECT_TRUE(same_verdict(stream, 0));
  }
  EXPECT_TRUE(expect_decoded(plus(empty, empty), 0, "empty members").empty());
  expect_refused({}, 0, DecodeReason::kTruncated, "no bytes at all");
  // Each member has its own history, checksum and size.
  Bytes many;
  Bytes want;
  for (unsigned i = 0; i < 40; ++i) {
    const Bytes plain = sample(1 + 97 * i, Content::kText, i);
    many = plus(many, member(plain));
    want = plus(want, plain);
  }
  EXPECT_TRUE(expect_decoded(many, want.size(), "many members") == want);
  // Some members span several runs, with short members between them.
  for (unsigned i = 0; i < 3; ++i) {
    const Bytes plain = float_field(200'000 + i, 7 + i, i == 1);
    many = plus(many, member(plain));
    want = plus(want, plain);
    if (i == 1) many = plus(many, empty);
  }
  EXPECT_TRUE(expect_decoded(many, want.size(), "large members") == want);
  EXPECT_EQ(host_only_, 0);
}

// Uses several rounds with several streams each; one stream is bad.
TEST_F(DeflateDevice, OneBadStreamLeavesTheOthersExactInEveryRound) {
  constexpr std::size_t kCount = 13;
  gpu_.kind = DeflateKind::kZlib;
  std::vector<Bytes> plain, streams;
  for (unsigned i = 0; i < kCount; ++i) {
    plain.push_back(i % 3 == 0 ? float_field(300'000, i, i % 2 == 0) : sample(1 + 20'000 * (i % 4), Content::kText, i));
    streams.push_back(i % 2 == 0 ? deflate_by_libdeflate(plain[i], gpu_.kind, 1 + static_cast<int>(i % 9))
                                 : deflate_by_zlib(plain[i], gpu_.kind));
  }
  gpu_.most_bytes = 0;
  for (const std::size_t bad : {std::size_t{0}, std::size_t{3}, kCount - 1, kCount}) {
    std::vector<Bytes> damaged = streams;
    if (bad < kCount) damaged[bad].resize(damaged[bad].size() - 7);
    std::vector<std::unique_ptr<GuardBuffer>> out;
    std::vector<DeflateOnCpu::Item> items;
    for (std::size_t i = 0; i < kCount; ++i) {
      out.push_back(std::make_unique<GuardBuffer>(plain[i].size(), Flush::kRight));
      items.push_back({damaged[i], out[i]->span(), {}, 0});
    }
    gpu_.blocks = 1 + static_cast<unsigned>(bad % 4);
    gpu_.search = bad % 2 == 0;
    gpu_.way = bad % 3 == 0 ? DeflateOnCpu::Way::kTiles : DeflateOnCpu::Way::kInOrder;
    gpu_.decode(items, true);
    EXPECT_GE(gpu_.rounds_used, 2u);
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(out[i]->intact());
      EXPECT_EQ(items[i].outcome.ok(), i != bad) << i << ": " << decode_reason_text(items[i].outcome.reason());
      if (i == bad) continue;
      EXPECT_TRUE(std::equal(plain[i].begin(), plain[i].end(), out[i]->data())) << i;
    }
  }
}

TEST_F(DeflateDevice, SeedsLikeTheCodecs) {
  std::size_t seeds = 0;
  for (const DeflateKind kind : {DeflateKind::kGzip, DeflateKind::kZlib}) {
    gpu_.kind = kind;
    for (const auto& [path, content, seed] : codec_seeds(name_of(kind))) {
      EXPECT_TRUE(same_verdict(seed.stream, seed.capacity, seed.exact)) << path;
      ++seeds;
    }
  }
  EXPECT_GE(seeds, 24u);
}

// Whatever the streams contain, all they need fits into some round, and each round fits the memory.
TEST_F(DeflateDevice, RoundsAreEnoughAndScratchGrowsWithTheLimits) {
  namespace deflate = codec::gpu::deflate;
  for (const std::uint32_t streams : {1u, 7u, 1000u, 65536u}) {
    std::uint64_t before = 0;
    for (std::uint64_t dst = 0; dst < std::uint64_t{1} << 36; dst = dst * 5 / 4 + 1000) {
      codec::gpu::lz77::StreamLimits limits;
      limits.streams = streams;
      limits.dst_bytes = limits.src_bytes = dst;
      const deflate::Layout layout(limits, {});
      const std::uint64_t place_units = (layout.tiles - layout.places) / deflate::kUnitBytes;
      // Only matches of three bytes, in as many pieces as possible, with each part rounded up.
      const std::uint64_t sequences = dst / 3, pieces = layout.piece_count;
      const std::uint64_t most = sequences / 2 + sequences / 64 + 4 * pieces;
      ASSERT_GE(std::uint64_t{layout.rounds.count} * layout.rounds.per_round, most) << streams << ' ' << dst;
      if (layout.rounds.count == 1) {
        ASSERT_GE(place_units, most) << streams << ' ' << dst;
      } else {
        ASSERT_GE(place_units, std::uint64_t{layout.rounds.per_round} + deflate::kMaxPieceUnits)
            << streams << ' ' << dst;
      }
      ASSERT_GE(layout.end, before);
      ASSERT_LE(layout.rounds.count, 4u);
      before = layout.end;
    }
  }
}

TEST_F(DeflateDevice, StreamsOfChunks) {
  const Bytes stream = deflate_by_zlib(sample(100, Content::kText), DeflateKind::kZlib);
  device::gpu::Chunk chunk{reinterpret_cast<const unsigned char*>(stream.data()), nullptr, stream.size(), 100};
  codec::gpu::DeflateStream listed{};
  std::uint32_t count = 0;
  testing::gpu::launch(1, 32, [&] {
    codec::gpu::lz77::list_streams_body(codec::gpu::DeflateFormat{DeflateKind::kZlib}, &chunk, 1, &listed, &count);
  });
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(listed.src, chunk.src);
  EXPECT_EQ(listed.src_bytes, stream.size());
  EXPECT_EQ(listed.dst_bytes, 100u);
  EXPECT_EQ(listed.kind, DeflateKind::kZlib);
  listed.dst_bytes = 90;
  std::uint64_t outcome = 5;
  testing::gpu::launch(1, 32, [&] { codec::gpu::lz77::tell_sizes_body(&chunk, 1, &listed, &outcome); });
  EXPECT_EQ(chunk.dst_bytes, 100u);
  outcome = DecodeOutcome::kOk;
  testing::gpu::launch(1, 32, [&] { codec::gpu::lz77::tell_sizes_body(&chunk, 1, &listed, &outcome); });
  EXPECT_EQ(chunk.dst_bytes, 90u);
}

TEST_F(DeflateDevice, TruncatedAnywhereAndEveryBitFlipped) {
  const Bytes plain[] = {sample(600, Content::kText), float_field(700, 1, false), float_field(2000, 2, true)};
  const Bytes streams[] = {deflate_by_libdeflate(plain[0], DeflateKind::kGzip, 12),
                           deflate_by_zlib(plain[1], DeflateKind::kZlib, {.strategy = Z_FIXED}),
                           deflate_by_zlib(plain[2], DeflateKind::kGzip, {.flush_each = 700})};
  for (std::size_t k = 0; k < std::size(streams); ++k) {
    gpu_.kind = k == 1 ? DeflateKind::kZlib : DeflateKind::kGzip;
    const Bytes& good = streams[k];
    const std::size_t bytes = plain[k].size();
    ASSERT_TRUE(same_verdict(good, bytes));
    for (std::size_t length = 0; length < good.size(); length += length < 150 || length + 50 > good.size() ? 1 : 4) {
      ASSERT_TRUE(same_verdict({good.data(), length}, bytes)) << k << " cut to " << length;
    }
    const std::size_t step = 1 + 8 * good.size() / 600;
    for (std::size_t bit = 0; bit < 8 * good.size(); bit += bit < 400 ? 1 : step) {
      Bytes bad = good;
      bad[bit / 8] ^= std::byte{1} << (bit % 8);
      ASSERT_TRUE(same_verdict(bad, bytes)) << k << " bit " << bit;
      ASSERT_TRUE(k != 2 || same_verdict(bad, bytes, false)) << k << " bit " << bit;
    }
  }
  EXPECT_GT(refused_, 1000);
  EXPECT_LT(host_only_, refused_ / 5);  // symbols that only libdeflate accepts
}

TEST_F(DeflateDevice, RandomDamage) {
  std::mt19937 rng(9);
  for (int round = 0; round < 600; ++round) {
    const std::size_t bytes = 1 + rng() % 3000;
    gpu_.kind = round % 2 == 0 ? DeflateKind::kGzip : DeflateKind::kZlib;
    const Bytes plain = round % 3 == 0   ? float_field(bytes, unsigned(rng()), rng() % 2 == 0)
                        : round % 3 == 1 ? sample(bytes, Content::kText, unsigned(rng()))
                                         : sample(bytes, Content::kSmooth, unsigned(rng()));
    Bytes stream = rng() % 2 == 0 ? deflate_by_libdeflate(plain, gpu_.kind, static_cast<int>(rng() % 13))
                                  : deflate_by_zlib(plain, gpu_.kind, {.level = static_cast<int>(rng() % 10)});
    for (auto flips = rng() % 3; flips > 0; --flips) {
      const std::size_t at = rng() % 3 == 0 ? rng() % std::min<std::size_t>(stream.size(), 40) : rng() % stream.size();
      stream[at] = static_cast<std::byte>(rng() % 4 == 0 ? 255 : rng());
    }
    ASSERT_TRUE(same_verdict(stream, bytes, rng() % 4 != 0)) << round;
  }
  EXPECT_GT(accepted_, 150);
  EXPECT_GT(refused_, 100);
}

}  // namespace
}  // namespace headrace::test

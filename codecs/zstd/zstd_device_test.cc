// zstd's device code, run on the CPU between guard pages and compared with libzstd on encoder output and on damaged
// streams: verdicts and bytes must be the same.
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_compressSequences
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include "codecs/zstd/zstd_stage_device.cuh"
#include "tests/support/codec_seed_files.h"
#include "tests/support/zstd_device_check.h"
#include "tests/support/zstd_writer.h"

namespace headrace::test {
namespace {

class ZstdDevice : public ZstdDeviceTest {};

TEST_F(ZstdDevice, DecodesLibzstdOutput) {
  for (const std::size_t bytes : {0, 1, 2, 7, 100, 255, 256, 1000, 4096, 20011, 65791, 65792}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      for (const int level : {-5, 1, 3, 9, 19}) {
        if (level != 3 && bytes > 20011) continue;
        expect_round_trip(sample(bytes, content), {.level = level, .checksum = level == 9, .size = level != 1},
                          std::to_string(bytes) + " bytes, content " + std::to_string(static_cast<int>(content)) +
                              ", level " + std::to_string(level));
      }
    }
  }
}

TEST_F(ZstdDevice, SeveralBlocks) {
  for (const std::size_t bytes : {131071, 131072, 131073, 300000}) {
    for (const Content content : {Content::kZeros, Content::kSmooth, Content::kText}) {
      expect_round_trip(sample(bytes, content), {}, std::to_string(bytes));
    }
    expect_round_trip(float_field(bytes, 3, false), {.level = bytes == 300000 ? 3 : 1}, "field");
    expect_round_trip(float_field(bytes, 4, true), {.level = bytes == 300000 ? 7 : 3}, "planes");
  }
  // Small windows cause small blocks and offsets up to the window's end.
  for (const int log : {10, 11, 14, 17}) {
    expect_round_trip(float_field(60'000, 5, false), {.level = 6, .window_log = log, .size = false}, "window");
    expect_round_trip(sample(60'000, Content::kText), {.level = 19, .window_log = log}, "window");
  }
}

// Splits a stream into parts, each of which is searched for block chains.
class ZstdChains : public ::testing::Test {
 protected:
  // Decodes and returns how many chains were skipped.
  std::uint32_t decode(const Bytes& stream, const Bytes& plain, std::uint32_t part_bytes, bool good = true) {
    GuardBuffer in(stream, Flush::kRight), out(plain.size(), Flush::kLeft);
    ZstdOnCpu::Item item{{in.data(), in.size()}, out.span(), {}, 0};
    gpu_.walks = 4;
    gpu_.part_bytes = part_bytes;
    gpu_.decode({&item, 1}, true);
    EXPECT_EQ(item.outcome.ok(), good);
    if (good) {
      EXPECT_EQ(std::memcmp(out.data(), plain.data(), plain.size()), 0);
    }
    return gpu_.chains_taken;
  }
  ZstdOnCpu gpu_;
};

TEST_F(ZstdChains, ChainsAreFoundInEveryPart) {
  // Blocks of 16 KiB, decoded size.
  const Bytes plain = float_field(1'500'000, 8, false), stream = compress(plain, {.level = 3, .window_log = 14});
  const auto bytes = static_cast<std::uint32_t>(stream.size());
  for (const std::uint32_t parts : {1u, 2u, 7u, 12u}) {
    EXPECT_EQ(decode(stream, plain, (bytes + parts - 1) / parts), parts);
  }
  // More parts than there is room for, so none is used.
  EXPECT_EQ(decode(stream, plain, bytes / 200), 0u);
  // Two frames with a skippable frame between them: the first frame's last block ends its part's chain.
  Bytes two = stream, twice = plain;
  two = two + skippable_frame(Bytes(3)) + stream;
  twice = twice + plain;
  EXPECT_GE(decode(two, twice, bytes / 5), 9u);
  // Truncated in the last block, in the first block of a part, and everywhere between.
  for (std::size_t cut = 1; cut < stream.size(); cut += stream.size() / 23) {
    Bytes shorter = stream;
    shorter.resize(stream.size() - cut);
    decode(shorter, plain, bytes / 5, false);
  }
}

// Raw blocks whose content is full of fake header chains. Only the first part, with no content before it, is guessed
// right; all other guesses are wrong and must be ignored.
TEST_F(ZstdChains, WrongGuessesAreIgnored) {
  constexpr std::size_t kBlock = 3000;
  Bytes content(kBlock);
  for (std::size_t i = 0; i + 12 <= kBlock; i += 12) {  // raw, 9 bytes
    content[i] = std::byte{9 << 3};                     // low byte of a header
    content[i + 1] = content[i + 2] = std::byte{0};
  }
  FrameWriter frame;
  Bytes plain;
  for (int i = 0; i < 40; ++i) {
    frame.raw(content);
    plain.insert(plain.end(), content.begin(), content.end());
  }
  const Bytes stream = frame.bytes();
  EXPECT_EQ(decode(stream, plain, 9000), 1u);
}

// Compresses the given sequences, which also say where blocks end.
Bytes compress_sequences(const Bytes& plain, const std::vector<ZSTD_Sequence>& sequences) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 20);
  ZSTD_CCtx_setParameter(context, ZSTD_c_minMatch, 3);
  ZSTD_CCtx_setParameter(context, ZSTD_c_blockDelimiters, ZSTD_sf_explicitBlockDelimiters);
  Bytes out(ZSTD_compressBound(plain.size()) + 1000);
  const std::size_t bytes = ZSTD_compressSequences(context, out.data(), out.size(), sequences.data(), sequences.size(),
                                                   plain.data(), plain.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(bytes)) << ZSTD_getErrorName(bytes);
  out.resize(ZSTD_isError(bytes) ? 0 : bytes);
  return out;
}

// Far offsets, long literals and a long match together: at least 60 bits per sequence. The one-block walk has a
// separate loop for these.
TEST_F(ZstdDevice, SequencesOfManyBits) {
  std::mt19937 rng(9);
  Bytes plain;
  const auto random = [&](std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) plain.push_back(static_cast<std::byte>(rng()));
  };
  std::vector<ZSTD_Sequence> sequences;
  const auto add = [&](unsigned literals, unsigned match, unsigned offset) {
    random(literals);
    for (unsigned i = 0; i < match; ++i) plain.push_back(plain[plain.size() - offset]);
    sequences.push_back({offset, literals, match, 0});
  };
  const auto add_short_ones = [&] {
    for (int i = 0; i < 2500; ++i) {
      const auto r = static_cast<unsigned>(rng());
      add(1 + r % 3, 4 + r / 4 % 3, 100 + r / 64 % 50);
    }
  };
  random(131072);
  sequences.push_back({0, 131072, 0, 0});
  add_short_ones();
  for (const unsigned more : {0u, 777u}) add(4096 + more, 32771 - 7 * more, 100'000 + more);
  const Bytes text = sample(20'000, Content::kText);
  plain.insert(plain.end(), text.begin(), text.end());
  sequences.push_back({0, 20'000, 0, 0});
  const Bytes stream = compress_sequences(plain, sequences);
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(expect_decoded(stream, plain.size(), "many bits") == plain);
}

TEST_F(ZstdDevice, FramesSkippableFramesAndEmptyOnes) {
  const Bytes a = sample(5000, Content::kText), b = sample(3000, Content::kSmooth, 2);
  const Bytes skip = skippable_frame(Bytes(100, std::byte{7}), 15), empty = compress({});
  for (const Bytes& stream :
       {compress(a) + compress(b, {.checksum = true}), skip + compress(a) + skip + compress(b) + skippable_frame({}),
        compress(a, {.size = false}) + empty + compress(b, {.level = 19, .size = false}) + empty + skip,
        empty + empty + compress(a) + compress(b)}) {
    EXPECT_TRUE(expect_decoded(stream, 8000, "frames") == a + b);
    EXPECT_TRUE(expect_decoded(stream, 9000, "frames", false) == a + b);
    expect_refused(stream, 8001, DecodeReason::kWrongSize, "fewer bytes than promised");
    EXPECT_TRUE(same_verdict(stream, 7999));
    EXPECT_TRUE(same_verdict(stream, 7999, false));
    EXPECT_TRUE(same_verdict(stream, 0));
  }
  EXPECT_TRUE(expect_decoded(skip + skip, 0, "nothing but skippable frames").empty());
  expect_refused(skip + skip, 1, DecodeReason::kWrongSize, "nothing but skippable frames");
  EXPECT_TRUE(expect_decoded(skip, 5, "nothing but skippable frames", false).empty());
  expect_refused({}, 0, DecodeReason::kTruncated, "no bytes at all");
  EXPECT_EQ(host_only_, 0);
}

// Uses several rounds with several streams each; one stream is bad.
TEST_F(ZstdDevice, OneBadStreamLeavesTheOthersExactInEveryRound) {
  constexpr std::size_t kCount = 13;
  std::vector<Bytes> plain, streams;
  for (unsigned i = 0; i < kCount; ++i) {
    plain.push_back(i % 3 == 0 ? float_field(300'000, i, i % 2 == 0) : sample(1 + 20'000 * (i % 4), Content::kText, i));
    streams.push_back(compress(plain[i], {.level = 1 + static_cast<int>(i % 9), .checksum = i % 2 == 0}));
  }
  gpu_.most_bytes = 0;
  for (const std::size_t bad : {std::size_t{0}, std::size_t{3}, kCount - 1, kCount}) {
    std::vector<Bytes> damaged = streams;
    if (bad < kCount) damaged[bad].resize(damaged[bad].size() - 7);
    std::vector<std::unique_ptr<GuardBuffer>> out;
    std::vector<ZstdOnCpu::Item> items;
    for (std::size_t i = 0; i < kCount; ++i) {
      out.push_back(std::make_unique<GuardBuffer>(plain[i].size(), Flush::kRight));
      items.push_back({damaged[i], out[i]->span(), {}, 0});
    }
    gpu_.blocks = 1 + static_cast<unsigned>(bad % 4);
    gpu_.walks = bad % 2 == 0 ? 8 : 4;
    gpu_.way = bad % 3 == 0 ? ZstdOnCpu::Way::kTiles : ZstdOnCpu::Way::kWindows;
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

TEST_F(ZstdDevice, SeedsLikeTheCodec) {
  const auto seeds = codec_seeds("zstd");
  for (const auto& [path, content, seed] : seeds) {
    EXPECT_TRUE(same_verdict(seed.stream, seed.capacity, seed.exact)) << path;
  }
  EXPECT_GE(seeds.size(), 24u);
}

// Whatever the streams contain, all they need fits into some round, and each round fits the memory.
TEST_F(ZstdDevice, RoundsAreEnoughAndScratchGrowsWithTheLimits) {
  namespace zstd = codec::gpu::zstd;
  for (const std::uint32_t streams : {1u, 7u, 1000u, 65536u}) {
    std::uint64_t before = 0;
    for (std::uint64_t dst = 0; dst < std::uint64_t{1} << 36; dst = dst * 5 / 4 + 1000) {
      codec::gpu::lz77::StreamLimits limits;
      limits.streams = streams;
      limits.dst_bytes = dst;
      const zstd::Layout layout(limits, {});
      const std::uint64_t place_units = (layout.end - layout.places) / zstd::kUnitBytes;
      // Only matches of three bytes, in as many blocks as allowed, with each part rounded up.
      const std::uint64_t sequences = dst / 3, blocks = layout.block_count;
      const std::uint64_t most = sequences / 2 + sequences / 64 + 3 * blocks;
      ASSERT_GE(std::uint64_t{layout.rounds.count} * layout.rounds.per_round, most) << streams << ' ' << dst;
      if (layout.rounds.count == 1) {
        ASSERT_GE(place_units, most) << streams << ' ' << dst;
      } else {
        ASSERT_GE(place_units, std::uint64_t{layout.rounds.per_round} + zstd::kMaxBlockUnits) << streams << ' ' << dst;
      }
      ASSERT_GE(layout.end, before);
      ASSERT_LE(layout.rounds.count, 4u);
      before = layout.end;
    }
  }
}

// When only the beginning of a stream is requested, blocks beyond it are not decoded, and nothing is written outside
// dst.
class ZstdBeginnings : public ::testing::Test {
 protected:
  // Returns how many blocks were decoded.
  std::size_t decode(const Bytes& stream, const Bytes& plain, std::size_t enough, bool exact = true) {
    GuardBuffer in(stream, Flush::kRight), out(plain.size(), Flush::kLeft);
    ZstdOnCpu::Item item{{in.data(), in.size()}, out.span(), {}, 0};
    item.enough = enough;
    gpu_.last_blocks.clear();
    gpu_.decode({&item, 1}, exact);
    EXPECT_TRUE(item.outcome.ok()) << enough;
    EXPECT_GE(item.produced, enough);
    EXPECT_EQ(std::memcmp(out.data(), plain.data(), enough), 0) << enough;
    EXPECT_TRUE(out.intact());
    return gpu_.last_blocks.size();
  }
  ZstdOnCpu gpu_;
};

TEST_F(ZstdBeginnings, BlocksAfterThePrefixAreNotDecoded) {
  constexpr std::size_t kBlock = 1 << 17, kBlocks = 4;
  for (const std::size_t short_by : {0u, 70'000u}) {
    const Bytes plain = float_field(kBlocks * kBlock - short_by, 4, false);
    for (const bool checksum : {false, true}) {
      const Bytes stream = compress(plain, {.level = 1, .checksum = checksum});
      for (const bool in_parts : {false, true}) {
        gpu_.part_bytes = in_parts ? static_cast<std::uint32_t>(stream.size() / 3) : 0;
        gpu_.walks = in_parts ? 4 : 1;
        for (const std::size_t enough : {std::size_t{1}, kBlock, kBlock + 1, plain.size() - 1}) {
          // The short block may be the last one or another.
          const std::size_t least = (enough + kBlock - 1) / kBlock, blocks = decode(stream, plain, enough);
          EXPECT_GE(blocks, least);
          EXPECT_LE(blocks, std::min(kBlocks, least + (short_by != 0 ? 1 : 0)));
        }
        EXPECT_EQ(decode(stream, plain, plain.size()), kBlocks);
      }
      gpu_.part_bytes = 0;
    }
  }
}

TEST_F(ZstdBeginnings, StreamsWithoutSizesAreDecodedWhole) {
  const Bytes half = float_field(300'000, 5, false), plain = half + half;
  const Bytes two = compress(half, {}) + skippable_frame(Bytes(3)) + compress(half, {});
  EXPECT_EQ(decode(two, plain, 1000), 6u);
  EXPECT_EQ(decode(compress(plain, {.size = false}), plain, 1000), 5u);
  // Blocks of varying length, with a window smaller than 128 KiB.
  for (const int log : {10, 12, 14}) {
    const Bytes small = compress(half, {.level = 6, .window_log = log});
    const std::size_t all = decode(small, half, half.size());
    EXPECT_LT(decode(small, half, 50'000), all);
  }
}

// A header declares more than the blocks decode to: left to the CPU.
TEST_F(ZstdBeginnings, ShortBlocksAreLeftToTheCpu) {
  const Bytes plain = float_field(6 << 17, 6, false);
  Bytes stream = compress(plain, {.level = 1});
  // The first block becomes an RLE block of one byte.
  const std::ptrdiff_t at = (std::to_integer<unsigned>(stream[4]) & 0x20) != 0 ? 9 : 10;
  std::uint32_t header = 0;
  std::memcpy(&header, stream.data() + at, 3);
  stream.erase(stream.begin() + at + 3, stream.begin() + at + 3 + (header >> 3));
  header = 1 << 1 | 1 << 3;
  std::memcpy(stream.data() + at, &header, 3);
  stream.insert(stream.begin() + at + 3, std::byte{7});
  GuardBuffer in(stream, Flush::kRight), out(plain.size(), Flush::kLeft);
  ZstdOnCpu::Item item{{in.data(), in.size()}, out.span(), {}, 0};
  item.enough = 1 << 17;
  gpu_.decode({&item, 1}, true);
  EXPECT_TRUE(item.outcome.host_only());
  EXPECT_TRUE(out.intact());
}

TEST_F(ZstdDevice, StreamsOfChunks) {
  const Bytes stream = compress(sample(100, Content::kText));
  device::gpu::Chunk chunk{reinterpret_cast<const unsigned char*>(stream.data()), nullptr, stream.size(), 100};
  codec::gpu::ZstdStream listed{};
  std::uint32_t count = 0;
  testing::gpu::launch(
      1, 32, [&] { codec::gpu::lz77::list_streams_body(codec::gpu::ZstdFormat{}, &chunk, 1, &listed, &count); });
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(listed.src, chunk.src);
  EXPECT_EQ(listed.src_bytes, stream.size());
  EXPECT_EQ(listed.dst_bytes, 100u);
  EXPECT_EQ(listed.enough, 0u);
  listed.dst_bytes = 90;
  std::uint64_t outcome = 5;
  testing::gpu::launch(1, 32, [&] { codec::gpu::lz77::tell_sizes_body(&chunk, 1, &listed, &outcome); });
  EXPECT_EQ(chunk.dst_bytes, 100u);
  outcome = DecodeOutcome::kOk;
  testing::gpu::launch(1, 32, [&] { codec::gpu::lz77::tell_sizes_body(&chunk, 1, &listed, &outcome); });
  EXPECT_EQ(chunk.dst_bytes, 90u);
}

TEST_F(ZstdDevice, TruncatedAnywhereAndEveryBitFlipped) {
  const std::vector<Bytes> streams = {compress(sample(600, Content::kText), {.level = 19}),
                                      compress(float_field(700, 1, false), {.level = 3, .checksum = true}),
                                      compress(float_field(2000, 2, true), {.level = 1, .size = false})};
  const std::size_t sizes[] = {600, 700, 2000};
  for (std::size_t k = 0; k < streams.size(); ++k) {
    const Bytes& good = streams[k];
    ASSERT_TRUE(same_verdict(good, sizes[k]));
    for (std::size_t length = 0; length < good.size(); length += length < 150 || length + 50 > good.size() ? 1 : 4) {
      ASSERT_TRUE(same_verdict({good.data(), length}, sizes[k])) << k << " cut to " << length;
    }
    const std::size_t step = 1 + 8 * good.size() / 600;
    for (std::size_t bit = 0; bit < 8 * good.size(); bit += bit < 400 ? 1 : step) {
      Bytes bad = good;
      bad[bit / 8] ^= std::byte{1} << (bit % 8);
      ASSERT_TRUE(same_verdict(bad, sizes[k])) << k << " bit " << bit;
      ASSERT_TRUE(k != 2 || same_verdict(bad, sizes[k], false)) << k << " bit " << bit;
    }
  }
  EXPECT_GT(refused_, 1000);
}

TEST_F(ZstdDevice, RandomDamage) {
  std::mt19937 rng(9);
  for (int round = 0; round < 600; ++round) {
    const std::size_t bytes = 1 + rng() % 3000;
    const Bytes plain = round % 3 == 0   ? float_field(bytes, unsigned(rng()), round % 2 == 0)
                        : round % 3 == 1 ? sample(bytes, Content::kText, unsigned(rng()))
                                         : sample(bytes, Content::kSmooth, unsigned(rng()));
    Bytes stream = compress(plain, {.level = static_cast<int>(rng() % 20), .window_log = rng() % 2 == 0 ? 0 : 10});
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

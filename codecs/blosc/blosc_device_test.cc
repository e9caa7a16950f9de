// Blosc's device code, run on the CPU between guard pages and compared with the CPU codec and with c-blosc: verdicts
// and bytes must be the same. Containers that are left to the CPU are listed explicitly.
// clang-format off: gives the kernels their keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <blosc.h>

#include "tests/support/blosc_on_cpu.h"
#include "tests/support/codec_seed_files.h"
#include "tests/support/codec_testing.h"
#include "tests/support/device_decode_testing.h"

namespace headrace::test {
namespace {

constexpr const char* kInner[] = {"blosclz", "lz4", "lz4hc", "snappy"};

Bytes compress(const Bytes& plain, const char* inner, int shuffle, std::size_t item_bytes, std::size_t block_bytes = 0,
               int level = 5) {
  Bytes out(plain.size() * 2 + 65536 + BLOSC_MAX_OVERHEAD);
  const int got = blosc_compress_ctx(level, shuffle, item_bytes, plain.size(), plain.data(), out.data(), out.size(),
                                     inner, block_bytes, 1);
  EXPECT_GT(got, 0) << inner;
  out.resize(static_cast<std::size_t>(std::max(got, 0)));
  return out;
}

class SplitMode {
 public:
  explicit SplitMode(int mode) { blosc_set_splitmode(mode); }
  ~SplitMode() { blosc_set_splitmode(BLOSC_FORWARD_COMPAT_SPLIT); }
};

class BloscDevice : public DeviceDecodeTest<BloscOnCpu> {
 protected:
  BloscDevice() : codec_(make("numcodecs.blosc")), decode_(*codec_) {}

  Decoded by_cpu(std::span<const std::byte> container, std::size_t capacity, bool exact) override {
    return decode_(container, capacity, exact);
  }
  void choose_way(Flush, std::size_t) override {}
  // There is only one way to decode, so the words are equal.
  void expect_alike(const DecodeOutcome& first, const DecodeOutcome& second) override {
    EXPECT_EQ(first.word, second.word);
    EXPECT_TRUE(gpu_.within_limits);
  }

  void expect_container(const Bytes& plain, const Bytes& container, const std::string& what) {
    ASSERT_TRUE(expect_decoded(container, plain.size(), what) == plain) << what;
  }

  // Tests good and damaged containers whose inner codec is `inner`; those with another one are left to the CPU.
  void expect_inner(const char* inner, const char* unnamed) {
    const SplitMode never(BLOSC_NEVER_SPLIT);
    for (const std::size_t bytes : {127, 1000, 10007, 70001}) {
      for (int shuffle = 0; shuffle <= 2; ++shuffle) {
        for (const std::size_t item : {1, 4, 8, 17}) {
          const Bytes plain = sample(bytes, item == 8 ? Content::kText : Content::kSmooth, unsigned(bytes));
          const SplitMode mode(item == 4 ? BLOSC_ALWAYS_SPLIT : BLOSC_NEVER_SPLIT);
          for (const std::size_t block : {0, 4096}) {
            expect_container(plain, compress(plain, inner, shuffle, item, block),
                             inner + (" " + std::to_string(bytes)));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
    Bytes got;
    for (const char* other : {"lz4", "blosclz", "snappy", unnamed}) {
      EXPECT_TRUE(run(compress(sample(10'000, Content::kSmooth), other, 1, 4), 10'000, true, got).host_only()) << other;
    }
    const Bytes random = sample(5000, Content::kRandom);
    expect_container(random, compress(random, inner, 1, 4, 0, 0), "stored");

    const Bytes good = compress(sample(900, Content::kText), inner, 1, 4, 512);
    ASSERT_TRUE(same_verdict(good, 900));
    for (std::size_t length = 16; length < good.size(); ++length) {
      Bytes patched(good.begin(), good.begin() + std::ptrdiff_t(length));
      const auto patched_bytes = static_cast<std::uint32_t>(length);
      std::memcpy(&patched[12], &patched_bytes, 4);
      ASSERT_TRUE(same_verdict(patched, 900)) << "shortened to " << length;
    }
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      Bytes bad = good;
      bad[bit / 8] ^= std::byte{1} << (bit % 8);
      ASSERT_TRUE(same_verdict(bad, 900)) << "bit " << bit;
    }
  }

  MadeCodec codec_;
  Decoder decode_;
};

TEST_F(BloscDevice, SameBytesAsTheReference) {
  std::vector<std::size_t> item_sizes;
  for (std::size_t i = 1; i <= 24; ++i) item_sizes.push_back(i);
  item_sizes.push_back(255);
  std::size_t turn = 0;
  for (const std::size_t item : item_sizes) {
    for (int shuffle = 0; shuffle <= 2; ++shuffle) {
      for (const std::size_t bytes : {1, 100, 127, 128, 1000, 4096, 10007}) {
        const char* inner = kInner[turn++ % 4];
        const Content content = turn % 3 == 0 ? Content::kRandom : turn % 3 == 1 ? Content::kSmooth : Content::kText;
        const Bytes plain = sample(bytes, content, unsigned(bytes));
        for (const std::size_t block : {0, 128, 2048, 4096}) {
          if (block != 0 && bytes < 1000) continue;
          const SplitMode mode(block == 0 ? BLOSC_FORWARD_COMPAT_SPLIT : BLOSC_NEVER_SPLIT);
          expect_container(plain, compress(plain, inner, shuffle, item, block),
                           std::string(inner) + " shuffle " + std::to_string(shuffle) + " item " +
                               std::to_string(item) + " bytes " + std::to_string(bytes) + " block " +
                               std::to_string(block));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(gpu_.lz4_streams, 1000u);
  EXPECT_GT(gpu_.other_streams, 1000u);
}

// c-blosc splits only large blocks; this uses several of them.
TEST_F(BloscDevice, SplitAndUnsplitBlocks) {
  const Bytes plain = sample(200'003, Content::kSmooth);
  for (const int mode : {BLOSC_ALWAYS_SPLIT, BLOSC_NEVER_SPLIT, BLOSC_FORWARD_COMPAT_SPLIT}) {
    const SplitMode set(mode);
    for (const char* inner : kInner) {
      for (int shuffle = 0; shuffle <= 2; ++shuffle) {
        for (const std::size_t item : {2, 3, 4, 8, 12, 16}) {
          expect_container(plain, compress(plain, inner, shuffle, item, 16384), inner);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// headrace's encoder splits blocks of any size.
TEST_F(BloscDevice, DecodesOurEncodersOutput) {
  for (std::size_t item = 1; item <= 17; ++item) {
    for (const char* filter : {"noshuffle", "shuffle"}) {
      for (const std::size_t block : {128 * item, 136 * item, 129 * item, std::size_t{4096}}) {
        const std::string config = R"({"cname":"lz4","clevel":5,"shuffle":")" + std::string(filter) +
                                   R"(","typesize":)" + std::to_string(item) + R"(,"blocksize":)" +
                                   std::to_string(block) + "}";
        const auto encoder = make("blosc", config)->make_encoder();
        ASSERT_TRUE(encoder.ok());
        for (const std::size_t bytes : {128 * item, 1000 * item, 1000 * item + 5}) {
          const Bytes plain = sample(bytes, Content::kSmooth, unsigned(item));
          Bytes container((*encoder)->bound_bytes(bytes));
          const auto got = (*encoder)->encode(plain, container);
          ASSERT_TRUE(got.ok());
          container.resize(*got);
          expect_container(plain, container, config);
          // The same blocks with the bit shuffle flag set: the CPU codec defines the result.
          if ((std::to_integer<unsigned>(container[2]) & 2) == 0) {
            container[2] = (container[2] & std::byte{0xFE}) | std::byte{4};
            ASSERT_TRUE(same_verdict(container, bytes)) << config;
          }
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_EQ(host_only_, 0);
}

TEST_F(BloscDevice, StoredEmptyAndSmaller) {
  const Bytes random = sample(50'000, Content::kRandom);
  expect_container(random, compress(random, "lz4", BLOSC_SHUFFLE, 4, 0, 0), "stored");
  const Bytes empty = compress({}, "lz4", BLOSC_SHUFFLE, 4);
  expect_container({}, empty, "empty");
  EXPECT_TRUE(same_verdict(empty, 4));
  EXPECT_TRUE(same_verdict(empty, 4, false));
  EXPECT_TRUE(same_verdict({}, 0));
  const Bytes plain = sample(5000, Content::kSmooth);
  const Bytes container = compress(plain, "lz4", BLOSC_SHUFFLE, 4);
  Bytes got;
  EXPECT_TRUE(run(container, 6000, false, got).ok());
  EXPECT_EQ(got, plain);
  EXPECT_EQ(run(container, 6000, true, got).reason(), DecodeReason::kWrongSize);
  EXPECT_EQ(run(container, 4999, false, got).reason(), DecodeReason::kWrongSize);
}

// For arrays whose configuration names zstd.
TEST_F(BloscDevice, InnerZstd) {
  gpu_.named = codec::gpu::blosc::Named::kZstd;
  expect_inner("zstd", "zlib");
  EXPECT_GT(gpu_.zstd_streams, 100u);
  if (HasFatalFailure()) return;
  const Bytes good = compress(sample(900, Content::kText), "zstd", 1, 4, 512);
  // The stream must be exactly one frame: no skippable frame, nothing after it.
  for (const bool before : {true, false}) {
    Bytes two = good;
    std::uint32_t start, encoded;
    std::memcpy(&start, &two[16], 4);
    std::memcpy(&encoded, &two[start], 4);
    const Bytes skippable = from_hex("502A4D1800000000");
    const std::size_t at = start + 4 + (before ? 0 : encoded);
    two.insert(two.begin() + std::ptrdiff_t(at), skippable.begin(), skippable.end());
    encoded += 8;
    const auto container_bytes = static_cast<std::uint32_t>(two.size());
    std::memcpy(&two[start], &encoded, 4);
    std::memcpy(&two[12], &container_bytes, 4);
    for (std::size_t entry = 16; entry < 24; entry += 4) {
      std::uint32_t other;
      std::memcpy(&other, &two[entry], 4);
      if (other > start) other += 8;
      std::memcpy(&two[entry], &other, 4);
    }
    const int host_only = host_only_;
    ASSERT_TRUE(same_verdict(two, 900));
    EXPECT_EQ(host_only_, host_only);
    EXPECT_FALSE(decode_(two, 900).status.ok());
  }
}

TEST_F(BloscDevice, InnerZlib) {
  gpu_.named = codec::gpu::blosc::Named::kZlib;
  expect_inner("zlib", "zstd");
  EXPECT_GT(gpu_.zlib_streams, 100u);
}

TEST_F(BloscDevice, LeavesUnsupportedContainersToTheCpu) {
  const Bytes plain = sample(10'000, Content::kSmooth);
  Bytes got;
  for (const char* inner : {"zstd", "zlib"}) {
    EXPECT_TRUE(run(compress(plain, inner, BLOSC_SHUFFLE, 4), 10'000, true, got).host_only()) << inner;
  }
  // Blocks of 128 bytes make more streams than a container of this size may have.
  const SplitMode mode(BLOSC_NEVER_SPLIT);
  const Bytes many = compress(plain, "lz4", BLOSC_SHUFFLE, 4, 128);
  EXPECT_TRUE(run(many, 10'000, true, got).ok());
  gpu_.allowance = {};
  EXPECT_TRUE(run(many, 10'000, true, got).host_only());
  EXPECT_TRUE(run(compress(plain, "lz4", BLOSC_SHUFFLE, 4, 1024), 10'000, true, got).ok());
  // Blocks that share bytes: their total size would exceed the limits given to the inner decoders.
  Bytes shared = compress(sample(512, Content::kText), "lz4", BLOSC_NOSHUFFLE, 1, 512);
  const std::uint32_t first = 20, moved = 16 + 8 * 4, blocks = 8, decoded = blocks * 512;
  shared.insert(shared.begin() + first, moved - first, std::byte{0});
  const auto bytes = static_cast<std::uint32_t>(shared.size());
  std::memcpy(&shared[4], &decoded, 4);
  std::memcpy(&shared[12], &bytes, 4);
  for (std::size_t i = 0; i < blocks; ++i) std::memcpy(&shared[16 + 4 * i], &moved, 4);
  EXPECT_TRUE(decode_(shared, decoded).status.ok());
  EXPECT_TRUE(run(shared, decoded, true, got).host_only());
}

// The configuration decides whether a device is used at all.
TEST_F(BloscDevice, Description) {
  for (const char* inner : {"lz4", "lz4hc", "blosclz", "snappy", "zlib", "zstd"}) {
    device::DecodeStage stage;
    EXPECT_TRUE(make("numcodecs.blosc", R"({"cname":")" + std::string(inner) + "\"}")->describe_for_device(stage));
    EXPECT_EQ(stage.parameters[0], std::string(inner) == "zstd" ? 1u : std::string(inner) == "zlib" ? 2u : 0u) << inner;
  }
}

TEST_F(BloscDevice, SeedsLikeTheCodec) {
  const auto seeds = codec_seeds("blosc");
  for (const auto& [path, content, seed] : seeds) {
    const int before = host_only_;
    EXPECT_TRUE(same_verdict(seed.stream, seed.capacity, seed.exact)) << path;
    // Only inner zlib and zstd are left to the CPU.
    if (host_only_ != before) {
      EXPECT_GT(std::to_integer<unsigned>(seed.stream[2]) >> 5, 2u) << path;
    }
  }
  EXPECT_GE(seeds.size(), 28u);
}

TEST_F(BloscDevice, DamagedContainers) {
  for (const char* inner : kInner) {
    for (int shuffle = 0; shuffle <= 2; ++shuffle) {
      const Bytes good = compress(sample(700, Content::kText), inner, shuffle, 4, 256);
      ASSERT_TRUE(same_verdict(good, 700));
      for (std::size_t length = 0; length < good.size(); ++length) {
        ASSERT_TRUE(same_verdict({good.data(), length}, 700)) << inner << " cut to " << length;
        Bytes patched(good.begin(), good.begin() + std::ptrdiff_t(length));  // truncated, with the size field corrected
        if (length < 16) continue;
        const auto bytes = static_cast<std::uint32_t>(length);
        std::memcpy(&patched[12], &bytes, 4);
        ASSERT_TRUE(same_verdict(patched, 700)) << inner << " shortened to " << length;
      }
      for (std::size_t bit = 0; bit < 8 * std::min<std::size_t>(good.size(), 80); ++bit) {
        Bytes bad = good;
        bad[bit / 8] ^= std::byte{1} << (bit % 8);
        ASSERT_TRUE(same_verdict(bad, 700)) << inner << " shuffle " << shuffle << " bit " << bit;
      }
      for (const std::size_t more : {1, 4, 40}) {
        Bytes longer = good;
        longer.insert(longer.end(), more, std::byte{0});
        ASSERT_TRUE(same_verdict(longer, 700));
      }
      ASSERT_TRUE(same_verdict(good, 701));
      ASSERT_TRUE(same_verdict(good, 699));
    }
  }
}

TEST_F(BloscDevice, RandomDamage) {
  std::mt19937 rng(9);
  int good = 0, bad = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t bytes = 1 + rng() % 3000, item = 1 + rng() % 20;
    Bytes container = compress(sample(bytes, Content::kText, unsigned(rng())), kInner[rng() % 4], int(rng() % 3), item,
                               rng() % 2 == 0 ? 0 : 128 + rng() % 600);
    for (auto flips = rng() % 3; flips > 0; --flips) {
      const std::size_t at =
          rng() % 3 == 0 ? rng() % std::min<std::size_t>(container.size(), 32) : rng() % container.size();
      container[at] = static_cast<std::byte>(rng() % 4 == 0 ? 255 : rng());
    }
    const Decoded want = decode_(container, bytes);
    (want.status.ok() ? good : bad)++;
    ASSERT_TRUE(same_verdict(container, bytes)) << round;
  }
  EXPECT_GT(good, 500);
  EXPECT_GT(bad, 500);
  EXPECT_LT(host_only_, 300);
}

// One wave with good and bad containers of all kinds, more than one thread block handles.
TEST_F(BloscDevice, OneBadContainerLeavesTheOthersExact) {
  constexpr std::size_t kCount = 90, kBytes = 3000;
  std::mt19937 rng(11);
  std::vector<Bytes> plain, containers;
  for (std::size_t i = 0; i < kCount; ++i) {
    plain.push_back(sample(kBytes, i % 5 == 0 ? Content::kRandom : Content::kText, unsigned(i)));
    containers.push_back(compress(plain[i], i % 7 == 6 ? "zstd" : kInner[i % 4], int(i % 3), 1 + i % 9,
                                  i % 2 == 0 ? 0 : 512, i % 11 == 0 ? 0 : 5));
  }
  for (std::size_t bad = 0; bad < kCount; bad += 3) {
    std::vector<Bytes> damaged = containers;
    if (bad % 2 == 0) {
      damaged[bad][12] ^= std::byte{1};
    } else {
      damaged[bad].resize(damaged[bad].size() - 1);
    }
    std::vector<std::unique_ptr<GuardBuffer>> out;
    std::vector<BloscOnCpu::Item> items;
    for (std::size_t i = 0; i < kCount; ++i) {
      out.push_back(std::make_unique<GuardBuffer>(kBytes, Flush::kRight));
      items.push_back({damaged[i], out[i]->span(), {}, 0});
    }
    gpu_.blocks = 1 + unsigned(rng() % 5);
    gpu_.decode(items, true);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(out[i]->intact());
      if (i == bad) {
        ASSERT_FALSE(items[i].outcome.ok());
      } else if (i % 7 == 6 && i % 11 != 0) {
        ASSERT_TRUE(items[i].outcome.host_only()) << i;
      } else {
        ASSERT_TRUE(items[i].outcome.ok()) << i << ": " << decode_reason_text(items[i].outcome.reason());
        ASSERT_TRUE(std::equal(plain[i].begin(), plain[i].end(), out[i]->data())) << i;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::test

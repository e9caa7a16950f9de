// c-blosc's containers decode to the same bytes as with c-blosc; all others fail with a status.
#include <blosc.h>

#include "tests/support/codec_testing.h"
#include "tests/support/sanitizer.h"

namespace headrace::test {
namespace {

constexpr const char* kInner[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

Bytes compress(const Bytes& plain, const char* inner, int shuffle, std::size_t item_bytes, std::size_t block_bytes = 0,
               int level = 5) {
  Bytes out(plain.size() + 4096 + BLOSC_MAX_OVERHEAD);
  const int got = blosc_compress_ctx(level, shuffle, item_bytes, plain.size(), plain.data(), out.data(), out.size(),
                                     inner, block_bytes, 1);
  EXPECT_GT(got, 0) << inner;
  out.resize(static_cast<std::size_t>(std::max(got, 0)));
  return out;
}

MadeCodec blosc() { return make("numcodecs.blosc"); }

// Decodes with c-blosc and with headrace, and compares.
void expect_same(Decoder& decode, const Bytes& plain, const Bytes& container, const std::string& what) {
  Bytes reference(plain.size());
  ASSERT_EQ(blosc_decompress_ctx(container.data(), reference.data(), reference.size(), 1), int(plain.size())) << what;
  ASSERT_EQ(reference, plain) << what;
  const Decoded got = decode(container, plain.size());
  ASSERT_TRUE(got.status.ok()) << what << ": " << got.status.to_string();
  ASSERT_TRUE(got.bytes == plain) << what;
}

TEST(BloscCodec, SameBytesAsTheReference) {
  const auto codec = blosc();
  Decoder decode(*codec);
  std::vector<std::size_t> item_sizes;
  for (std::size_t i = 1; i <= 17; ++i) item_sizes.push_back(i);
  item_sizes.insert(item_sizes.end(), {24, 31, 32, 33, 255});
  for (const char* inner : kInner) {
    for (int shuffle = 0; shuffle <= 2; ++shuffle) {
      for (const std::size_t item : item_sizes) {
        if (support::kAddressSanitizer && item % 15 != 0 && item != 4 && item != 8) continue;
        for (const std::size_t bytes : {1, 7, 8, 100, 127, 128, 129, 1000, 4096, 10007, 65536 + 13}) {
          const Content content = (bytes + item) % 3 == 0   ? Content::kRandom
                                  : (bytes + item) % 3 == 1 ? Content::kSmooth
                                                            : Content::kText;
          const Bytes plain = sample(bytes, content, unsigned(bytes));
          for (const std::size_t block : {std::size_t{0}, std::size_t{128}, std::size_t{4096}}) {
            if (block != 0 && bytes < 1000) continue;
            expect_same(decode, plain, compress(plain, inner, shuffle, item, block),
                        std::string(inner) + " shuffle " + std::to_string(shuffle) + " item " + std::to_string(item) +
                            " bytes " + std::to_string(bytes) + " block " + std::to_string(block));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(BloscCodec, LargeChunksOfSeveralBlocksAtEveryLevel) {
  const auto codec = blosc();
  Decoder decode(*codec);
  const Bytes plain = sample(1'500'004, Content::kSmooth, 3);
  for (const char* inner : kInner) {
    for (int level = 0; level <= 6; level += 3) {
      for (int shuffle = 0; shuffle <= 2; ++shuffle) {
        expect_same(decode, plain, compress(plain, inner, shuffle, 4, 0, level), inner);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(BloscCodec, SplitAndUnsplitBlocks) {
  const auto codec = blosc();
  Decoder decode(*codec);
  const Bytes plain = sample(300'000, Content::kSmooth);
  for (const int mode : {BLOSC_ALWAYS_SPLIT, BLOSC_NEVER_SPLIT, BLOSC_AUTO_SPLIT, BLOSC_FORWARD_COMPAT_SPLIT}) {
    blosc_set_splitmode(mode);
    for (const char* inner : kInner) {
      for (int shuffle = 0; shuffle <= 2; ++shuffle) {
        for (const std::size_t item : {2, 3, 4, 8, 12, 16}) {
          if ((support::kThreadSanitizer || support::kAddressSanitizer) && item != 4) continue;
          expect_same(decode, plain, compress(plain, inner, shuffle, item, 16384), inner);
        }
      }
    }
  }
  blosc_set_splitmode(BLOSC_FORWARD_COMPAT_SPLIT);
}

TEST(BloscCodec, WiderTypesThanTheFormatKnowsAreBytes) {
  const Bytes plain = sample(30'000, Content::kSmooth);
  const Bytes container = compress(plain, "lz4", BLOSC_SHUFFLE, 300);
  EXPECT_EQ(container[3], std::byte{1});
  const auto codec = blosc();
  Decoder decode(*codec);
  expect_same(decode, plain, container, "item 300");
}

// Containers written by headrace decode with c-blosc to the same bytes, and c-blosc sees the same layout.
TEST(BloscCodec, TheReferenceReadsOurOutput) {
  for (const char* inner : {"lz4", "zstd"}) {
    for (const char* filter : {"noshuffle", "shuffle"}) {
      for (const std::size_t item : {1, 2, 3, 4, 8, 16, 17, 255}) {
        for (const std::size_t block : {0, 128, 1000, 16384}) {
          const std::string config = R"({"cname":")" + std::string(inner) + R"(","clevel":5,"shuffle":")" + filter +
                                     R"(","typesize":)" + std::to_string(item) + R"(,"blocksize":)" +
                                     std::to_string(block) + "}";
          const auto encoder = make("blosc", config)->make_encoder();
          ASSERT_TRUE(encoder.ok());
          for (const std::size_t bytes : {0, 1, 7, 127, 128, 1000, 4096, 10007, 70'000}) {
            for (const Content content : {Content::kSmooth, Content::kRandom}) {
              const Bytes plain = sample(bytes, content, unsigned(item));
              Bytes container((*encoder)->bound_bytes(bytes));
              const auto got = (*encoder)->encode(plain, container);
              ASSERT_TRUE(got.ok()) << got.status().to_string();
              container.resize(*got);
              Bytes reference(bytes);
              ASSERT_EQ(blosc_decompress_ctx(container.data(), reference.data(), bytes, 1), int(bytes)) << config;
              ASSERT_TRUE(reference == plain) << config << ' ' << bytes;
              std::size_t nbytes = 0, cbytes = 0, blocksize = 0;
              blosc_cbuffer_sizes(container.data(), &nbytes, &cbytes, &blocksize);
              EXPECT_EQ(nbytes, bytes);
              EXPECT_EQ(cbytes, container.size());
            }
          }
        }
      }
    }
  }
}

TEST(BloscCodec, EmptyContainer) {
  const Bytes container = compress({}, "lz4", BLOSC_SHUFFLE, 4);
  const auto codec = blosc();
  Decoder decode(*codec);
  EXPECT_TRUE(decode(container, 0).status.ok());
  EXPECT_FALSE(decode(container, 4).status.ok());
}

TEST(BloscCodec, ASmallerContainerFitsWhereTheSizeIsOnlyALimit) {
  const Bytes plain = sample(5000, Content::kSmooth);
  const auto codec = blosc();
  Decoder decode(*codec);
  const Bytes container = compress(plain, "zstd", BLOSC_SHUFFLE, 4);
  EXPECT_EQ(decode(container, 6000, false).bytes, plain);
  EXPECT_FALSE(decode(container, 6000, true).status.ok());
  EXPECT_FALSE(decode(container, 4999, false).status.ok());
}

TEST(BloscCodec, DamagedContainers) {
  const auto codec = blosc();
  for (const char* inner : kInner) {
    for (int shuffle = 0; shuffle <= 2; ++shuffle) {
      damage(*codec, compress(sample(700, Content::kText), inner, shuffle, 4, 256), 700);
      damage(*codec, compress(sample(1500, Content::kSmooth), inner, shuffle, 2), 1500);
    }
  }
  damage(*codec, compress(sample(64, Content::kRandom), "lz4", BLOSC_SHUFFLE, 4), 64);
}

// Tests each rule of the header with one broken field at a time.
TEST(BloscCodec, HeaderRules) {
  const Bytes plain = sample(4096, Content::kSmooth);
  const Bytes good = compress(plain, "zstd", BLOSC_SHUFFLE, 4, 1024);
  const auto codec = blosc();
  Decoder decode(*codec);
  ASSERT_TRUE(decode(good, 4096).status.ok());
  struct Rule {
    std::size_t at;
    std::vector<unsigned> bytes;
    Code code;
    const char* word;
  };
  const unsigned flags = std::to_integer<unsigned>(good[2]);
  const Rule rules[] = {
      {0, {1}, Code::kCorrupt, "format 1"},
      {0, {5}, Code::kUnsupported, "Blosc2"},
      {0, {6}, Code::kCorrupt, "format 6"},
      {1, {2}, Code::kUnsupported, "inner codec"},
      {2, {flags | 0x08}, Code::kCorrupt, "reserved"},
      {2, {flags | 0x04}, Code::kCorrupt, "both shuffles"},
      {2, {flags | 0x02}, Code::kCorrupt, "stored"},
      {2, {(flags & 0x1F) | 5 << 5}, Code::kUnsupported, "inner codec 5"},
      {3, {0}, Code::kCorrupt, "type size"},
      {4, {0, 0, 0, 0}, Code::kCorrupt, "empty"},
      {4, {0xFF, 15, 0, 0}, Code::kCorrupt, "4095 bytes, expected 4096"},
      {4, {0xFF, 0xFF, 0xFF, 0xFF}, Code::kCorrupt, "exceed the format's limits"},
      {8, {0, 0, 0, 0}, Code::kCorrupt, "block size 0"},
      {8, {1, 16, 0, 0}, Code::kCorrupt, "block size 4097"},
      {8, {0xFF, 0xFF, 0xFF, 0x7F}, Code::kCorrupt, "block size"},
      {8, {1, 0, 0, 0}, Code::kCorrupt, "block starts"},
      {12, {16, 0, 0, 0}, Code::kCorrupt, "header gives 16"},
      {16, {15, 0, 0, 0}, Code::kCorrupt, "block 0 starts at byte 15"},
      {16, {31, 0, 0, 0}, Code::kCorrupt, "block 0 starts at byte 31"},
      {20, {0xFF, 0xFF, 0xFF, 0xFF}, Code::kCorrupt, "block 1 starts"},
  };
  for (const Rule& rule : rules) {
    Bytes bad = good;
    for (std::size_t i = 0; i < rule.bytes.size(); ++i) bad[rule.at + i] = static_cast<std::byte>(rule.bytes[i]);
    const Decoded got = decode(bad, 4096);
    EXPECT_EQ(got.status.code(), rule.code) << rule.word << ": " << got.status.to_string();
    EXPECT_NE(got.status.message().find(rule.word), std::string::npos) << got.status.message();
  }
  // A block start whose size word would reach past the container's end.
  Bytes late = good;
  const auto start = static_cast<std::uint32_t>(good.size() - 3);
  std::memcpy(&late[16], &start, 4);
  EXPECT_EQ(decode(late, 4096).status.code(), Code::kCorrupt);
  // A split that claims more than is left, less than it has, or nothing.
  const std::uint32_t first = std::to_integer<std::uint32_t>(good[16]);
  for (const std::uint32_t size : {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    Bytes bad = good;
    std::memcpy(&bad[first], &size, 4);
    EXPECT_EQ(decode(bad, 4096).status.code(), Code::kCorrupt) << size;
  }
}

TEST(BloscCodec, BombIsRefusedByItsHeader) {
  const std::size_t size = std::size_t{support::kThreadSanitizer || support::kAddressSanitizer ? 30u : 300u} << 20;
  const Bytes bomb = compress(Bytes(size), "zstd", BLOSC_SHUFFLE, 4);
  const auto codec = blosc();
  Decoder decode(*codec);
  const Decoded got = decode(bomb, 4096);
  EXPECT_EQ(got.status.code(), Code::kCorrupt);
  EXPECT_NE(got.status.message().find(std::to_string(size) + " bytes, expected 4096"), std::string::npos)
      << got.status.message();
}

TEST(BloscCodec, Configuration) {
  const std::string good = R"({"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0})";
  EXPECT_TRUE(try_make("blosc", good).ok());
  EXPECT_TRUE(try_make("blosc", R"({"cname":"zstd","clevel":0,"shuffle":"noshuffle"})").ok());
  EXPECT_TRUE(try_make("blosc", R"({"cname":"zstd","clevel":0,"shuffle":"bitshuffle","typesize":1024})").ok());
  expect_refused("blosc", R"({"clevel":5,"shuffle":"noshuffle"})", "cname");
  expect_refused("blosc", R"({"cname":"brotli","clevel":5,"shuffle":"noshuffle"})", "cname");
  expect_refused("blosc", R"({"cname":4,"clevel":5,"shuffle":"noshuffle"})", "cname");
  expect_refused("blosc", R"({"cname":"lz4","clevel":10,"shuffle":"noshuffle"})", "clevel");
  expect_refused("blosc", R"({"cname":"lz4","clevel":-1,"shuffle":"noshuffle"})", "clevel");
  expect_refused("blosc", R"({"cname":"lz4","clevel":5.0,"shuffle":"noshuffle"})", "clevel");
  expect_refused("blosc", R"({"cname":"lz4","shuffle":"noshuffle"})", "clevel");
  expect_refused("blosc", R"({"cname":"lz4","clevel":5})", "shuffle");
  expect_refused("blosc", R"({"cname":"lz4","clevel":5,"shuffle":1,"typesize":4})", "shuffle");
  expect_refused("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"shuffle"})", "typesize");
  expect_refused("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":0})", "typesize");
  expect_refused("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"noshuffle","blocksize":-1})", "blocksize");
  expect_refused("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"noshuffle","nthreads":4})", "nthreads");
  for (const int format : {2, 3}) {
    const char* name = format == 2 ? "blosc" : "numcodecs.blosc";
    EXPECT_TRUE(try_make(name, R"({"cname":"lz4","clevel":5,"shuffle":-1,"blocksize":0})", format).ok());
    EXPECT_TRUE(try_make(name, R"({"cname":"lz4","clevel":5,"shuffle":2,"typesize":null})", format).ok());
    EXPECT_TRUE(try_make(name, "{}", format).ok());
    expect_refused(name, R"({"shuffle":3})", "shuffle", format);
    expect_refused(name, R"({"shuffle":"shuffle"})", "shuffle", format);
    expect_refused(name, R"({"typesize":"4"})", "typesize", format);
  }
  EXPECT_TRUE(try_make("blosc", R"({"cname":"lz4","something":1})", 2).ok());
  expect_refused("numcodecs.blosc", R"({"something":1})", "something");
}

}  // namespace
}  // namespace headrace::test

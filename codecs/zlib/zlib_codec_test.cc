// One RFC 1950 stream decodes; its checksum is verified, and nothing may follow it.
#include <libdeflate.h>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Bytes compress(const Bytes& plain, int level = 6) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(level);
  Bytes out(libdeflate_zlib_compress_bound(compressor, plain.size()));
  out.resize(libdeflate_zlib_compress(compressor, plain.data(), plain.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

TEST(ZlibCodec, RoundTrips) {
  const auto codec = make("numcodecs.zlib", R"({"level":1})");
  Decoder decode(*codec);
  for (const int level : {0, 1, 6, 12}) {
    for (const std::size_t bytes : {1, 100, 5000, 300'000}) {
      for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
        const Bytes plain = sample(bytes, content);
        const Decoded got = decode(compress(plain, level), bytes);
        ASSERT_TRUE(got.status.ok()) << got.status.to_string();
        ASSERT_EQ(got.bytes, plain);
      }
    }
  }
  EXPECT_EQ(decode(compress(sample(100, Content::kText)), 200, false).bytes, sample(100, Content::kText));
}

TEST(ZlibCodec, DamagedStreams) {
  const auto codec = make("zlib");
  damage(*codec, compress(sample(900, Content::kText)), 900, true);
  damage(*codec, compress(sample(300, Content::kRandom)), 300, true);
  damage(*codec, compress(sample(100'000, Content::kZeros)), 100'000, true);
}

TEST(ZlibCodec, ChecksumAndDictionary) {
  const auto codec = make("zlib");
  Decoder decode(*codec);
  const Bytes encoded = compress(sample(1000, Content::kText));
  Bytes bad = encoded;
  bad.back() ^= std::byte{1};
  EXPECT_EQ(decode(bad, 1000).status.code(), Code::kCorrupt);
  // The same stream after a header that asks for a preset dictionary.
  Bytes dictionary = encoded;
  const unsigned first = std::to_integer<unsigned>(dictionary[0]);
  unsigned flags = 0x20;
  flags += 31 - (first * 256 + flags) % 31;
  dictionary[1] = static_cast<std::byte>(flags);
  EXPECT_FALSE(decode(dictionary, 1000).status.ok());
}

TEST(ZlibCodec, TwoStreamsAreOneTooMany) {
  const Bytes one = compress(sample(100, Content::kText));
  Bytes two = one;
  two.insert(two.end(), one.begin(), one.end());
  const auto codec = make("zlib");
  Decoder decode(*codec);
  for (const std::size_t size : {100, 200}) EXPECT_EQ(decode(two, size).status.code(), Code::kCorrupt);
}

TEST(ZlibCodec, BombIsRefused) {
  const auto codec = make("zlib");
  EXPECT_EQ(Decoder(*codec)(compress(Bytes(std::size_t{300} << 20), 1), 4096).status.code(), Code::kCorrupt);
}

TEST(ZlibCodec, Configuration) {
  EXPECT_TRUE(try_make("numcodecs.zlib", R"({"level":-1})").ok());
  EXPECT_TRUE(try_make("zlib", R"({"level":9,"x":0})", 2).ok());
  expect_refused("numcodecs.zlib", R"({"level":10})", "level");
  expect_refused("numcodecs.zlib", R"({"wbits":15})", "wbits");
}

}  // namespace
}  // namespace headrace::test

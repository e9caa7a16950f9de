// numcodecs' size word and raw block; the size must equal the one in the metadata.
#include <lz4.h>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Bytes compress(const Bytes& plain) {
  Bytes out(4 + static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
  const auto size = static_cast<std::uint32_t>(plain.size());
  std::memcpy(out.data(), &size, 4);
  const int got = LZ4_compress_default(reinterpret_cast<const char*>(plain.data()), reinterpret_cast<char*>(&out[4]),
                                       static_cast<int>(plain.size()), static_cast<int>(out.size() - 4));
  out.resize(4 + static_cast<std::size_t>(got));
  return out;
}

TEST(Lz4Codec, RoundTrips) {
  const auto codec = make("numcodecs.lz4", R"({"acceleration":1})");
  Decoder decode(*codec);
  for (const std::size_t bytes : {1, 12, 13, 100, 5000, 300'000}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      const Bytes plain = sample(bytes, content);
      const Bytes encoded = compress(plain);
      ASSERT_LE(encoded.size(), codec->encoded_size(bytes).most);
      const Decoded got = decode(encoded, bytes);
      ASSERT_TRUE(got.status.ok()) << got.status.to_string();
      ASSERT_EQ(got.bytes, plain);
    }
  }
  EXPECT_EQ(decode(compress(sample(100, Content::kText)), 200, false).bytes, sample(100, Content::kText));
}

// The output of numcodecs 0.16 for one byte.
TEST(Lz4Codec, SameFramingAsNumcodecs) {
  const auto codec = make("lz4", "{}", 2);
  EXPECT_EQ(Decoder(*codec)(to_bytes(std::string_view("\x01\0\0\0\x10"
                                                      "a",
                                                      6)),
                            1)
                .bytes,
            to_bytes("a"));
}

TEST(Lz4Codec, DamagedStreams) {
  const auto codec = make("numcodecs.lz4");
  damage(*codec, compress(sample(900, Content::kText)), 900);
  damage(*codec, compress(sample(300, Content::kRandom)), 300);
  damage(*codec, compress(sample(50'000, Content::kZeros)), 50'000);
}

TEST(Lz4Codec, SizeWordRules) {
  const Bytes good = compress(sample(1000, Content::kText));
  const auto codec = make("numcodecs.lz4");
  Decoder decode(*codec);
  for (const std::uint32_t size : {0u, 999u, 1001u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    Bytes bad = good;
    std::memcpy(bad.data(), &size, 4);
    const Decoded got = decode(bad, 1000);
    EXPECT_EQ(got.status.code(), Code::kCorrupt) << size;
    EXPECT_NE(got.status.message().find("expected 1000"), std::string::npos) << got.status.message();
  }
  // The size word agrees with the metadata, the block does not.
  Bytes longer = good;
  const std::uint32_t size = 1001;
  std::memcpy(longer.data(), &size, 4);
  EXPECT_EQ(decode(longer, 1001).status.code(), Code::kCorrupt);
}

TEST(Lz4Codec, BombIsRefused) {
  const auto codec = make("numcodecs.lz4");
  EXPECT_EQ(Decoder(*codec)(compress(Bytes(std::size_t{300} << 20)), 4096).status.code(), Code::kCorrupt);
}

TEST(Lz4Codec, PrefixesHaveTheRequestedLength) {
  const auto codec = make("numcodecs.lz4");
  Decoder decode(*codec);
  for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
    for (const std::size_t of : {1, 20, 5000, 300'000}) {
      const Bytes plain = sample(of, content), encoded = compress(plain);
      for (std::size_t bytes = 1; bytes <= of; bytes += 1 + bytes / 3 + bytes % 5) {
        const Decoded got = decode.beginning(encoded, bytes, of);
        ASSERT_TRUE(got.status.ok()) << got.status.to_string();
        ASSERT_EQ(got.bytes, Bytes(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(bytes)));
      }
    }
  }
}

// The size word is checked even if it exceeds the requested beginning; a block that ends too early fails.
TEST(Lz4Codec, PrefixesOfStreamsThatAreTooShortOrTooLong) {
  const auto codec = make("numcodecs.lz4");
  Decoder decode(*codec);
  const Bytes encoded = compress(sample(5000, Content::kText));
  EXPECT_EQ(decode.beginning(encoded, 100, 4999).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode.beginning(encoded, 100, 5001).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode.beginning(encoded, 5001, 6000, false).status.code(), Code::kCorrupt);
  EXPECT_TRUE(decode.beginning(encoded, 5000, 6000, false).status.ok());
  for (std::size_t bytes = 0; bytes < encoded.size(); ++bytes) {
    const Bytes cut(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(bytes));
    const Decoded got = decode.beginning(cut, 4990, 5000);
    if (bytes + 16 < encoded.size()) {
      EXPECT_EQ(got.status.code(), Code::kCorrupt) << bytes;
    }
    const Bytes plain = sample(5000, Content::kText);
    if (got.status.ok()) {
      EXPECT_EQ(got.bytes, Bytes(plain.begin(), plain.end() - 10));
    }
  }
}

// liblz4 would leave the last match's bytes uninitialised, which the Decoder detects.
TEST(Lz4Codec, OffsetZeroInAPrefixExposesNoOldMemory) {
  const auto codec = make("numcodecs.lz4");
  const unsigned char stream[] = {100, 0, 0, 0, 0x1F, 'a', 0, 0, 60, 0x50, 1, 2, 3, 4, 5};
  const Decoded got = Decoder(*codec).beginning(std::as_bytes(std::span(stream)), 40, 100);
  if (got.status.ok()) {
    EXPECT_EQ(got.bytes[0], std::byte{'a'});
    EXPECT_EQ(got.bytes.size(), 40u);
  }
}

TEST(Lz4Codec, Configuration) {
  EXPECT_TRUE(try_make("lz4", R"({"acceleration":7,"x":0})", 2).ok());
  expect_refused("numcodecs.lz4", R"({"acceleration":"fast"})", "acceleration");
  expect_refused("numcodecs.lz4", R"({"level":1})", "level");
  EXPECT_EQ(try_make("lz4", "{}", 3).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace headrace::test

// Any sequence of Zstandard frames decodes; dictionaries, damaged frames and wrong sizes fail.
#include <zdict.h>
#include <zstd.h>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

struct Options {
  int level = 3;
  bool checksum = false;
  bool content_size = true;
};

Bytes frame(const Bytes& plain, Options options = {}) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, options.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, options.checksum);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, options.content_size);
  Bytes out(ZSTD_compressBound(plain.size()));
  const std::size_t got = ZSTD_compress2(context, out.data(), out.size(), plain.data(), plain.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(got));
  out.resize(got);
  return out;
}

Bytes skippable(std::size_t bytes) {
  Bytes out(8 + bytes, std::byte{0x5C});
  const std::uint32_t head[2] = {0x184D2A53, static_cast<std::uint32_t>(bytes)};
  std::memcpy(out.data(), head, 8);
  return out;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(ZstdCodec, RoundTrips) {
  const auto codec = make("zstd", R"({"level":3,"checksum":false})");
  Decoder decode(*codec);
  for (const int level : {-5, 1, 3, 9, 19}) {
    for (const bool checksum : {false, true}) {
      for (const bool content_size : {false, true}) {
        for (const std::size_t bytes : {1, 100, 5000, 300'000}) {
          for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
            const Bytes plain = sample(bytes, content);
            const Decoded got = decode(frame(plain, {level, checksum, content_size}), bytes);
            ASSERT_TRUE(got.status.ok()) << got.status.to_string();
            ASSERT_EQ(got.bytes, plain);
          }
        }
      }
    }
  }
}

TEST(ZstdCodec, FramesAndSkippableFramesInAnyOrder) {
  const auto codec = make("zstd");
  Decoder decode(*codec);
  const Bytes a = sample(1000, Content::kText), b = sample(2000, Content::kSmooth), plain = a + b;
  EXPECT_EQ(decode(frame(a) + frame(b), 3000).bytes, plain);
  EXPECT_EQ(decode(skippable(0) + frame(a) + skippable(9) + frame(b, {1, true, false}) + skippable(100), 3000).bytes,
            plain);
  EXPECT_EQ(decode(frame({}) + frame(a) + frame({}), 1000).bytes, a);
  const Decoded nothing = decode(skippable(10), 1000);
  EXPECT_EQ(nothing.status.code(), Code::kCorrupt);
  EXPECT_NE(nothing.status.message().find("0 bytes, expected 1000"), std::string::npos) << nothing.status.message();
  EXPECT_EQ(decode(frame(a), 3000).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(frame(a) + frame(b), 1000).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(frame(a), 3000, false).bytes, a);
}

TEST(ZstdCodec, DictionaryIsNamed) {
  const Bytes plain = sample(1000, Content::kText);
  Bytes samples;
  std::vector<std::size_t> sizes;
  for (unsigned i = 0; i < 200; ++i) {
    const Bytes one = sample(200, Content::kText, i);
    samples.insert(samples.end(), one.begin(), one.end());
    sizes.push_back(one.size());
  }
  Bytes dictionary(2000);
  const std::size_t got = ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), samples.data(), sizes.data(),
                                                static_cast<unsigned>(sizes.size()));
  ASSERT_FALSE(ZDICT_isError(got)) << ZDICT_getErrorName(got);
  ZSTD_CCtx* context = ZSTD_createCCtx();
  Bytes out(ZSTD_compressBound(plain.size()));
  out.resize(
      ZSTD_compress_usingDict(context, out.data(), out.size(), plain.data(), plain.size(), dictionary.data(), got, 3));
  ZSTD_freeCCtx(context);
  const auto codec = make("zstd");
  const Decoded decoded = Decoder(*codec)(out, 1000);
  EXPECT_EQ(decoded.status.code(), Code::kUnsupported);
  const std::string id = std::to_string(ZDICT_getDictID(dictionary.data(), got));
  EXPECT_NE(decoded.status.message().find("dictionary " + id), std::string::npos) << decoded.status.message();
}

TEST(ZstdCodec, ChecksumIsVerified) {
  const Bytes plain = sample(1000, Content::kRandom);
  Bytes encoded = frame(plain, {3, true, true});
  const auto codec = make("zstd");
  Decoder decode(*codec);
  for (const std::size_t at : {encoded.size() - 1, encoded.size() / 2}) {  // the checksum; a byte of a raw block
    Bytes bad = encoded;
    bad[at] ^= std::byte{1};
    EXPECT_EQ(decode(bad, 1000).status.code(), Code::kCorrupt);
  }
}

TEST(ZstdCodec, OtherFormatsAreRefused) {
  const auto codec = make("zstd");
  Decoder decode(*codec);
  // zstd v0.7, v0.3, v0.1, the LZ4 frame format, none.
  for (const std::uint32_t magic : {0xFD2FB527u, 0xFD2FB523u, 0xFD2FB51Eu, 0x184D2204u, 0u}) {
    Bytes bad = frame(sample(100, Content::kText));
    std::memcpy(bad.data(), &magic, 4);
    EXPECT_EQ(decode(bad, 100).status.code(), Code::kCorrupt);
  }
}

TEST(ZstdCodec, DamagedStreams) {
  const auto codec = make("zstd");
  damage(*codec, frame(sample(900, Content::kText)), 900);
  damage(*codec, frame(sample(900, Content::kSmooth), {3, true, false}), 900, true);
  damage(*codec, frame(sample(300, Content::kRandom)), 300);
  damage(*codec, frame(sample(200'000, Content::kZeros)), 200'000);
}

TEST(ZstdCodec, BombsAreRefused) {
  const auto codec = make("zstd");
  Decoder decode(*codec);
  const Bytes plain(std::size_t{300} << 20);
  for (const bool content_size : {true, false}) {
    const Bytes bomb = frame(plain, {1, false, content_size});
    ASSERT_LT(bomb.size(), 100'000u);
    EXPECT_EQ(decode(bomb, 4096).status.code(), Code::kCorrupt);
  }
}

TEST(ZstdCodec, PrefixesHaveTheRequestedLength) {
  const auto codec = make("zstd", R"({"level":3,"checksum":false})");
  Decoder decode(*codec);
  const Bytes plain = sample(700'000, Content::kSmooth);
  const Bytes first(plain.begin(), plain.begin() + 300'000), rest(plain.begin() + 300'000, plain.end());
  for (const bool checksum : {false, true}) {
    for (const bool content_size : {false, true}) {
      for (const int level : {1, 3, 19}) {
        const Options options{level, checksum, content_size};
        for (const Bytes& stream :
             {frame(plain, options), frame(first, options) + skippable(9) + frame(rest, options)}) {
          for (const std::size_t bytes :
               {1u, 100u, 131'072u, 131'073u, 299'999u, 300'000u, 300'001u, 699'999u, 700'000u}) {
            const Decoded got = decode.beginning(stream, bytes, plain.size());
            ASSERT_TRUE(got.status.ok()) << got.status.to_string();
            ASSERT_EQ(got.bytes, Bytes(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(bytes)));
          }
        }
      }
    }
  }
}

TEST(ZstdCodec, PrefixesOfStreamsThatAreTooShortOrTooLong) {
  const auto codec = make("zstd", R"({"level":3,"checksum":false})");
  Decoder decode(*codec);
  const Bytes plain = sample(300'000, Content::kSmooth);
  for (const bool content_size : {false, true}) {
    const Bytes stream = frame(plain, {3, false, content_size});
    EXPECT_EQ(decode.beginning(stream, 300'001, 400'000).status.code(), Code::kCorrupt);
    EXPECT_EQ(decode.beginning(stream, 300'001, 400'000, false).status.code(), Code::kCorrupt);
    EXPECT_TRUE(decode.beginning(stream, 300'000, 400'000, false).status.ok());
    EXPECT_TRUE(decode.beginning(stream, 1000, 400'000, false).status.ok());
  }
  // The size that the header promises is checked even though it lies beyond the requested prefix.
  EXPECT_EQ(decode.beginning(frame(plain), 1000, 299'999).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode.beginning(frame(plain), 1000, 300'001).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode.beginning(frame(plain) + frame(plain), 1000, 300'000).status.code(), Code::kCorrupt);
  Bytes stream = frame(plain);
  stream.pop_back();
  EXPECT_EQ(decode.beginning(stream, 1000, 300'000).status.code(), Code::kCorrupt);
}

// The header declares a window of 3.75 TiB; no such memory is allocated.
TEST(ZstdCodec, PrefixesOfHugeWindows) {
  const auto codec = make("zstd", R"({"level":3,"checksum":false})");
  Decoder decode(*codec);
  Bytes stream = frame(sample(300'000, Content::kSmooth), {3, false, false});
  const Bytes plain = sample(300'000, Content::kSmooth);
  for (const unsigned window : {0xA0u, 0xB8u, 0xFFu}) {
    stream[5] = static_cast<std::byte>(window);
    const Decoded whole = decode.beginning(stream, 300'000, 300'000), part = decode.beginning(stream, 1000, 300'000);
    ASSERT_EQ(whole.status.code(), part.status.code()) << part.status.to_string();
    if (part.status.ok()) {
      ASSERT_EQ(part.bytes, Bytes(plain.begin(), plain.begin() + 1000));
    }
  }
}

TEST(ZstdCodec, Configuration) {
  EXPECT_TRUE(try_make("zstd", R"({"level":-131072,"checksum":true})").ok());
  EXPECT_TRUE(try_make("zstd", "{}").ok());
  EXPECT_TRUE(try_make("numcodecs.zstd", R"({"level":22})").ok());
  EXPECT_TRUE(try_make("zstd", R"({"level":3,"other":1})", 2).ok());
  expect_refused("zstd", R"({"level":23})", "level");
  expect_refused("zstd", R"({"level":"3"})", "level");
  expect_refused("zstd", R"({"level":18446744073709551615})", "level");
  expect_refused("zstd", R"({"level":3,"checksum":0})", "checksum");
  expect_refused("zstd", R"({"level":3,"windowlog":10})", "windowlog");
  expect_refused("zstd", R"({"level":3.5})", "level", 2);
}

}  // namespace
}  // namespace headrace::test

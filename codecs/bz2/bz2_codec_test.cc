// Decodes one or more streams as written by Python's bz2 module; verifies checksums and refuses trailing bytes.
#include <bzlib.h>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

constexpr std::string_view kText =
    "headrace reads what the world has written, headrace reads what the world has written";
// bz2.compress(kText, 9) of Python 3.11.
constexpr std::string_view kByPython =
    "425a6839314159265359b4c5849d000018118040042e659c80200040555334d460214c000595971c5546b883261b50d2095da755622c612dac"
    "ab"
    "a864ba5d51e7e2ee48a70a121698b093a0";

Bytes compress(const Bytes& plain, int level = 1) {
  Bytes out(plain.size() + plain.size() / 100 + 601);
  auto bytes = static_cast<unsigned>(out.size());
  Bytes in = plain;  // the library's parameter is neither const nor null
  in.reserve(1);
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(reinterpret_cast<char*>(out.data()), &bytes, reinterpret_cast<char*>(in.data()),
                                     static_cast<unsigned>(in.size()), level, 0, 0),
            BZ_OK);
  out.resize(bytes);
  return out;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Bz2Codec, ReadsWhatPythonWrote) {
  for (const auto& codec : {make("bz2", R"({"level":1})", 2), make("numcodecs.bz2"), make("bz2")}) {
    EXPECT_EQ(Decoder(*codec)(from_hex(kByPython), kText.size()).bytes, to_bytes(kText));
  }
}

TEST(Bz2Codec, RoundTrips) {
  const auto codec = make("bz2", "{}", 2);
  Decoder decode(*codec);
  for (const int level : {1, 2, 9}) {
    for (const std::size_t bytes : {1, 100, 5000, 300'000}) {
      for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
        const Bytes plain = sample(bytes, content);
        const Decoded got = decode(compress(plain, level), bytes);
        ASSERT_TRUE(got.status.ok()) << got.status.to_string();
        ASSERT_EQ(got.bytes, plain);
      }
    }
  }
}

// Like Python's bz2.decompress() and bzip2 itself.
TEST(Bz2Codec, StreamsConcatenate) {
  const auto codec = make("bz2", "{}", 2);
  Decoder decode(*codec);
  const Bytes a = sample(1000, Content::kText), b = sample(2000, Content::kSmooth);
  EXPECT_EQ(decode(compress(a) + compress(b, 9), 3000).bytes, a + b);
  EXPECT_EQ(decode(compress({}) + compress(a) + compress({}), 1000).bytes, a);
  EXPECT_EQ(decode(compress(a), 3000, false).bytes, a);
  EXPECT_EQ(decode(compress(a) + compress(b), 2999).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(compress(a) + compress(b), 3001).status.code(), Code::kCorrupt);
}

TEST(Bz2Codec, DamagedStreams) {
  const auto codec = make("bz2", "{}", 2);
  damage(*codec, from_hex(kByPython), kText.size(), true);
  damage(*codec, compress(sample(300, Content::kRandom)), 300, true);
  damage(*codec, compress(sample(10'000, Content::kZeros)), 10'000, true);
}

TEST(Bz2Codec, TrailingBytesAreReported) {
  const auto codec = make("bz2", "{}", 2);
  const Bytes one = from_hex(kByPython);
  const Decoded got = Decoder(*codec)(one + to_bytes("garbage"), kText.size());
  EXPECT_EQ(got.status.code(), Code::kCorrupt);
  EXPECT_NE(got.status.message().find("bytes from 75 of 82 are not a bzip2 stream"), std::string::npos)
      << got.status.message();
}

TEST(Bz2Codec, BombIsRefused) {
  const auto codec = make("bz2", "{}", 2);
  const Decoded got = Decoder(*codec)(compress(Bytes(std::size_t{64} << 20), 9), 4096);
  EXPECT_EQ(got.status.code(), Code::kCorrupt);
  EXPECT_NE(got.status.message().find("4096 bytes expected"), std::string::npos) << got.status.message();
}

TEST(Bz2Codec, Configuration) {
  EXPECT_TRUE(try_make("bz2", R"({"level":9,"x":0})", 2).ok());
  expect_refused("numcodecs.bz2", R"({"level":0})", "level");
  expect_refused("numcodecs.bz2", R"({"level":10})", "level");
  expect_refused("bz2", R"({"level":null})", "level", 2);
  expect_refused("numcodecs.bz2", R"({"small":1})", "small");
}

}  // namespace
}  // namespace headrace::test

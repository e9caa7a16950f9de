// Decodes to the same bytes as numcodecs' shuffle; refuses sizes that are not a whole number of elements, as numcodecs
// does.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Bytes shuffle(const Bytes& plain, std::size_t item) {
  Bytes out = plain;
  const std::size_t items = plain.size() / item;
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t j = 0; j < item; ++j) out[j * items + i] = plain[i * item + j];
  }
  return out;
}

TEST(ShuffleCodec, RoundTrips) {
  for (const std::size_t item : {1, 2, 3, 4, 7, 8, 12, 16, 24, 300}) {
    const auto codec = make("numcodecs.shuffle", R"({"elementsize":)" + std::to_string(item) + "}");
    Decoder decode(*codec);
    for (const std::size_t items : {1, 2, 31, 1000}) {
      const Bytes plain = sample(items * item, Content::kRandom);
      ASSERT_EQ(decode(shuffle(plain, item), plain.size()).bytes, plain);
      EXPECT_TRUE(codec->encoded_size(plain.size()).exact);
      EXPECT_EQ(codec->encoded_size(plain.size()).most, plain.size());
    }
  }
}

// numcodecs 0.16: Shuffle(0).encode(b) is b.
TEST(ShuffleCodec, ZeroLeavesTheBytesAlone) {
  const auto codec = make("numcodecs.shuffle", R"({"elementsize":0})");
  const Bytes plain = sample(100, Content::kRandom);
  EXPECT_EQ(Decoder(*codec)(plain, plain.size()).bytes, plain);
}

// numcodecs 0.16: Shuffle(4).encode(bytes(range(8))).
TEST(ShuffleCodec, SameAsNumcodecs) {
  const auto codec = make("shuffle", "{}", 2);
  const Bytes encoded = to_bytes(std::string_view("\0\4\1\5\2\6\3\7", 8));
  EXPECT_EQ(Decoder(*codec)(encoded, 8).bytes, to_bytes(std::string_view("\0\1\2\3\4\5\6\7", 8)));
}

TEST(ShuffleCodec, WrongSizes) {
  const auto codec = make("numcodecs.shuffle");
  Decoder decode(*codec);
  const Bytes plain = sample(64, Content::kRandom);
  EXPECT_EQ(decode(plain, 60).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(plain, 68).status.code(), Code::kCorrupt);
  EXPECT_TRUE(decode(plain, 68, false).status.ok());
  EXPECT_EQ(decode({plain.data(), 63}, 63).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode({plain.data(), 3}, 3).status.code(), Code::kCorrupt);
  damage(*codec, plain, 64);
}

TEST(ShuffleCodec, Configuration) {
  EXPECT_TRUE(try_make("numcodecs.shuffle", R"({"elementsize":8})").ok());
  EXPECT_TRUE(try_make("numcodecs.shuffle", R"({"elementsize":0})").ok());
  expect_refused("numcodecs.shuffle", R"({"elementsize":-1})", "elementsize");
  expect_refused("numcodecs.shuffle", R"({"elementsize":"4"})", "elementsize");
  expect_refused("numcodecs.shuffle", R"({"elementsize":4294967296})", "elementsize");
  expect_refused("numcodecs.shuffle", R"({"item":4})", "item");
}

}  // namespace
}  // namespace headrace::test

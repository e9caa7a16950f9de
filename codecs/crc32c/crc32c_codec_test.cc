// Every path computes the checksum of RFC 3720, and detects a single flipped bit anywhere.
#include "base/crc32c.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

std::uint32_t bitwise(const Bytes& data) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::byte byte : data) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

Bytes encode(const Bytes& plain, bool at_start = false) {
  const std::uint32_t crc = bitwise(plain);
  Bytes out = plain;
  const auto* word = reinterpret_cast<const std::byte*>(&crc);
  out.insert(at_start ? out.begin() : out.end(), word, word + 4);
  return out;
}

TEST(Crc32c, KnownValues) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(base::crc32c(Bytes(32).data(), 32), 0x8A9136AAu);
  EXPECT_EQ(base::crc32c(Bytes(32, std::byte{0xFF}).data(), 32), 0x62A8AB43u);
  EXPECT_EQ(base::crc32c(to_bytes("123456789").data(), 9), 0xE3069283u);
  EXPECT_EQ(base::crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, AllPathsAgree) {
  std::vector<std::size_t> sizes = {12287, 12288, 12289, 13055, 13056, 24576 + 768 + 9, 100'003};
  for (std::size_t i = 0; i <= 900; ++i) sizes.push_back(i);
  for (const std::size_t bytes : sizes) {
    const Bytes data = sample(bytes, Content::kRandom, unsigned(bytes));
    for (const Flush flush : {Flush::kLeft, Flush::kRight}) {
      const GuardBuffer guarded(data, flush);
      const std::uint32_t expected = bitwise(data);
      ASSERT_EQ(base::crc32c(guarded.data(), bytes), expected) << bytes;
      ASSERT_EQ(base::crc32c_portable(guarded.data(), bytes), expected) << bytes;
    }
  }
}

TEST(Crc32cCodec, RoundTripsAtEitherEnd) {
  for (const bool at_start : {false, true}) {
    const auto codec = at_start ? make("numcodecs.crc32c", R"({"location":"start"})") : make("crc32c");
    Decoder decode(*codec);
    for (const std::size_t bytes : {0, 1, 100, 20'000}) {
      const Bytes plain = sample(bytes, Content::kRandom);
      const Decoded got = decode(encode(plain, at_start), bytes);
      ASSERT_TRUE(got.status.ok()) << got.status.to_string();
      ASSERT_EQ(got.bytes, plain);
      EXPECT_TRUE(codec->encoded_size(bytes).exact);
      EXPECT_EQ(codec->encoded_size(bytes).most, bytes + 4);
    }
  }
}

TEST(Crc32cCodec, EveryFlippedBitIsFound) {
  const auto codec = make("crc32c");
  Decoder decode(*codec);
  const Bytes encoded = encode(sample(100, Content::kRandom));
  for (std::size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
    Bytes bad = encoded;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    const Decoded got = decode(bad, 100);
    ASSERT_EQ(got.status.code(), Code::kCorrupt);
    ASSERT_NE(got.status.message().find("checksum mismatch: stored 0x"), std::string::npos) << got.status.message();
  }
  damage(*codec, encoded, 100, true);
}

TEST(Crc32cCodec, Configuration) {
  EXPECT_TRUE(try_make("crc32c", "{}", 2).ok());
  EXPECT_TRUE(try_make("crc32c", R"({"location":"start"})", 2).ok());
  EXPECT_TRUE(try_make("crc32c", R"({"location":null})", 2).ok());  // numcodecs' own default
  EXPECT_TRUE(try_make("numcodecs.crc32c", R"({"location":null})").ok());
  EXPECT_TRUE(try_make("numcodecs.crc32c", "{}").ok());
  expect_refused("crc32c", R"({"location":"end"})", "location");
  expect_refused("numcodecs.crc32c", R"({"location":"middle"})", "location");
  expect_refused("numcodecs.crc32c", R"({"seed":0})", "seed");
}

}  // namespace
}  // namespace headrace::test

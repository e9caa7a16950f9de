// Members with every header field decode; checksums are verified, and nothing may follow the last member.
#include <libdeflate.h>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Bytes member(const Bytes& plain, int level = 6) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(level);
  Bytes out(libdeflate_gzip_compress_bound(compressor, plain.size()));
  out.resize(libdeflate_gzip_compress(compressor, plain.data(), plain.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

// The same member with the optional header fields selected by `flags`.
Bytes with_header(const Bytes& plain, unsigned flags) {
  const Bytes bare = member(plain);
  Bytes out(bare.begin(), bare.begin() + 10);
  out[3] = static_cast<std::byte>(flags);
  const auto append = [&](std::string_view text) {
    for (const char c : text) out.push_back(static_cast<std::byte>(c));
  };
  using namespace std::string_view_literals;
  if ((flags & 0x04) != 0)
    append(
        "\x05\x00"
        "extra"sv);
  if ((flags & 0x08) != 0) append("name.bin\0"sv);
  if ((flags & 0x10) != 0) append("a comment\0"sv);
  if ((flags & 0x02) != 0) {
    const std::uint32_t crc = libdeflate_crc32(0, out.data(), out.size());
    out.push_back(static_cast<std::byte>(crc));
    out.push_back(static_cast<std::byte>(crc >> 8));
  }
  out.insert(out.end(), bare.begin() + 10, bare.end());
  return out;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(GzipCodec, RoundTrips) {
  const auto codec = make("gzip", R"({"level":5})");
  Decoder decode(*codec);
  for (const int level : {0, 1, 6, 12}) {
    for (const std::size_t bytes : {1, 100, 5000, 300'000}) {
      for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
        const Bytes plain = sample(bytes, content);
        const Decoded got = decode(member(plain, level), bytes);
        ASSERT_TRUE(got.status.ok()) << got.status.to_string();
        ASSERT_EQ(got.bytes, plain);
      }
    }
  }
}

TEST(GzipCodec, HeaderFields) {
  const auto codec = make("gzip");
  Decoder decode(*codec);
  const Bytes plain = sample(500, Content::kText);
  for (unsigned flags = 0; flags < 32; ++flags) {  // 0x01, "text", has no field
    const Bytes encoded = with_header(plain, flags);
    EXPECT_EQ(decode(encoded, 500).bytes, plain) << flags;
    damage(*codec, encoded, 500, false);
  }
  for (const unsigned reserved : {0x20, 0x40, 0x80}) {
    EXPECT_EQ(decode(with_header(plain, reserved), 500).status.code(), Code::kCorrupt);
  }
  Bytes bad = with_header(plain, 0x1E);
  bad[20] ^= std::byte{1};  // in the name
  EXPECT_NE(decode(bad, 500).status.message().find("header checksum"), std::string::npos);
}

TEST(GzipCodec, MembersConcatenate) {
  const auto codec = make("gzip");
  Decoder decode(*codec);
  const Bytes a = sample(1000, Content::kText), b = sample(2000, Content::kSmooth);
  EXPECT_EQ(decode(member(a) + member(b), 3000).bytes, a + b);
  EXPECT_EQ(decode(member({}) + member(a) + member({}), 1000).bytes, a);
  EXPECT_EQ(decode(member(a) + with_header(b, 0x1F) + member(a), 4000).bytes, a + b + a);
  EXPECT_EQ(decode(member(a), 3000, false).bytes, a);
  EXPECT_EQ(decode(member(a), 3000).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(member(a) + member(b), 1000).status.code(), Code::kCorrupt);
}

TEST(GzipCodec, TrailerIsVerified) {
  const auto codec = make("gzip");
  Decoder decode(*codec);
  const Bytes encoded = member(sample(1000, Content::kText));
  for (std::size_t i = 1; i <= 8; ++i) {
    Bytes bad = encoded;
    bad[bad.size() - i] ^= std::byte{0x10};
    EXPECT_EQ(decode(bad, 1000).status.code(), Code::kCorrupt) << i;
  }
}

TEST(GzipCodec, DamagedStreams) {
  const auto codec = make("gzip");
  damage(*codec, member(sample(900, Content::kText)), 900, true);
  damage(*codec, member(sample(300, Content::kRandom)), 300, true);
  damage(*codec, member(sample(100'000, Content::kZeros)), 100'000, true);
}

TEST(GzipCodec, BombIsRefused) {
  const Bytes bomb = member(Bytes(std::size_t{300} << 20), 1);
  const auto codec = make("gzip");
  const Decoded got = Decoder(*codec)(bomb, 4096);
  EXPECT_EQ(got.status.code(), Code::kCorrupt);
  EXPECT_NE(got.status.message().find("4096 bytes expected"), std::string::npos) << got.status.message();
}

TEST(GzipCodec, Configuration) {
  EXPECT_TRUE(try_make("gzip", "{}").ok());
  EXPECT_TRUE(try_make("numcodecs.gzip", R"({"level":1})").ok());
  EXPECT_TRUE(try_make("gzip", R"({"level":9,"x":0})", 2).ok());
  expect_refused("gzip", R"({"level":10})", "level");
  expect_refused("gzip", R"({"level":-1})", "level");
  expect_refused("gzip", R"({"level":true})", "level");
  expect_refused("gzip", R"({"mtime":1})", "mtime");
}

}  // namespace
}  // namespace headrace::test

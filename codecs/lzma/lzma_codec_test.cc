// Decodes every container and filter chain that Python's lzma module writes; verifies checks, accepts only padding
// after the last stream, and never allocates more than the chunk's size because of a header.
#include <lzma.h>
#include <malloc.h>

#include "codec/encoder.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

constexpr std::string_view kText =
    "headrace reads what the world has written, headrace reads what the world has written";

// lzma.compress(kText, ...) of Python 3.11.
constexpr std::string_view kXz =
    "fd377a585a000004e6d6b4460200210116000000742fe5a3e00053002e5d00341948486b4c2ccd07b3a3797aa78ebd3f3fd7e6b47ce442ca0b"
    "f6"
    "bb2299df6d39867bde870b29c8857d2cc0000000000090aaaf406b44582600014a54498716461fb6f37d010000000004595a";
constexpr std::string_view kAlone =
    "5d00008000ffffffffffffffff00341948486b4c2ccd07b3a3797aa78ebd3f3fd7e6b47ce442ca0bf6bb2299df6d39867bde870b29c8857d63"
    "f1"
    "3dffffe3d42000";
constexpr std::string_view kRawDelta =
    "e0005300375d0034195b367107923b79a5ec89327e8eed4cba2e5294ab93e4b2c9e40d241cf181359a8b873f870a524f8e8d913b12282936a1"
    "e8"
    "8e16800000";
constexpr std::string_view kRawLzma1 =
    "00341a134d6a5089341ff1477f8102167ac71af0a7fb00fcc65a14353d06b588da2e80bd4636f875d32de1ed0634a805fff66c8800";
constexpr std::string_view kXzX86Sha256 =
    "fd377a585a00000ae1fb0ca102010400210110008b216f49e00053002f5d00341948486b4c2ccd07b3a3797aa78ebd3f3fd7e6b425bb1dccea"
    "bd"
    "183d2491ca7d7a95b57b1417e053d325bcfc00000000952ca3668be7dd2fdbcb440c7a5d5d7c4620a281de7bbef76a80c9725af0438a000163"
    "54"
    "a2185002189b4b9a01000000000a595a";

struct Vector {
  std::string_view config, hex;
  std::size_t padding = 0;  // trailing bytes that are allowed
};
constexpr Vector kVectors[] = {
    {R"({"format":1,"check":-1,"preset":null,"filters":null})", kXz, 4},
    {"{}", kXzX86Sha256, 4},
    {R"({"format":2})", kAlone},
    {R"({"format":0})", kXz, 4},
    {R"({"format":0})", kAlone},
    {R"({"format":3,"filters":[{"id":3,"dist":2},{"id":33,"preset":6}]})", kRawDelta},
    {R"({"format":3,"filters":[{"id":4611686018427387905,"preset":6,"lc":0,"lp":2,"pb":0}]})", kRawLzma1},
};

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes encode(std::string_view config, const Bytes& plain) {
  const auto codec = make("lzma", config, 2);
  auto encoder = codec->make_encoder();
  EXPECT_TRUE(encoder.ok()) << encoder.status().to_string();
  Bytes out((*encoder)->bound_bytes(plain.size()));
  const auto bytes = (*encoder)->encode(plain, out);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  out.resize(bytes.ok() ? *bytes : 0);
  return out;
}

TEST(LzmaCodec, ReadsWhatPythonWrote) {
  for (const Vector& vector : kVectors) {
    for (const auto& codec : {make("lzma", vector.config, 2), make("numcodecs.lzma", vector.config)}) {
      const Decoded got = Decoder(*codec)(from_hex(vector.hex), kText.size());
      EXPECT_TRUE(got.status.ok()) << vector.config << ": " << got.status.to_string();
      EXPECT_EQ(got.bytes, to_bytes(kText));
    }
  }
}

TEST(LzmaCodec, DamagedStreams) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.config);
    damage(*make("lzma", vector.config, 2), from_hex(vector.hex), kText.size(), vector.padding != 0, vector.padding);
  }
}

TEST(LzmaCodec, EveryFilterAndCheck) {
  for (const char* filters :
       {R"([{"id":33,"preset":0}])", R"([{"id":3,"dist":256},{"id":33,"preset":0}])",
        R"([{"id":4,"start_offset":16},{"id":33,"preset":0}])", R"([{"id":5},{"id":33,"preset":0}])",
        R"([{"id":6},{"id":33,"preset":0}])", R"([{"id":7},{"id":33,"preset":0}])",
        R"([{"id":8},{"id":33,"preset":0}])", R"([{"id":9},{"id":33,"preset":0}])",
        R"([{"id":3},{"id":3,"dist":2},{"id":3,"dist":3},{"id":33,"preset":2147483648}])",
        R"([{"id":33,"dict_size":4096,"lc":4,"lp":0,"pb":4,"mode":2,"nice_len":64,"mf":20,"depth":5}])"}) {
    for (const char* rest : {R"("format":3)", R"("format":1,"check":0)", R"("format":1,"check":1)",
                             R"("format":1,"check":4)", R"("format":1,"check":10)"}) {
      const std::string config = std::string(R"({"filters":)") + filters + "," + rest + "}";
      const Bytes plain = sample(70'000, Content::kSmooth);
      const Decoded got = Decoder(*make("lzma", config, 2))(encode(config, plain), plain.size());
      EXPECT_TRUE(got.status.ok()) << config << ": " << got.status.to_string();
      EXPECT_EQ(got.bytes, plain);
    }
  }
}

TEST(LzmaCodec, StreamsConcatenate) {
  const Bytes a = sample(1000, Content::kText), b = sample(2000, Content::kSmooth);
  for (const char* config : {R"({"format":1,"preset":0})", R"({"format":2,"preset":0})"}) {
    SCOPED_TRACE(config);
    const auto codec = make("lzma", config, 2);
    Decoder decode(*codec);
    const Bytes both = encode(config, a) + encode(config, b);
    EXPECT_EQ(decode(both, 3000).bytes, a + b);
    EXPECT_EQ(decode(encode(config, {}) + both + encode(config, {}), 3000).bytes, a + b);
    for (const std::size_t size : {1000, 2999, 3001}) EXPECT_EQ(decode(both, size).status.code(), Code::kCorrupt);
  }
}

// Without a header, a second stream cannot be told from damage.
TEST(LzmaCodec, RawStreamIsOne) {
  const char* const config = R"({"format":3,"filters":[{"id":33,"preset":0}]})";
  const Bytes plain = sample(1000, Content::kText), one = encode(config, plain);
  const auto codec = make("lzma", config, 2);
  const Decoded got = Decoder(*codec)(one + one, 2000);
  EXPECT_EQ(got.status.code(), Code::kCorrupt);
  EXPECT_NE(got.status.message().find("follow the raw stream"), std::string::npos) << got.status.message();
}

// ["The .xz File Format", 2.2] "the size of Stream Padding MUST be a multiple of four bytes."
TEST(LzmaCodec, PaddingOfXz) {
  const auto codec = make("lzma", "{}", 2);
  Decoder decode(*codec);
  const Bytes one = from_hex(kXz), text = to_bytes(kText);
  EXPECT_EQ(decode(one + Bytes(8) + one, 2 * text.size()).bytes, text + text);
  for (const std::size_t zeros : {1, 2, 3, 5, 7}) {
    EXPECT_EQ(decode(one + Bytes(zeros), text.size()).status.code(), Code::kCorrupt);
    EXPECT_EQ(decode(one + Bytes(zeros) + one, 2 * text.size()).status.code(), Code::kCorrupt);
  }
  EXPECT_EQ(decode(Bytes(4) + one, text.size()).status.code(), Code::kCorrupt);
}

std::size_t mapped_bytes() { return mallinfo2().hblkhd + mallinfo2().uordblks; }

// Headers that declare a dictionary of 4 GiB: the chunk's size bounds the allocation.
TEST(LzmaCodec, DictionaryIsNoLargerThanTheChunk) {
  Bytes xz = from_hex(kXz);
  ASSERT_EQ(xz[16], std::byte{22});  // LZMA2's only property, which means 8 MiB
  xz[16] = std::byte{40};
  const std::uint32_t crc = lzma_crc32(reinterpret_cast<const std::uint8_t*>(&xz[12]), 8, 0);
  std::memcpy(&xz[20], &crc, sizeof crc);
  Bytes alone = from_hex(kAlone);
  std::fill_n(alone.begin() + 1, 4, std::byte{0xFF});
  const std::tuple<const char*, Bytes> cases[] = {
      {"{}", xz},
      {R"({"format":2})", alone},
      {R"({"format":3,"filters":[{"id":3,"dist":2},{"id":33,"dict_size":4294967295}]})", from_hex(kRawDelta)}};
  for (const auto& [config, stream] : cases) {
    const auto codec = make("lzma", config, 2);
    const auto scratch = codec->make_scratch();
    Bytes out(kText.size());
    codec::EncodedStream one{
        .src = stream.data(), .src_bytes = stream.size(), .dst = out.data(), .dst_capacity = out.size()};
    const std::size_t before = mapped_bytes();
    const Status status = codec->decode(one, scratch.get());
    EXPECT_TRUE(status.ok()) << config << ": " << status.to_string();
    EXPECT_EQ(out, to_bytes(kText));
    EXPECT_LT(mapped_bytes() - before, std::size_t{1} << 20) << config;  // the scratch keeps it, so it is still mapped
  }
}

TEST(LzmaCodec, BombIsRefused) {
  for (const char* config : {R"({"preset":0})", R"({"format":2,"preset":0})"}) {
    const Bytes bomb = encode(config, Bytes(std::size_t{64} << 20));
    const Decoded got = Decoder(*make("lzma", config, 2))(bomb, 4096);
    EXPECT_EQ(got.status.code(), Code::kCorrupt);
    EXPECT_NE(got.status.message().find("4096 bytes expected"), std::string::npos) << got.status.message();
  }
}

TEST(LzmaCodec, UnknownFilterIsUnsupported) {
  Bytes xz = from_hex(kXz);
  xz[14] = std::byte{0x2A};  // an unsupported filter identifier
  const std::uint32_t crc = lzma_crc32(reinterpret_cast<const std::uint8_t*>(&xz[12]), 8, 0);
  std::memcpy(&xz[20], &crc, sizeof crc);
  EXPECT_EQ(Decoder(*make("lzma", "{}", 2))(xz, kText.size()).status.code(), Code::kUnsupported);
}

TEST(LzmaCodec, Configuration) {
  EXPECT_TRUE(try_make("numcodecs.lzma", "{}").ok());
  EXPECT_TRUE(try_make("lzma", R"({"format":1,"filters":[{"id":3},{"id":33}],"x":0})", 2).ok());
  expect_refused("lzma", R"({"format":4})", "format", 2);
  expect_refused("lzma", R"({"format":-1})", "format", 2);
  expect_refused("lzma", R"({"check":16})", "check", 2);
  expect_refused("lzma", R"({"preset":10})", "preset", 2);
  expect_refused("lzma", R"({"preset":"6"})", "preset", 2);
  expect_refused("numcodecs.lzma", R"({"memlimit":1})", "memlimit");
  expect_refused("lzma", R"({"format":3})", "filters", 2);
  expect_refused("lzma", R"({"format":3,"filters":null})", "filters", 2);
  for (const char* filters :
       {"[]", "{}", "3", "[3]", "[{}]", R"([{"id":1}])", R"([{"id":-3}])", R"([{"id":"33"}])",
        R"([{"id":33,"preset":10}])", R"([{"id":33,"lc":-1}])", R"([{"id":33,"dist":1}])", R"([{"id":3}])",
        R"([{"id":33},{"id":33}])", R"([{"id":33},{"id":3}])", R"([{"id":3,"dist":0},{"id":33}])",
        R"([{"id":3,"dist":257},{"id":33}])", R"([{"id":3},{"id":3},{"id":3},{"id":3},{"id":33}])",
        R"([{"id":4611686018427387905,"lc":4,"lp":1}])"}) {
    expect_refused("lzma", std::string(R"({"format":3,"filters":)") + filters + "}", "filters", 2);
  }
}

TEST(LzmaCodec, AutomaticFormatIsOnlyRead) {
  const auto made = make("lzma", R"({"format":0})", 2)->make_encoder();
  EXPECT_EQ(made.status().code(), Code::kUnsupported);
  EXPECT_NE(made.status().message().find("format 0"), std::string::npos) << made.status().message();
}

}  // namespace
}  // namespace headrace::test

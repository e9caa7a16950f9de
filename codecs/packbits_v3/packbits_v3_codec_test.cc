// Bits of each number from the lowest up, compared bit by bit with the registration's definition.
#include <random>

#include "base/json.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Result<codec::Codec> try_packbits(std::string_view type, std::string_view config) {
  const DataType dtype = numeric_type(type);
  codec::CodecArgs context;
  context.dtype = &dtype;
  return codec::make_codec("packbits", *base::parse_json(config), context);
}

MadeCodec packbits(std::string_view type, std::string_view config = "{}") {
  auto made = try_packbits(type, config);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? MadeCodec(std::move(made).value()) : MadeCodec();
}

TEST(PackbitsV3Codec, BoolsFromTheLowestBit) {
  const Bytes bools = from_hex("01000101000000000100");
  EXPECT_EQ(Decoder(*packbits("bool"))(from_hex("0d01"), 10).bytes, bools);
  EXPECT_EQ(Decoder(*packbits("bool", R"({"padding_encoding":"none"})"))(from_hex("0d01"), 10).bytes, bools);
  EXPECT_EQ(Decoder(*packbits("bool", R"({"padding_encoding":"first_byte"})"))(from_hex("060d01"), 10).bytes, bools);
  EXPECT_EQ(Decoder(*packbits("bool", R"({"padding_encoding":"last_byte"})"))(from_hex("0d0106"), 10).bytes, bools);
}

TEST(PackbitsV3Codec, PaddingIsAsItShouldBe) {
  const auto codec = packbits("bool", R"({"padding_encoding":"first_byte"})");
  Decoder decode(*codec);
  EXPECT_NE(decode(from_hex("050d01"), 10).status.message().find("leave 6"), std::string::npos);
  EXPECT_EQ(decode(from_hex("060d05"), 10).status.code(), Code::kCorrupt);  // not 0
  EXPECT_EQ(decode(from_hex("0d01"), 10).status.code(), Code::kCorrupt);
  damage(*codec, from_hex("060d01"), 10);
  damage(*packbits("uint8", R"({"last_bit":2})"), from_hex("1f7b"), 5);
}

TEST(PackbitsV3Codec, EveryRangeOfBitsOfEveryType) {
  std::mt19937_64 random(3);
  struct Type {
    const char* name;
    unsigned width_bytes, numbers;
    bool is_signed;
  };
  for (const Type& type : {Type{"int8", 1, 1, true},
                           {"uint8", 1, 1, false},
                           {"int16", 2, 1, true},
                           {"uint32", 4, 1, false},
                           {"int64", 8, 1, true},
                           {"uint64", 8, 1, false},
                           {"float32", 4, 1, false},
                           {"bfloat16", 2, 1, false},
                           {"complex64", 4, 2, false}}) {
    const unsigned bits = 8 * type.width_bytes;
    for (unsigned first = 0; first < bits; first += 1 + first / 4) {
      for (unsigned last = first; last < bits; last += 1 + (last - first) / 4) {
        for (const std::size_t elements : {1, 7, 8, 33}) {
          const std::size_t count = elements * type.numbers;
          const unsigned some = last - first + 1;
          Bytes packed((count * some + 7) / 8), plain(count * type.width_bytes);
          for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t kept = random() >> (64 - some);
            for (unsigned bit = 0; bit < some; ++bit) {
              if ((kept >> bit & 1) != 0) packed[(i * some + bit) / 8] |= std::byte{1} << ((i * some + bit) % 8);
            }
            std::uint64_t value = kept << first;
            if (type.is_signed && (kept >> (some - 1) & 1) != 0 && last < 63) value |= ~std::uint64_t{0} << (last + 1);
            std::memcpy(&plain[i * type.width_bytes], &value, type.width_bytes);
          }
          const auto codec = packbits(
              type.name, R"({"first_bit":)" + std::to_string(first) + R"(,"last_bit":)" + std::to_string(last) + "}");
          const Decoded got = Decoder(*codec)(packed, plain.size());
          ASSERT_TRUE(got.status.ok()) << got.status.to_string();
          ASSERT_EQ(got.bytes, plain) << type.name << " " << first << " " << last;
        }
      }
    }
  }
}

// zarrs omits the padding byte of whole numbers; the registration requires it.
TEST(PackbitsV3Codec, WholeNumbersWithAndWithoutPaddingByte) {
  const auto codec = packbits("int16", R"({"padding_encoding":"last_byte","first_bit":null,"last_bit":null})");
  Decoder decode(*codec);
  EXPECT_EQ(decode(from_hex("01020304"), 4).bytes, from_hex("01020304"));
  EXPECT_EQ(decode(from_hex("0102030400"), 4).bytes, from_hex("01020304"));
  EXPECT_EQ(decode(from_hex("0102030401"), 4).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(from_hex("010203040000"), 4).status.code(), Code::kCorrupt);
}

TEST(PackbitsV3Codec, Configuration) {
  EXPECT_TRUE(try_packbits("bool", R"({"first_bit":0,"last_bit":0})").ok());
  expect_refused("packbits", R"({"padding_encoding":"start_byte"})", "padding_encoding");
  expect_refused("packbits", R"({"padding_encoding":null})", "padding_encoding");
  expect_refused("packbits", R"({"first_bit":-1})", "first_bit");
  expect_refused("packbits", R"({"last_bit":1.5})", "last_bit");
  expect_refused("packbits", R"({"first_bit":4,"last_bit":3})", "last_bit");
  for (const char* config : {R"({"last_bit":8})", R"({"first_bit":8})"}) {
    EXPECT_EQ(try_packbits("int8", config).status().code(), Code::kCorrupt);
  }
  EXPECT_EQ(try_packbits("bool", R"({"last_bit":1})").status().code(), Code::kCorrupt);
  DataType raw;
  raw.kind = TypeKind::kRaw;
  raw.name = "r8";
  codec::CodecArgs context;
  context.dtype = &raw;
  EXPECT_EQ(codec::make_codec("packbits", *base::parse_json("{}"), context).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace headrace::test

// Bits from the highest down, after the number of padding bits in the last byte.
#include "base/json.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

// The example in numcodecs' documentation.
TEST(PackbitsCodec, SameAsNumcodecs) {
  const auto codec = make("packbits", "{}", 2);
  EXPECT_EQ(Decoder(*codec)(to_bytes("\x04\x90"), 4).bytes, to_bytes(std::string_view("\1\0\0\1", 4)));
  damage(*codec, to_bytes("\x04\x90"), 4);
}

TEST(PackbitsCodec, PaddingMustFit) {
  const auto codec = make("packbits", "{}", 2);
  Decoder decode(*codec);
  EXPECT_EQ(decode(to_bytes("\x08\x90"), 0, false).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(to_bytes("\x01"), 0, false).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(to_bytes("\xc8\x01"), 8, false).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(to_bytes("\x04\x90"), 8, false).bytes.size(), 4u);
}

TEST(PackbitsCodec, TheRegisteredCodecOfTheSameNameIsAnother) {
  const DataType type = numeric_type("bool");
  codec::CodecArgs context;
  context.dtype = &type;
  const auto registered = codec::make_codec("packbits", *base::parse_json("{}"), context);
  ASSERT_TRUE(registered.ok());
  EXPECT_EQ(registered->kind(), codec::Kind::kArrayToBytes);
  expect_refused("numcodecs.packbits", R"({"padding_encoding":"first_byte"})", "padding_encoding");
}

}  // namespace
}  // namespace headrace::test

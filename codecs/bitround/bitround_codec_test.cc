// What is stored is what is read.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(BitroundCodec, LeavesTheBytesAlone) {
  const auto codec = make("bitround", R"({"keepbits":7})", 2);
  EXPECT_FALSE(codec->has_decode_stage());
  const Bytes plain = sample(40, Content::kRandom);
  EXPECT_EQ(Decoder(*codec)(plain, 40).bytes, plain);
  damage(*codec, plain, 40);
}

TEST(BitroundCodec, Configuration) {
  EXPECT_TRUE(try_make("bitround", R"({"keepbits":7})").ok());
  expect_refused("bitround", "{}", "keepbits");
  expect_refused("numcodecs.bitround", R"({"keepbits":-1})", "keepbits");
  expect_refused("bitround", R"({"keepbits":7.5})", "keepbits", 2);
  std::vector<std::uint64_t> shape = {3};
  codec::Layout layout;
  const auto codec = make("bitround", R"({"keepbits":7})");
  for (const char* type : {"float16", "int8", "uint64", "complex64", "bfloat16"}) {
    EXPECT_TRUE(codec->resolve_layout(numeric_type(type), shape, layout).ok()) << type;
  }
  EXPECT_EQ(codec->resolve_layout(numeric_type("bool"), shape, layout).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace headrace::test

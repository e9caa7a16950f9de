// Reads return the stored elements unchanged.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(BitroundCodec, LeavesTheBytesAlone) {
  for (const int format : {2, 3}) EXPECT_EQ(make("bitround", R"({"keepbits":7})", format), nullptr) << "has no coder";
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
    EXPECT_TRUE(enter(codec.codec(), numeric_type(type), shape, layout).ok()) << type;
  }
  EXPECT_EQ(enter(codec.codec(), numeric_type("bool"), shape, layout).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace headrace::test

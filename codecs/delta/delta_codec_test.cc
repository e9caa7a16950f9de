// delta sums in the decoded type, in either byte order. tests/unit/filter_vectors_test.cc compares each pair of types
// with numcodecs.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

// The example in numcodecs' documentation.
TEST(DeltaCodec, NarrowDifferences) {
  const auto codec = make("delta", R"({"dtype":"<i2","astype":"|i1"})", 2);
  EXPECT_EQ(Decoder(*codec)(to_bytes("\x64\2\2\2"), 8).bytes,
            to_bytes(std::string_view("\x64\0\x66\0\x68\0\x6a\0", 8)));
  damage(*codec, to_bytes("\x64\2\2\2"), 8);
}

TEST(DeltaCodec, IntegersWrapAround) {
  const auto codec = make("delta", R"({"dtype":"|u1"})", 2);
  EXPECT_EQ(Decoder(*codec)(to_bytes("\xff\3\xfe"), 3).bytes, to_bytes(std::string_view("\xff\2\0", 3)));
}

TEST(DeltaCodec, ByteOrderIsThatOfTheTypesInV2) {
  const auto codec = make("delta", R"({"dtype":">i2","astype":"<i2"})", 2);
  EXPECT_EQ(Decoder(*codec)(to_bytes(std::string_view("\1\0\0\1", 4)), 4).bytes,
            to_bytes(std::string_view("\0\1\1\1", 4)));
}

TEST(DeltaCodec, Configuration) {
  EXPECT_TRUE(try_make("numcodecs.delta", R"({"dtype":"int32"})").ok());
  EXPECT_TRUE(try_make("delta", R"({"dtype":"<i4","x":0})", 2).ok());
  expect_refused("delta", "{}", "dtype", 2);
  expect_refused("delta", R"({"dtype":4})", "dtype", 2);
  expect_refused("delta", R"({"dtype":"<i3"})", "dtype", 2);
  expect_refused("delta", R"({"dtype":"<i4","astype":"i44"})", "astype", 2);
  expect_refused("numcodecs.delta", R"({"dtype":"<i4","order":1})", "order");
  for (const char* type : {"<c8", "<M8[ns]", "|S3", "|O"}) {
    const auto made = try_make("delta", R"({"dtype":")" + std::string(type) + "\"}", 2);
    EXPECT_EQ(made.status().code(), Code::kUnsupported) << type;
    EXPECT_NE(made.status().message().find(type), std::string::npos);
  }
}

}  // namespace
}  // namespace headrace::test

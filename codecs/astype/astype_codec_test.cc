// Tests configurations; tests/unit/filter_vectors_test.cc compares each pair of types with numcodecs.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(AstypeCodec, Configuration) {
  EXPECT_TRUE(try_make("numcodecs.astype", R"({"encode_dtype":"i2","decode_dtype":"float32"})").ok());
  expect_refused("astype", R"({"encode_dtype":"<f4"})", "decode_dtype", 2);
  expect_refused("astype", R"({"decode_dtype":"<f4"})", "encode_dtype", 2);
  expect_refused("astype", R"({"encode_dtype":"<f3","decode_dtype":"<f4"})", "encode_dtype", 2);
  expect_refused("numcodecs.astype", R"({"encode_dtype":"<f4","decode_dtype":"<f4","casting":"safe"})", "casting");
}

TEST(AstypeCodec, DamagedStreams) {
  const auto codec = make("astype", R"({"encode_dtype":">i2","decode_dtype":"<f8"})", 2);
  damage(*codec, sample(40, Content::kRandom), 160);
}

}  // namespace
}  // namespace headrace::test

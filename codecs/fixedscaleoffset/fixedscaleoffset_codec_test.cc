// Tests configurations; tests/unit/filter_vectors_test.cc compares each pair of types with numcodecs.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(FixedScaleOffsetCodec, Configuration) {
  EXPECT_TRUE(try_make("numcodecs.fixedscaleoffset", R"({"scale":1,"offset":0,"dtype":"f8","astype":"u1"})").ok());
  EXPECT_TRUE(try_make("fixedscaleoffset", R"({"scale":1,"offset":0,"dtype":"<f8"})", 2).ok());
  expect_refused("fixedscaleoffset", R"({"offset":0,"dtype":"<f8"})", "scale", 2);
  expect_refused("fixedscaleoffset", R"({"scale":1,"dtype":"<f8"})", "offset", 2);
  expect_refused("fixedscaleoffset", R"({"scale":"1","offset":0,"dtype":"<f8"})", "scale", 2);
  expect_refused("fixedscaleoffset", R"({"scale":1,"offset":0})", "dtype", 2);
  expect_refused("fixedscaleoffset", R"({"scale":1,"offset":0,"dtype":"<f8","astype":"x"})", "astype", 2);
}

TEST(FixedScaleOffsetCodec, DamagedStreams) {
  const auto codec = make("fixedscaleoffset", R"({"scale":10,"offset":1,"dtype":"<f8","astype":"<i2"})", 2);
  damage(*codec, sample(40, Content::kRandom), 160);
}

}  // namespace
}  // namespace headrace::test

// Tests configurations; tests/unit/filter_vectors_test.cc compares each pair of types with numcodecs.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(QuantizeCodec, Configuration) {
  EXPECT_TRUE(try_make("numcodecs.quantize", R"({"digits":1,"dtype":"<f8","astype":"<f4"})").ok());
  expect_refused("quantize", R"({"digits":1})", "dtype", 2);
  expect_refused("quantize", R"({"digits":1,"dtype":"<i4"})", "floating-point", 2);
  expect_refused("quantize", R"({"digits":1,"dtype":"<f4","astype":"<i2"})", "astype", 2);
  expect_refused("quantize", R"({"digits":"1","dtype":"<f4"})", "digits", 2);
}

}  // namespace
}  // namespace headrace::test

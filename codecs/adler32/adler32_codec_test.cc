// The checksum equals that of zlib's adler32(), before or after the bytes.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(Adler32Codec, KnownValueAtEitherEnd) {
  // Of "abc".
  const std::string word{"\x27\x01\x4d\x02", 4};
  EXPECT_EQ(Decoder(*make("adler32", "{}", 2))(to_bytes(word + "abc"), 3).bytes, to_bytes("abc"));
  const auto behind = make("numcodecs.adler32", R"({"location":"end"})");
  EXPECT_EQ(Decoder(*behind)(to_bytes("abc" + word), 3).bytes, to_bytes("abc"));
  damage(*behind, to_bytes("abc" + word), 3, true);
}

TEST(Adler32Codec, Configuration) {
  EXPECT_TRUE(try_make("adler32", R"({"location":null})", 2).ok());
  expect_refused("adler32", R"({"location":"middle"})", "location", 2);
  expect_refused("numcodecs.adler32", R"({"location":1})", "location");
  EXPECT_EQ(try_make("adler32", "{}").status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace headrace::test

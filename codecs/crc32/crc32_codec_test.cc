// The checksum equals that of zlib's crc32(), before or after the bytes.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(Crc32Codec, KnownValueAtEitherEnd) {
  // Of "abc".
  const std::string word{"\xc2\x41\x24\x35", 4};
  EXPECT_EQ(Decoder(*make("crc32", "{}", 2))(to_bytes(word + "abc"), 3).bytes, to_bytes("abc"));
  const auto behind = make("numcodecs.crc32", R"({"location":"end"})");
  EXPECT_EQ(Decoder(*behind)(to_bytes("abc" + word), 3).bytes, to_bytes("abc"));
  damage(*behind, to_bytes("abc" + word), 3, true);
}

TEST(Crc32Codec, Configuration) {
  EXPECT_TRUE(try_make("crc32", R"({"location":null})", 2).ok());
  expect_refused("crc32", R"({"location":"middle"})", "location", 2);
  expect_refused("numcodecs.crc32", R"({"location":1})", "location");
  EXPECT_EQ(try_make("crc32", "{}").status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace headrace::test

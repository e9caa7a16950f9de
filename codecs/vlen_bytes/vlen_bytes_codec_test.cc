// Tests the rules of "codecs/vlen-bytes" and of numcodecs.vlen, which wrote the vector.
#include "tests/support/variable_codec_testing.h"

namespace headrace::test {
namespace {

using namespace std::string_literals;

TEST(VlenBytes, DecodesWhatNumcodecsWrote) {
  // VLenBytes().encode(np.array([b"\xff\x00", b"", b"abc"], dtype=object))
  expect_elements(*make("vlen-bytes"), "\3\0\0\0\2\0\0\0\xff\0\0\0\0\0\3\0\0\0abc"s, {"\xff\0"s, "", "abc"});
}

TEST(VlenBytes, TakesAnyBytes) {
  expect_elements(*make("vlen-bytes"), "\1\0\0\0\3\0\0\0\xff\xc0\x80"s, {"\xff\xc0\x80"});
}

TEST(VlenBytes, RefusesCountsLengthsAndBytesThatDoNotFit) {
  expect_bad(*make("vlen-bytes"), "\1\0\0\0\1\0\0\0a"s, 2, "claims 1 elements, but a chunk has 2");
  expect_bad(*make("vlen-bytes"), "\1\0\0\0\2\0\0\0a"s, 1, "element 0 of 1 has 2 bytes");
  expect_bad(*make("vlen-bytes"), "\1\0\0\0\1\0\0\0ab"s, 1, "1 bytes follow");
  expect_bad(*make("vlen-bytes"), "\1\0\0"s, 1, "no element count");
}

TEST(VlenBytes, EncodesByteStringsOnly) {
  DataType type;
  type.kind = TypeKind::kString;
  type.name = "string";
  std::vector<std::uint64_t> shape = {2};
  codec::Layout layout;
  EXPECT_EQ(enter(make("vlen-bytes").codec(), type, shape, layout).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace headrace::test

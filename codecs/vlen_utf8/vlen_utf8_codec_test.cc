// Tests the rules of "codecs/vlen-utf8" and of numcodecs.vlen, which wrote the vectors.
#include <array>

#include "base/utf8.h"
#include "tests/support/variable_codec_testing.h"

namespace headrace::test {
namespace {

using namespace std::string_literals;

std::string one(std::string_view element) {
  const auto size = static_cast<char>(element.size());
  return "\1\0\0\0"s + size + "\0\0\0"s + std::string(element);
}

TEST(VlenUtf8, DecodesWhatNumcodecsWrote) {
  // VLenUTF8().encode(np.array(["foo", "", "Grüße", None], dtype=object))
  expect_elements(*make("vlen-utf8"), "\x04\0\0\0\x03\0\0\0foo\0\0\0\0\x07\0\0\0Gr\xc3\xbc\xc3\x9f\x65\0\0\0\0"s,
                  {"foo", "", "Gr\xc3\xbc\xc3\x9f\x65", ""});
}

TEST(VlenUtf8, NoElements) { expect_elements(*make("vlen-utf8"), "\0\0\0\0"s, {}); }

TEST(VlenUtf8, EveryUnicodeLengthAndItsEdges) {
  for (const std::string& text : {"\0"s, "\x7f"s, "\xc2\x80"s, "\xdf\xbf"s, "\xe0\xa0\x80"s, "\xed\x9f\xbf"s,
                                  "\xee\x80\x80"s, "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s, "\xf4\x8f\xbf\xbf"s}) {
    expect_elements(*make("vlen-utf8"), one(text), {text});
  }
}

TEST(VlenUtf8, RefusesWhatIsNotUtf8NamingTheElement) {
  for (const std::string& text :
       {"\x80"s, "\xbf"s, "\xc0\xaf"s, "\xc1\xbf"s, "\xc3"s, "\xc3("s, "\xe0\x9f\xbf"s, "\xe2\x82"s, "\xed\xa0\x80"s,
        "\xed\xbf\xbf"s, "\xf0\x8f\xbf\xbf"s, "\xf0\x9f\x98"s, "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s,
        "abcdefgh\xff"s, "abcdefg\xe2\x82\x28"s}) {
    expect_bad(*make("vlen-utf8"), one(text), 1, "element 0 of 1 is not UTF-8");
  }
  // Each element must be valid by itself: two halves of a character are not.
  expect_bad(*make("vlen-utf8"), "\2\0\0\0\1\0\0\0\xc3\1\0\0\0\xa9"s, 2, "element 0 of 2");
  expect_bad(*make("vlen-utf8"), "\2\0\0\0\1\0\0\0a\1\0\0\0\xff"s, 2, "element 1 of 2");
}

TEST(VlenUtf8, RefusesAnotherCountThanTheChunkHas) {
  const std::string two = "\2\0\0\0\1\0\0\0a\1\0\0\0b"s;
  expect_bad(*make("vlen-utf8"), two, 1, "claims 2 elements, but a chunk has 1");
  expect_bad(*make("vlen-utf8"), two, 3, "claims 2 elements, but a chunk has 3");
  expect_bad(*make("vlen-utf8"), "\xff\xff\xff\xff"s, 1, "4294967295");
}

TEST(VlenUtf8, RefusesStreamsThatEndEarly) {
  const std::string two = "\2\0\0\0\3\0\0\0abc\1\0\0\0b"s;
  for (std::size_t size = 0; size < two.size(); ++size) {
    expect_bad(*make("vlen-utf8"), two.substr(0, size), 2, "vlen-utf8");
  }
  expect_bad(*make("vlen-utf8"), "\1\0\0\0\xff\xff\xff\xff"s, 1, "4294967295 bytes");
}

TEST(VlenUtf8, RefusesBytesBehindTheLastElement) {
  expect_bad(*make("vlen-utf8"), one("a") + "x", 1, "1 bytes follow");
}

TEST(VlenUtf8, EncodesStringsOnly) {
  const auto codec = make("vlen-utf8");
  DataType type;
  type.name = "bytes";
  for (const TypeKind kind : {TypeKind::kVariableBytes, TypeKind::kUnicode, TypeKind::kUint}) {
    type.kind = kind;
    std::vector<std::uint64_t> shape = {2};
    codec::Layout layout;
    EXPECT_EQ(enter(codec.codec(), type, shape, layout).code(), Code::kCorrupt);
  }
}

// All strings of up to three bytes, and all of four bytes by their leading bytes, against the standard's table.
TEST(Utf8, AgreesWithTheStandardsTable) {
  const auto valid_at = [](std::span<const unsigned char> text, std::size_t& i) {
    const auto in = [&](std::size_t k, unsigned low, unsigned high) {
      return i + k < text.size() && text[i + k] >= low && text[i + k] <= high;
    };
    struct Row {
      unsigned low, high, second_low, second_high;
      std::size_t length;
    };
    static constexpr Row kRows[] = {
        {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
    for (const Row& row : kRows) {
      if (!in(0, row.low, row.high)) continue;
      if (row.length > 1 && !in(1, row.second_low, row.second_high)) return false;
      for (std::size_t k = 2; k < row.length; ++k) {
        if (!in(k, 0x80, 0xBF)) return false;
      }
      i += row.length;
      return true;
    }
    return false;
  };
  const auto check = [&](std::span<const unsigned char> text) {
    std::size_t i = 0;
    while (i < text.size() && valid_at(text, i)) {
    }
    const std::size_t expected = i == text.size() ? base::kValidUtf8 : i;
    ASSERT_EQ(base::find_invalid_utf8(std::as_bytes(text)), expected);
  };
  std::array<unsigned char, 16> text{};
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      for (const unsigned c : {0x00u, 0x41u, 0x7Fu, 0x80u, 0x8Fu, 0x90u, 0xBFu, 0xC0u, 0xC2u, 0xE1u, 0xFFu}) {
        for (const unsigned d : {0x00u, 0x80u, 0xBFu, 0xC2u}) {
          text = {};
          for (const std::size_t at : {std::size_t{0}, std::size_t{5}, std::size_t{8}}) {
            text[at] = static_cast<unsigned char>(a);
            text[at + 1] = static_cast<unsigned char>(b);
            text[at + 2] = static_cast<unsigned char>(c);
            text[at + 3] = static_cast<unsigned char>(d);
            for (std::size_t size = at + 1; size <= at + 4; ++size) check(std::span(text).first(size));
            check(text);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace::test

// Filters and checksums produce numcodecs' bytes for every pair of types and odd values: tests/data/filters.
#include <cstddef>
#include <string>

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

struct Vector {
  const char* id;
  const char* config;
  const char* stored;  // hexadecimal
  const char* decoded;
};
constexpr Vector kVectors[] = {
#include "tests/data/filters/vectors.inc"
};

Bytes from_hex(std::string_view text) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

std::string to_hex(const Bytes& bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    for (const unsigned digit : {std::to_integer<unsigned>(byte) >> 4, std::to_integer<unsigned>(byte) & 15}) {
      out += "0123456789abcdef"[digit];
    }
  }
  return out;
}

TEST(FilterVectors, SameBytesAsNumcodecs) {
  EXPECT_GE(std::size(kVectors), 400u);
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(std::string(vector.id) + " " + vector.config);
    const auto codec = make(vector.id, vector.config, 2);
    if (vector.id == std::string_view("bitround")) {
      EXPECT_EQ(codec, nullptr) << "is not decoded";
      EXPECT_STREQ(vector.stored, vector.decoded);
      continue;
    }
    ASSERT_NE(codec, nullptr);
    const Bytes stored = from_hex(vector.stored);
    const Decoded got = Decoder(*codec)(stored, std::string_view(vector.decoded).size() / 2);
    EXPECT_TRUE(got.status.ok()) << got.status.to_string();
    EXPECT_EQ(to_hex(got.bytes), vector.decoded) << "from " << vector.stored;
    EXPECT_TRUE(codec->encoded_size(got.bytes.size()).exact);
    EXPECT_EQ(codec->encoded_size(got.bytes.size()).most, stored.size());
  }
}

}  // namespace
}  // namespace headrace::test

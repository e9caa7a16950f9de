// Decodes the vectors of RFC 4648, and refuses everything that no encoder writes.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

TEST(Base64Codec, VectorsOfTheRfc) {
  const auto codec = make("base64", "{}", 2);
  Decoder decode(*codec);
  const std::pair<const char*, const char*> vectors[] = {{"f", "Zg=="},         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},       {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : vectors) {
    const std::size_t bytes = std::string_view(plain).size();
    EXPECT_EQ(decode(to_bytes(encoded), bytes).bytes, to_bytes(plain));
    EXPECT_EQ(decode(to_bytes(encoded), 100, false).bytes, to_bytes(plain));
  }
  EXPECT_EQ(decode(to_bytes("+/+/"), 3).bytes, from_hex("fbffbf"));
}

TEST(Base64Codec, InvalidCharactersAreReported) {
  const auto codec = make("numcodecs.base64");
  Decoder decode(*codec);
  for (const char* text : {"Zm9vYm-y", "Zm9vYm_y", "Zm9vYm y", "Zm9vYm\ny", "Zm9v=mFy", "Zm9vY===", "Zm9v====",
                           "Zm9vYm\xff"
                           "y"}) {
    const Decoded got = decode(to_bytes(text), 10, false);
    EXPECT_EQ(got.status.code(), Code::kCorrupt) << text;
    EXPECT_NE(got.status.message().find("at byte 4"), std::string::npos) << text << ": " << got.status.message();
  }
  EXPECT_EQ(decode(to_bytes("Zg==Zg=="), 2).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(to_bytes("Zm9v\n"), 3).status.code(), Code::kCorrupt);
}

// Python ignores the leftover bits before the padding; here, nonzero ones count as damage.
TEST(Base64Codec, LeftOverBitsAreZero) {
  const auto codec = make("base64", "{}", 2);
  Decoder decode(*codec);
  EXPECT_EQ(decode(to_bytes("Zh=="), 1).status.code(), Code::kCorrupt);
  EXPECT_EQ(decode(to_bytes("Zm9="), 2).status.code(), Code::kCorrupt);
}

TEST(Base64Codec, DamagedStreams) {
  const auto codec = make("base64", "{}", 2);
  for (const char* text : {"Zg==", "Zm8=", "Zm9v", "aGVhZHJhY2U="}) {
    const std::string_view view(text);
    damage(*codec, to_bytes(view),
           view.size() / 4 * 3 - static_cast<std::size_t>(std::count(view.begin(), view.end(), '=')));
  }
}

TEST(Base64Codec, SizesFollowFromEachOther) {
  const auto codec = make("base64", "{}", 2);
  for (const auto& [plain, expected] : {std::pair{0, 0}, {1, 4}, {2, 4}, {3, 4}, {4, 8}, {3000, 4000}}) {
    const codec::EncodedSize encoded = codec->encoded_size(static_cast<std::uint64_t>(plain));
    EXPECT_TRUE(encoded.exact);
    EXPECT_EQ(encoded.most, static_cast<std::uint64_t>(expected));
  }
  EXPECT_EQ(codec->encoded_size(~std::uint64_t{0}).most, ~std::uint64_t{0});
}

TEST(Base64Codec, Configuration) {
  expect_refused("numcodecs.base64", R"({"altchars":"-_"})", "altchars");
  EXPECT_EQ(try_make("base64", "{}").status().code(), Code::kUnsupported);  // no such name is registered for v3
}

}  // namespace
}  // namespace headrace::test
